package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxDefinitionBytes = 1 << 20
	maxOperationBytes  = 1 << 20
)

// A request that comes twice at once is one after the other, whatever it asks for.
const lockRequest = `
SELECT pg_advisory_xact_lock(hashtextextended('turnstone workflow request ' || $1 || ' ' || $2, 0))`

const ensureDefinition = `
INSERT INTO workflow_definitions (tenant, tag, owner, version, deleted) VALUES ($1, $2, $3, 0, true) ON CONFLICT DO NOTHING`

const lockDefinition = `
SELECT version, clock_timestamp() FROM workflow_definitions WHERE tenant = $1 AND tag = $2 AND owner = $3 FOR UPDATE`

const readRequest = `
SELECT request_hash, tenant, owner, tag, patch_id, version, base_version, hash, unchanged FROM workflow_requests
WHERE tenant = $1 AND idempotency = $2`

const insertVersion = `
INSERT INTO workflow_versions
	(tenant, tag, owner, version, definition, hash, deleted, patch_id, operations, description, revert_of, updated_at, updated_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`

const advanceDefinition = `
UPDATE workflow_definitions SET version = $4, deleted = $5 WHERE tenant = $1 AND tag = $2 AND owner = $3`

const insertRequest = `
INSERT INTO workflow_requests (tenant, idempotency, request_hash, tag, owner, patch_id, version, base_version, hash, unchanged, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp()) ON CONFLICT DO NOTHING`

// Two, so that there is an end to them.
const forgetRequests = `
DELETE FROM workflow_requests WHERE (tenant, idempotency) IN (
	SELECT tenant, idempotency FROM workflow_requests WHERE at < now() - interval '90 days' ORDER BY at LIMIT 2 FOR UPDATE SKIP LOCKED)`

// request is what a request under an idempotency key was answered before.
type request struct {
	agent.WorkflowPatchResult

	requestHash string
}

func (r *request) scan(row pgx.Row) (known bool, err error) {
	err = row.Scan(&r.requestHash, &r.Tenant, &r.Owner, &r.Tag, &r.PatchID, &r.Version, &r.BaseVersion, &r.Hash, &r.Unchanged)
	return err == nil, optional(err)
}

// CommitWorkflow stores the next version of a definition, with the change that made it, in one transaction of two round trips, and answers
// what is stored. Of c.Stored the version counts only as c.Base + 1; without a time it gets the database's.
//
// [agent.CodeConflict] with Field "base_version" when the newest is not c.Base, with Field "patch_id" when that is taken. With an
// Idempotency that the tenant has used in the last 90 days it answers what was stored then, and stores nothing; when the RequestHash is
// another one, [agent.CodeConflict] with Field "idempotency_key". The key is looked at before the base.
func (s *Store) CommitWorkflow(ctx context.Context, c agent.WorkflowCommit) (agent.StoredWorkflow, error) {
	const op = "commit workflow"
	w := c.Stored
	w.Version = c.Base + 1
	if err := checkWorkflow(&c); err != nil {
		return agent.StoredWorkflow{}, err
	}
	var (
		newest int64
		now    time.Time
		before request
		known  bool
	)
	err := transact(ctx, s.pool, func(b *pgx.Batch) {
		if c.Idempotency != "" {
			b.Queue(lockRequest, w.Tenant, c.Idempotency)
			b.Queue(readRequest, w.Tenant, c.Idempotency).QueryRow(func(row pgx.Row) (err error) {
				known, err = before.scan(row)
				return err
			})
		}
		b.Queue(ensureDefinition, w.Tenant, w.Tag, w.Owner)
		b.Queue(lockDefinition, w.Tenant, w.Tag, w.Owner).QueryRow(func(row pgx.Row) error { return row.Scan(&newest, &now) })
	}, func(b *pgx.Batch) error {
		switch {
		case known && before.requestHash != c.RequestHash:
			return agent.FieldErrorf(agent.CodeConflict, "idempotency_key", "was used for another request")
		case known:
			return nil
		case newest != c.Base:
			return agent.FieldErrorf(agent.CodeConflict, "base_version", "the newest version of %q is %d, the change was made for %d", w.Tag, newest, c.Base)
		}
		if w.UpdatedAt.IsZero() {
			w.UpdatedAt = now
		}
		w.UpdatedAt = w.UpdatedAt.UTC().Truncate(time.Microsecond)
		b.Queue(insertVersion, w.Tenant, w.Tag, w.Owner, w.Version, verbatim(w.Definition), w.Hash, w.Deleted, w.PatchID, verbatim(c.Operations),
			c.Description, c.Revert, w.UpdatedAt, w.UpdatedBy)
		b.Queue(advanceDefinition, w.Tenant, w.Tag, w.Owner, w.Version, w.Deleted)
		if c.Idempotency != "" {
			b.Queue(insertRequest, w.Tenant, c.Idempotency, c.RequestHash, w.Tag, w.Owner, w.PatchID, w.Version, c.Base, w.Hash, false)
			b.Queue(forgetRequests)
		}
		return nil
	})
	switch {
	case violates(err, "workflow_versions_tenant_patch_id_key"):
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeConflict, "patch_id", "%q is taken", w.PatchID)
	case err != nil:
		return agent.StoredWorkflow{}, mapError(op, err)
	case known:
		return s.Workflow(ctx, before.WorkflowKey, before.Version)
	}
	return w, nil
}

