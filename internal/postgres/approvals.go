package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const saveApproval = `
WITH turn AS (
	SELECT state IN ('queued', 'running') AS live FROM turns t WHERE turn_id = $1` + ofTenant + ` FOR SHARE
), approval AS (
	INSERT INTO approvals (turn_id, tenant, approval_id, call_id, step, tool_name, args, rule, description, allowed, expires_at, on_expiry,
		remember_scope, args_hash, kind, refused)
	SELECT $1, $2, $3, $4, $5::integer, $6, $7::json, $8, $9, $10::text[], $11::timestamptz, $12, $13, $14, $15, $16 FROM turn WHERE live
	ON CONFLICT DO NOTHING
)
SELECT live FROM turn`

// SaveApproval records that a call waits for a person, and what the person is shown, or, of another kind, for something else. The first save
// stands: saving again changes nothing, not even a deadline. An unknown turn, or another tenant's, is [agent.CodeNotFound]; one that has
// ended [agent.CodeConflict].
func (s *Store) SaveApproval(ctx context.Context, tenant string, a agent.Approval) error {
	const op = "save approval"
	args, err := encodeRaw(a.Args)
	if err != nil {
		return mapError(op, err)
	}
	allowed := make([]string, len(a.Allowed))
	for i, kind := range a.Allowed {
		allowed[i] = string(kind)
	}
	var live bool
	err = s.pool.QueryRow(ctx, saveApproval, a.TurnID, tenant, a.ApprovalID, a.CallID, a.Step, plain(a.ToolName), args, plain(a.Rule),
		plain(a.Description), allowed, a.ExpiresAt, string(a.OnExpiry), string(a.Remember), a.ArgsHash, string(a.Kind), a.Refused).Scan(&live)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return unknownTurn(op, a.TurnID)
	case err != nil:
		return mapError(op, err)
	case !live:
		return agent.Errorf(agent.CodeConflict, op, "turn %q has ended", a.TurnID)
	}
	return nil
}

// approvalSelect has the columns that [scanApproval] reads.
const approvalSelect = `
SELECT a.approval_id, a.turn_id, a.call_id, a.step, a.tool_name, a.args, a.rule, coalesce(a.decision, ''), a.decided_by, a.message,
	a.tenant, t.session_id, t.agent, a.description, a.allowed, a.expires_at, a.on_expiry, a.remember_scope, a.remember, a.decided_args,
	a.created_at, a.decided_at, a.args_hash, a.kind, a.refused`

const approvalColumns = approvalSelect + `
FROM approvals a JOIN turns t ON t.turn_id = a.turn_id`

const (
	readTurnsApprovals = approvalColumns + ` WHERE a.turn_id = $1 ORDER BY a.step, a.created_at, a.approval_id`
	readTurnsApproval  = approvalColumns + ` WHERE a.turn_id = $1 AND a.approval_id = $2`
	readApproval       = approvalColumns + ` WHERE a.approval_id = $2 AND (a.tenant = $1 OR $1 = '*')
ORDER BY a.created_at, a.turn_id LIMIT 1`
)

// Approvals lists the approvals of a turn, decided or not, in the order of its steps. Args are those that the person was shown; after
// the decision edit the call runs with DecidedArgs.
func (s *Store) Approvals(ctx context.Context, id agent.TurnID) ([]agent.Approval, error) {
	rows, err := s.pool.Query(ctx, readTurnsApprovals, id)
	if err != nil {
		return nil, mapError("list approvals", err)
	}
	found, err := pgx.CollectRows(rows, scanApproval)
	return found, mapError("list approvals", err)
}

// Approval returns the approval of an id. What the tenant does not have is [agent.CodeNotFound]; "*" is every tenant, for a system
// without authentication.
func (s *Store) Approval(ctx context.Context, tenant, id string) (agent.Approval, error) {
	const op = "read approval"
	rows, err := s.pool.Query(ctx, readApproval, tenant, plain(id))
	if err != nil {
		return agent.Approval{}, mapError(op, err)
	}
	found, err := pgx.CollectRows(rows, scanApproval)
	switch {
	case err != nil:
		return agent.Approval{}, mapError(op, err)
	case len(found) == 0:
		return agent.Approval{}, unknownApproval(id)
	}
	return found[0], nil
}

func unknownApproval(id string) error {
	return agent.FieldErrorf(agent.CodeNotFound, "approval_id", "approval %q is not known", id)
}

func scanApproval(row pgx.CollectableRow) (a agent.Approval, err error) {
	err = row.Scan(&a.ApprovalID, &a.TurnID, &a.CallID, &a.Step, &a.ToolName, (*[]byte)(&a.Args), &a.Rule, &a.Decision, &a.By, &a.Message,
		&a.Tenant, &a.SessionID, &a.Agent, &a.Description, &a.Allowed, &a.ExpiresAt, &a.OnExpiry, &a.Remember, &a.Remembered,
		(*[]byte)(&a.DecidedArgs), &a.CreatedAt, &a.DecidedAt, &a.ArgsHash, &a.Kind, &a.Refused)
	if len(a.Allowed) == 0 {
		a.Allowed = nil
	}
	for _, at := range []**time.Time{&a.ExpiresAt, &a.CreatedAt, &a.DecidedAt} {
		if *at != nil {
			utc := (*at).UTC()
			*at = &utc
		}
	}
	return a, err
}

const readWaiting = `
SELECT s.holder FROM sessions s
WHERE s.tenant = $1 AND s.session_id = $2 AND EXISTS (
	SELECT FROM approvals a
	WHERE a.turn_id = s.holder AND a.decision IS NULL AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp()))`

// Waiting returns the turn that holds a session while somebody can still answer what it waits for, "" when there is none.
func (s *Store) Waiting(ctx context.Context, tenant string, id agent.SessionID) (agent.TurnID, error) {
	var holder agent.TurnID
	err := s.pool.QueryRow(ctx, readWaiting, tenant, id).Scan(&holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return holder, mapError("read session", err)
}
