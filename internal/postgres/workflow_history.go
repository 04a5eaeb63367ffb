package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// The owners of a tag: those who have not deleted theirs, when there are any.
const readOwners = `
SELECT owner FROM workflow_definitions h
WHERE tenant = $1 AND tag = $2 AND (owner = $3 OR $3 = '' AND (NOT deleted OR NOT EXISTS (
	SELECT FROM workflow_definitions o WHERE o.tenant = $1 AND o.tag = $2 AND NOT o.deleted)))
LIMIT 2`

const listPatches = `
SELECT tenant, owner, tag, patch_id, version, base, hash, operations, description, revert_of, updated_at, updated_by, found
FROM (
	SELECT l.*, row_number() OVER newest AS n, count(*) OVER () AS found, sum(coalesce(octet_length(operations::text), 0)) OVER newest AS total
	FROM (` + patchColumns + `
		WHERE tenant = $1 AND tag = $2 AND owner = $3 AND version < $4
		ORDER BY version DESC LIMIT $5::integer + 1
	) AS l (tenant, owner, tag, patch_id, version, base, hash, operations, description, revert_of, updated_at, updated_by)
	WINDOW newest AS (ORDER BY version DESC ROWS UNBOUNDED PRECEDING)
) p WHERE n <= $5 AND (n = 1 OR total <= $6) ORDER BY n`

// patchPlace is the place of a change in a history.
type patchPlace struct {
	Version int64 `json:"v"`
}

// WorkflowPatches lists the changes of a definition, newest first, also of one that is deleted. Owner "" is the one owner of the tag:
// errors as those of [Store.Workflow]. A page has at most 8 MiB of operations, yet at least one change while there is one.
func (s *Store) WorkflowPatches(ctx context.Context, key agent.WorkflowKey, q agent.Page) (agent.WorkflowPatchPage, error) {
	const op = "list patches"
	from := patchPlace{Version: 1<<63 - 1}
	if err := readPageToken(q.Token, &from, func(p *patchPlace) bool { return p.Version > 0 }); err != nil {
		return agent.WorkflowPatchPage{}, err
	}
	rows, err := s.pool.Query(ctx, readOwners, key.Tenant, plain(key.Tag), plain(key.Owner))
	if err != nil {
		return agent.WorkflowPatchPage{}, mapError(op, err)
	}
	owners, err := pgx.CollectRows(rows, pgx.RowTo[string])
	switch {
	case err != nil:
		return agent.WorkflowPatchPage{}, mapError(op, err)
	case len(owners) == 0:
		return agent.WorkflowPatchPage{}, unknownWorkflow(key)
	case len(owners) > 1:
		return agent.WorkflowPatchPage{}, severalOwners(key, owners)
	}
	if rows, err = s.pool.Query(ctx, listPatches, key.Tenant, key.Tag, owners[0], from.Version, pageSize(q.Size), maxListBytes); err != nil {
		return agent.WorkflowPatchPage{}, mapError(op, err)
	}
	var (
		page  agent.WorkflowPatchPage
		found int
	)
	page.Patches, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (agent.WorkflowPatch, error) {
		return scanPatch(withColumn{row, &found})
	})
	if n := len(page.Patches); err == nil && n < found {
		page.Next, err = pageToken(patchPlace{page.Patches[n-1].Version})
	}
	if err != nil {
		return agent.WorkflowPatchPage{}, mapError(op, err)
	}
	return page, nil
}

func severalOwners(key agent.WorkflowKey, owners []string) error {
	return agent.FieldErrorf(agent.CodeConflict, "workflow_owner", "several owners have a workflow %q: %s, %s, …", key.Tag, owners[0], owners[1])
}