func checkWorkflow(c *agent.WorkflowCommit) error {
	w := &c.Stored
	if err := checkNames(named{"tenant", w.Tenant, true}, named{"workflow_tag", w.Tag, true}, named{"workflow_owner", w.Owner, true},
		named{"patch_id", w.PatchID, true}, named{"hash", w.Hash, false}, named{"revert_of", c.Revert, false},
		named{"updated_by", w.UpdatedBy, false}, named{"idempotency_key", c.Idempotency, false},
		named{"request_hash", c.RequestHash, false}); err != nil {
		return err
	}
	if err := checkText("description", c.Description, maxTextBytes); err != nil {
		return err
	}
	switch {
	case c.Base < 0:
		return agent.Invalid("base_version", "is %d, want 0 or more", c.Base)
	case len(w.Definition) == 0 && !w.Deleted:
		return agent.Invalid("definition", "is missing")
	case len(w.Definition) > maxDefinitionBytes:
		return agent.Invalid("definition", "is %d bytes, at most %d", len(w.Definition), maxDefinitionBytes)
	case len(c.Operations) > maxOperationBytes:
		return agent.Invalid("operations", "are %d bytes, at most %d", len(c.Operations), maxOperationBytes)
	case len(w.Definition) > 0 && !isJSON(w.Definition):
		return agent.Invalid("definition", "is not JSON")
	case len(c.Operations) > 0 && !isJSON(c.Operations):
		return agent.Invalid("operations", "are not JSON")
	}
	return nil
}

// isJSON reports whether text is JSON that can be kept as it is.
func isJSON(raw json.RawMessage) bool { return utf8.Valid(raw) && json.Valid(raw) }

// RememberUnchanged keeps what a request that changed nothing was answered; the first stands.
func (s *Store) RememberUnchanged(ctx context.Context, r agent.WorkflowPatchResult, idempotency, requestHash string) error {
	if err := checkNames(named{"tenant", r.Tenant, true}, named{"workflow_tag", r.Tag, false}, named{"workflow_owner", r.Owner, false},
		named{"patch_id", r.PatchID, false}, named{"hash", r.Hash, false}, named{"idempotency_key", idempotency, true},
		named{"request_hash", requestHash, false}); err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(insertRequest, r.Tenant, idempotency, requestHash, r.Tag, r.Owner, r.PatchID, r.Version, r.BaseVersion, r.Hash, true)
	b.Queue(forgetRequests)
	return mapError("remember request", s.pool.SendBatch(ctx, &b).Close())
}

// PatchedBefore returns what a request under an idempotency key of the tenant was answered in the last 90 days, and the hash of that
// request; ok is false when the key is new.
func (s *Store) PatchedBefore(ctx context.Context, tenant, idempotency string) (r agent.WorkflowPatchResult, requestHash string, ok bool, err error) {
	var before request
	ok, err = before.scan(s.pool.QueryRow(ctx, readRequest, tenant, plain(idempotency)))
	return before.WorkflowPatchResult, before.requestHash, ok, mapError("read request", err)
}

const patchColumns = `
SELECT tenant, owner, tag, patch_id, version, version - 1, hash, operations, description, revert_of, updated_at, updated_by
FROM workflow_versions `

func scanPatch(row pgx.CollectableRow) (p agent.WorkflowPatch, err error) {
	err = row.Scan(&p.Tenant, &p.Owner, &p.Tag, &p.PatchID, &p.Version, &p.BaseVersion, &p.Hash, (*[]byte)(&p.Operations), &p.Description,
		&p.Revert, &p.At, &p.By)
	p.At = p.At.UTC()
	return p, err
}

// WorkflowPatch returns one change of a definition; [agent.CodeNotFound] with Field "patch_id".
func (s *Store) WorkflowPatch(ctx context.Context, tenant, patchID string) (agent.WorkflowPatch, error) {
	const op = "load patch"
	rows, err := s.pool.Query(ctx, patchColumns+`WHERE tenant = $1 AND patch_id = $2`, tenant, plain(patchID))
	if err != nil {
		return agent.WorkflowPatch{}, mapError(op, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanPatch)
	if errors.Is(err, pgx.ErrNoRows) {
		return agent.WorkflowPatch{}, agent.FieldErrorf(agent.CodeNotFound, "patch_id", "there is no patch %q", patchID)
	}
	return p, mapError(op, err)
}
