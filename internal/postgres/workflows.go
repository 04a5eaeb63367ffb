package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const storedColumns = `v.tenant, v.owner, v.tag, v.version, v.definition, v.hash, v.patch_id, v.deleted, v.updated_at, v.updated_by`

func scanStored(row pgx.CollectableRow) (w agent.StoredWorkflow, err error) {
	err = row.Scan(storedInto(&w)...)
	w.UpdatedAt = w.UpdatedAt.UTC()
	return w, err
}

func storedInto(w *agent.StoredWorkflow) []any {
	return []any{
		&w.Tenant, &w.Owner, &w.Tag, &w.Version, (*[]byte)(&w.Definition), &w.Hash, &w.PatchID, &w.Deleted, &w.UpdatedAt, &w.UpdatedBy,
	}
}

// Two owners are as many as it takes to know that there are several.
const readWorkflow = `
SELECT h.owner, h.deleted, v.version, v.definition, v.hash, v.patch_id, v.deleted, v.updated_at, v.updated_by
FROM (
	SELECT owner, version, deleted FROM workflow_definitions
	WHERE tenant = $1 AND tag = $2 AND (owner = $3 OR $3 = '' AND NOT deleted) LIMIT 2
) h LEFT JOIN workflow_versions v
	ON v.tenant = $1 AND v.tag = $2 AND v.owner = h.owner AND v.version = CASE WHEN $4::bigint = 0 THEN h.version ELSE $4 END`

// Workflow returns a version of a definition, 0 for the newest. Owner "" is the one owner of that tag who has not deleted it.
// [agent.CodeNotFound] with Field "workflow_tag" when there is none, or the newest is asked for and says deleted, with Field "version" when
// there is no such version; [agent.CodeConflict] with Field "workflow_owner" when Owner is empty and there are several. One query.
func (s *Store) Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	const op = "load workflow"
	rows, err := s.pool.Query(ctx, readWorkflow, key.Tenant, plain(key.Tag), plain(key.Owner), version)
	if err != nil {
		return agent.StoredWorkflow{}, mapError(op, err)
	}
	var gone bool
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (agent.StoredWorkflow, error) {
		var (
			w                 = agent.StoredWorkflow{WorkflowKey: key}
			number            *int64
			hash, patchID, by *string
			deleted           *bool
			at                *time.Time
			err               = row.Scan(&w.Owner, &gone, &number, (*[]byte)(&w.Definition), &hash, &patchID, &deleted, &at, &by)
		)
		if err == nil && number != nil {
			w.Version, w.Hash, w.PatchID, w.Deleted, w.UpdatedAt, w.UpdatedBy = *number, *hash, *patchID, *deleted, at.UTC(), *by
		}
		return w, err
	})
	switch {
	case err != nil:
		return agent.StoredWorkflow{}, mapError(op, err)
	case len(found) > 1:
		return agent.StoredWorkflow{}, severalOwners(key, []string{found[0].Owner, found[1].Owner})
	case len(found) == 0, gone && version == 0:
		return agent.StoredWorkflow{}, unknownWorkflow(key)
	case found[0].Version == 0:
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeNotFound, "version", "workflow %q has no version %d", key.Tag, version)
	}
	return found[0], nil
}

func unknownWorkflow(key agent.WorkflowKey) error {
	if key.Owner == "" {
		return agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %q", key.Tag)
	}
	return agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %q of owner %q", key.Tag, key.Owner)
}

const readNewest = `
SELECT version, deleted FROM workflow_definitions WHERE tenant = $1 AND tag = $2 AND owner = $3`

// NewestVersion says which version of a key is the newest, and whether it says deleted; 0 when there never was one.
func (s *Store) NewestVersion(ctx context.Context, key agent.WorkflowKey) (version int64, deleted bool, err error) {
	err = s.pool.QueryRow(ctx, readNewest, key.Tenant, plain(key.Tag), plain(key.Owner)).Scan(&version, &deleted)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, false, nil
	}
	return version, deleted, mapError("read newest version", err)
}

// One more definition than the page may have is looked at, to know whether there are more.
const listWorkflows = `
SELECT tenant, owner, tag, version, definition, hash, patch_id, deleted, updated_at, updated_by, found
FROM (
	SELECT l.*, row_number() OVER place AS n, count(*) OVER () AS found, sum(octet_length(definition::text)) OVER place AS total
	FROM (
		SELECT ` + storedColumns + `
		FROM workflow_definitions h JOIN workflow_versions v USING (tenant, tag, owner, version)
		WHERE (h.tenant = $1 OR $1 = '*') AND ($2 = '' OR h.tag = $2) AND ($3 = '' OR h.owner = $3) AND NOT h.deleted
			AND (h.tenant, h.tag, h.owner) > ($4, $5, $6)
		ORDER BY h.tenant, h.tag, h.owner LIMIT $7::integer + 1
	) l
	WINDOW place AS (ORDER BY tenant, tag, owner ROWS UNBOUNDED PRECEDING)
) p WHERE n <= $7 AND (n = 1 OR total <= $8) ORDER BY n`

// workflowPlace is the place of a definition in a list.
type workflowPlace struct {
	Tenant string `json:"t"`
	Tag    string `json:"g"`
	Owner  string `json:"o"`
}

func (p *workflowPlace) valid() bool {
	return p.Tenant != "" && p.Tag != "" && checkNames(named{value: p.Tenant}, named{value: p.Tag}, named{value: p.Owner}) == nil
}

// Workflows lists the newest versions by tag and owner, without those that say deleted; the tenant "*" is all of them, tenant by tenant. A
// page has at most 8 MiB of definitions, yet at least one while there is one; Next is empty on the last page. One query.
func (s *Store) Workflows(ctx context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	const op = "list workflows"
	var from workflowPlace
	if err := readPageToken(q.Token, &from, (*workflowPlace).valid); err != nil {
		return agent.WorkflowPage{}, err
	}
	// The filters differ so much in what they leave that no plan suits all of them: this mode makes one for the values at hand.
	rows, err := s.pool.Query(ctx, listWorkflows, pgx.QueryExecModeCacheDescribe, q.Tenant, plain(q.Tag), plain(q.Owner),
		from.Tenant, from.Tag, from.Owner, pageSize(q.Size), maxListBytes)
	if err != nil {
		return agent.WorkflowPage{}, mapError(op, err)
	}
	var (
		page  agent.WorkflowPage
		found int
	)
	page.Workflows, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (agent.StoredWorkflow, error) {
		return scanStored(withColumn{row, &found})
	})
	if n := len(page.Workflows); err == nil && n < found {
		last := &page.Workflows[n-1]
		page.Next, err = pageToken(workflowPlace{last.Tenant, last.Tag, last.Owner})
	}
	if err != nil {
		return agent.WorkflowPage{}, mapError(op, err)
	}
	return page, nil
}
