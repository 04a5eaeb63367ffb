package postgres

import (
	"context"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// WorkflowStore stores workflow definitions with all their versions.
type WorkflowStore struct{ *database }

// readWorkflow returns at most two owners, which is enough to know that there are several.
const readWorkflow = `
SELECT h.tenant, h.tag, h.owner, h.deleted AS gone, coalesce(v.version, 0) AS version, v.definition, coalesce(v.hash, '') AS hash,
	coalesce(v.patch_id, '') AS patch_id, coalesce(v.deleted, false) AS deleted, coalesce(v.updated_at, now()) AS updated_at,
	coalesce(v.updated_by, '') AS updated_by
FROM (
	SELECT tenant, tag, owner, version, deleted FROM workflow_definitions
	WHERE tenant = $1 AND tag = $2 AND (owner = $3 OR $3 = '' AND NOT deleted) LIMIT 2
) h LEFT JOIN workflow_versions v
	ON v.tenant = $1 AND v.tag = $2 AND v.owner = h.owner AND v.version = CASE WHEN $4::bigint = 0 THEN h.version ELSE $4 END`

// Workflow returns a version of a definition; version 0 is the newest. An empty owner stands for the only owner of the tag who has not deleted it. The error
// is [agent.CodeNotFound] with Field "workflow_tag" if there is no such definition or it is deleted and version is 0, [agent.CodeNotFound] with Field
// "version" if there is no such version, and [agent.CodeConflict] with Field "workflow_owner" if the owner is empty and there are several.
func (s *WorkflowStore) Workflow(ctx context.Context, key agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	type row struct {
		agent.StoredWorkflow
		Gone bool // whether the definition is deleted
	}
	found, err := queryRows(ctx, s.pool, pgx.RowToStructByName[row], readWorkflow, key.Tenant, cleanText(key.Tag), cleanText(key.Owner), version)
	switch {
	case err != nil:
		return agent.StoredWorkflow{}, mapError("load workflow", err)
	case len(found) > 1:
		return agent.StoredWorkflow{}, severalOwners(key, found[0].Owner, found[1].Owner)
	case len(found) == 0, found[0].Gone && version == 0:
		return agent.StoredWorkflow{}, unknownWorkflow(key)
	case found[0].Version == 0:
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeNotFound, "version", "workflow %q has no version %d", key.Tag, version)
	}
	return found[0].StoredWorkflow, nil
}

func unknownWorkflow(key agent.WorkflowKey) error {
	if key.Owner == "" {
		return agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %q", key.Tag)
	}
	return agent.FieldErrorf(agent.CodeNotFound, "workflow_tag", "there is no workflow %q of owner %q", key.Tag, key.Owner)
}

func severalOwners(key agent.WorkflowKey, first, second string) error {
	return agent.FieldErrorf(agent.CodeConflict, "workflow_owner", "several owners have a workflow %q: %s, %s, …", key.Tag, first, second)
}

const readNewest = `
SELECT version, deleted FROM workflow_definitions WHERE tenant = $1 AND tag = $2 AND owner = $3`

// NewestVersion returns the newest version of a definition, or 0 if there never was one, and whether that version is a deletion.
func (s *WorkflowStore) NewestVersion(ctx context.Context, key agent.WorkflowKey) (version int64, deleted bool, err error) {
	err = s.pool.QueryRow(ctx, readNewest, key.Tenant, cleanText(key.Tag), cleanText(key.Owner)).Scan(&version, &deleted)
	return version, deleted, mapError("read newest version", ignoreNoRows(err))
}

func listWorkflows() string {
	return boundedPage(`tenant, owner, tag, version, definition, hash, patch_id, deleted, updated_at, updated_by`, `
		SELECT v.tenant, v.owner, v.tag, v.version, v.definition, v.hash, v.patch_id, v.deleted, v.updated_at, v.updated_by
		FROM workflow_definitions h JOIN workflow_versions v USING (tenant, tag, owner, version)
		WHERE (h.tenant = $1 OR $1 = '*') AND ($2 = '' OR h.tag = $2) AND ($3 = '' OR h.owner = $3) AND NOT h.deleted
			AND (h.tenant, h.tag, h.owner) > ($4, $5, $6)
		ORDER BY h.tenant, h.tag, h.owner LIMIT $7::integer + 1
	`, `tenant, tag, owner`, `octet_length(definition::text)`, `$7`, `$8`)
}

// workflowPlace is the place of a definition in a list.
type workflowPlace struct {
	Tenant string `json:"t"`
	Tag    string `json:"g"`
	Owner  string `json:"o"`
}

func (p *workflowPlace) isValid() bool {
	return checkNames(nameField{"", p.Tenant, true}, nameField{"", p.Tag, true}, nameField{value: p.Owner}) == nil
}

