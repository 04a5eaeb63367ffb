package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxDefinitionBytes = 1 << 20
	maxOperationBytes  = 1 << 20
)

// lockRequest serialises requests with the same idempotency key.
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

// forgetRequests deletes two old requests for each new one, so that their number shrinks.
const forgetRequests = `
DELETE FROM workflow_requests WHERE (tenant, idempotency) IN (
	SELECT tenant, idempotency FROM workflow_requests WHERE at < now() - interval '90 days' ORDER BY at LIMIT 2 FOR UPDATE SKIP LOCKED)`

// answeredRequest is the stored answer to a request with an idempotency key.
type answeredRequest struct {
	agent.WorkflowPatchResult

	RequestHash string
}

// CommitWorkflow stores version c.Base + 1 of a definition, with the change that led to it, and returns what is stored. It ignores the version in c.Stored.
// If that has no time, the version gets the current time of the database.
//
// The error is [agent.CodeConflict] with Field "base_version" if the newest version is not c.Base, and with Field "patch_id" if the id is taken. If the
// tenant has used c.Idempotency in the last 90 days, CommitWorkflow stores nothing and returns the version of that request, or [agent.CodeConflict] with
// Field "idempotency_key" if its RequestHash was another one. It checks the key before the base.
func (s *WorkflowStore) CommitWorkflow(ctx context.Context, c agent.WorkflowCommit) (agent.StoredWorkflow, error) {
	const op = "commit workflow"
	w := c.Stored
	w.Version = c.Base + 1
	if err := checkWorkflow(&c); err != nil {
		return agent.StoredWorkflow{}, err
	}
	var (
		newest int64
		now    time.Time
		before []answeredRequest
	)
	err := s.transact(ctx, func(b *pgx.Batch) {
		if c.Idempotency != "" {
			b.Queue(lockRequest, w.Tenant, c.Idempotency)
			queueRows(b, &before, pgx.RowToStructByName[answeredRequest], readRequest, w.Tenant, c.Idempotency)
		}
		b.Queue(ensureDefinition, w.Tenant, w.Tag, w.Owner)
		b.Queue(lockDefinition, w.Tenant, w.Tag, w.Owner).QueryRow(scanInto(&newest, &now))
	}, func(b *pgx.Batch) error {
		switch {
		case len(before) > 0 && before[0].RequestHash != c.RequestHash:
			return agent.FieldErrorf(agent.CodeConflict, "idempotency_key", "was used for another request")
		case len(before) > 0:
			return nil
		case newest != c.Base:
			return agent.FieldErrorf(agent.CodeConflict, "base_version", "the newest version of %q is %d, the change was made for %d", w.Tag, newest, c.Base)
		}
		if w.UpdatedAt.IsZero() {
			w.UpdatedAt = now
		}
		w.UpdatedAt = w.UpdatedAt.UTC().Truncate(time.Microsecond)
		b.Queue(insertVersion, w.Tenant, w.Tag, w.Owner, w.Version, rawColumn(w.Definition), w.Hash, w.Deleted, w.PatchID, rawColumn(c.Operations),
			c.Description, c.Revert, w.UpdatedAt, w.UpdatedBy)
		b.Queue(advanceDefinition, w.Tenant, w.Tag, w.Owner, w.Version, w.Deleted)
		if c.Idempotency != "" {
			b.Queue(insertRequest, w.Tenant, c.Idempotency, c.RequestHash, w.Tag, w.Owner, w.PatchID, w.Version, c.Base, w.Hash, false)
			b.Queue(forgetRequests)
		}
		return nil
	})
	switch {
	case isViolation(err, "workflow_versions_tenant_patch_id_key"):
		return agent.StoredWorkflow{}, agent.FieldErrorf(agent.CodeConflict, "patch_id", "%q is taken", w.PatchID)
	case err != nil:
		return agent.StoredWorkflow{}, mapError(op, err)
	case len(before) > 0:
		return s.Workflow(ctx, before[0].WorkflowKey, before[0].Version)
	}
	return w, nil
}

func checkWorkflow(c *agent.WorkflowCommit) error {
	w := &c.Stored
	if err := checkNames(nameField{"tenant", w.Tenant, true}, nameField{"workflow_tag", w.Tag, true}, nameField{"workflow_owner", w.Owner, true},
		nameField{"patch_id", w.PatchID, true}, nameField{"hash", w.Hash, false}, nameField{"revert_of", c.Revert, false},
		nameField{"updated_by", w.UpdatedBy, false}, nameField{"idempotency_key", c.Idempotency, false},
		nameField{"request_hash", c.RequestHash, false}); err != nil {
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

// RememberUnchanged stores the answer to a request that has changed nothing, unless an answer is stored.
func (s *WorkflowStore) RememberUnchanged(ctx context.Context, r agent.WorkflowPatchResult, idempotency, requestHash string) error {
	if err := checkNames(nameField{"tenant", r.Tenant, true}, nameField{"workflow_tag", r.Tag, false}, nameField{"workflow_owner", r.Owner, false},
		nameField{"patch_id", r.PatchID, false}, nameField{"hash", r.Hash, false}, nameField{"idempotency_key", idempotency, true},
		nameField{"request_hash", requestHash, false}); err != nil {
		return err
	}
	var b pgx.Batch
	b.Queue(insertRequest, r.Tenant, idempotency, requestHash, r.Tag, r.Owner, r.PatchID, r.Version, r.BaseVersion, r.Hash, true)
	b.Queue(forgetRequests)
	return mapError("remember request", s.send(ctx, &b))
}

// PatchedBefore returns the stored answer to a request that had an idempotency key in the last 90 days, and the hash of that request. ok is false if the key
// is new.
func (s *WorkflowStore) PatchedBefore(
	ctx context.Context, tenant, idempotency string,
) (r agent.WorkflowPatchResult, requestHash string, ok bool, err error) {
	before, err := queryRows(ctx, s.pool, pgx.RowToStructByName[answeredRequest], readRequest, tenant, cleanText(idempotency))
	if err != nil || len(before) == 0 {
		return r, "", false, mapError("read request", err)
	}
	return before[0].WorkflowPatchResult, before[0].RequestHash, true, nil
}