// Workflows lists the newest versions of definitions by tag and owner, without deleted ones. The tenant "*" stands for all tenants, in their order. A page
// has at most 8 MiB of definitions, but at least one definition. Next is empty on the last page.
func (s *WorkflowStore) Workflows(ctx context.Context, q agent.WorkflowQuery) (page agent.WorkflowPage, err error) {
	var after workflowPlace
	if err := decodePageToken(q.Token, &after, (*workflowPlace).isValid); err != nil {
		return page, err
	}
	page.Workflows, page.Next, err = queryBoundedPage(ctx, s.pool, func(row pgx.CollectableRow) (w agent.StoredWorkflow, err error) {
		err = row.Scan(&w.Tenant, &w.Owner, &w.Tag, &w.Version, &w.Definition, &w.Hash, &w.PatchID, &w.Deleted, &w.UpdatedAt, &w.UpdatedBy)
		return w, err
	}, func(last *agent.StoredWorkflow) any { return workflowPlace{last.Tenant, last.Tag, last.Owner} },
		listWorkflows(), q.Tenant, cleanText(q.Tag), cleanText(q.Owner), after.Tenant, after.Tag, after.Owner, pageSize(q.Size), maxPageBytes)
	return page, mapError("list workflows", err)
}

const patchColumns = `tenant, owner, tag, patch_id, version, version - 1 AS base_version, hash, operations, description, revert_of AS revert,
	updated_at AS at, updated_by AS by`

// WorkflowPatch returns a change of a definition. The error is [agent.CodeNotFound] with Field "patch_id" if the tenant does not have it.
func (s *WorkflowStore) WorkflowPatch(ctx context.Context, tenant, patchID string) (agent.WorkflowPatch, error) {
	unknown := agent.FieldErrorf(agent.CodeNotFound, "patch_id", "there is no patch %q", patchID)
	p, err := queryRow(ctx, s.pool, unknown, pgx.RowToStructByNameLax[agent.WorkflowPatch],
		`SELECT `+patchColumns+` FROM workflow_versions WHERE tenant = $1 AND patch_id = $2`, tenant, cleanText(patchID))
	return p, mapError("load patch", err)
}

// readOwners returns the owners of a tag: those who have not deleted it or, if all have, all of them.
const readOwners = `
SELECT owner FROM workflow_definitions h
WHERE tenant = $1 AND tag = $2 AND (owner = $3 OR $3 = '' AND (NOT deleted OR NOT EXISTS (
	SELECT FROM workflow_definitions o WHERE o.tenant = $1 AND o.tag = $2 AND NOT o.deleted)))
LIMIT 2`

func listPatches() string {
	return boundedPage(`tenant, owner, tag, patch_id, version, base_version, hash, operations, description, revert, at, by`, `
		SELECT `+patchColumns+` FROM workflow_versions
		WHERE tenant = $1 AND tag = $2 AND owner = $3 AND version < $4
		ORDER BY version DESC LIMIT $5::integer + 1
	`, `version DESC`, `coalesce(octet_length(operations::text), 0)`, `$5`, `$6`)
}

// patchPlace is the place of a change in a list.
type patchPlace struct {
	Version int64 `json:"v"`
}

// WorkflowPatches lists the changes of a definition, even of a deleted one, newest first. An empty owner stands for the only owner of the tag, with the
// errors of [WorkflowStore.Workflow]. A page has at most 8 MiB of operations, but at least one change.
func (s *WorkflowStore) WorkflowPatches(ctx context.Context, key agent.WorkflowKey, q agent.Page) (page agent.WorkflowPatchPage, err error) {
	const op = "list patches"
	before := patchPlace{Version: math.MaxInt64}
	if err := decodePageToken(q.Token, &before, func(p *patchPlace) bool { return p.Version > 0 }); err != nil {
		return page, err
	}
	owners, err := queryRows(ctx, s.pool, pgx.RowTo[string], readOwners, key.Tenant, cleanText(key.Tag), cleanText(key.Owner))
	switch {
	case err != nil:
		return page, mapError(op, err)
	case len(owners) == 0:
		return page, unknownWorkflow(key)
	case len(owners) > 1:
		return page, severalOwners(key, owners[0], owners[1])
	}
	page.Patches, page.Next, err = queryBoundedPage(ctx, s.pool, func(row pgx.CollectableRow) (p agent.WorkflowPatch, err error) {
		err = row.Scan(&p.Tenant, &p.Owner, &p.Tag, &p.PatchID, &p.Version, &p.BaseVersion, &p.Hash, &p.Operations, &p.Description, &p.Revert, &p.At,
			&p.By)
		return p, err
	}, func(last *agent.WorkflowPatch) any { return patchPlace{last.Version} },
		listPatches(), key.Tenant, key.Tag, owners[0], before.Version, pageSize(q.Size), maxPageBytes)
	return page, mapError(op, err)
}
