package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

const saveApproval = `
WITH turn AS (
	SELECT state IN ('queued', 'running') AS live FROM turns WHERE turn_id = $1 AND tenant = $2 FOR SHARE
), approval AS (
	INSERT INTO approvals (turn_id, tenant, approval_id, call_id, step, tool_name, args, rule)
	SELECT $1, $2, $3, $4, $5::integer, $6, $7::json, $8 FROM turn WHERE live
	ON CONFLICT DO NOTHING
)
SELECT live FROM turn`

// SaveApproval records that a call waits for a person. Saving it again changes nothing. An unknown turn, or another tenant's, is
// [agent.CodeNotFound]; one that has ended [agent.CodeConflict].
func (s *Store) SaveApproval(ctx context.Context, tenant string, a agent.Approval) error {
	const op = "save approval"
	args, err := encodeRaw(a.Args)
	if err != nil {
		return mapError(op, err)
	}
	var live bool
	err = s.pool.QueryRow(ctx, saveApproval, a.TurnID, tenant, a.ApprovalID, a.CallID, a.Step, plain(a.ToolName), args, plain(a.Rule)).
		Scan(&live)
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

const approvalColumns = `
SELECT approval_id, turn_id, call_id, step, tool_name, coalesce(decided_args, args), rule, coalesce(decision, ''), decided_by, message
FROM approvals WHERE turn_id = $1`

const (
	readApprovals = approvalColumns + ` ORDER BY step, created_at, approval_id`
	readDecided   = `
SELECT a.decision IS NOT NULL, t.state IN ('queued', 'running'), coalesce(a.decision, ''), a.decided_args, a.message, a.remember,
	a.decided_by
FROM approvals a JOIN turns t ON t.turn_id = a.turn_id
WHERE a.turn_id = $1 AND a.approval_id = $2`
	readApproval = approvalColumns + ` AND approval_id = $2`
)

// Approvals lists the approvals of a turn, decided or not, in the order of its steps. Args are those to run with: after the decision
// edit, the edited ones.
func (s *Store) Approvals(ctx context.Context, id agent.TurnID) ([]agent.Approval, error) {
	rows, err := s.pool.Query(ctx, readApprovals, id)
	if err != nil {
		return nil, mapError("list approvals", err)
	}
	found, err := pgx.CollectRows(rows, scanApproval)
	return found, mapError("list approvals", err)
}

func scanApproval(row pgx.CollectableRow) (a agent.Approval, err error) {
	err = row.Scan(&a.ApprovalID, &a.TurnID, &a.CallID, &a.Step, &a.ToolName, (*[]byte)(&a.Args), &a.Rule, &a.Decision, &a.By, &a.Message)
	return a, err
}

// The turn's row is locked so that it cannot end in between.
const decide = `
WITH turn AS (
	SELECT turn_id FROM turns WHERE turn_id = $1 AND state IN ('queued', 'running') FOR SHARE
)
UPDATE approvals a SET decision = $3, decided_args = $4::json, message = $5, remember = $6, decided_by = $7,
	decided_at = clock_timestamp()
FROM turn WHERE a.turn_id = turn.turn_id AND a.approval_id = $2 AND a.decision IS NULL`

// decided is a decision as it is stored.
type decided struct {
	done bool // somebody has decided
	live bool // the turn has not ended
	agent.Decision
}

// ResolveApproval stores a decision, in one round trip. Deciding again is accepted silently when it is the same decision by the same
// person, also after the turn has ended; any other second decision, and the first one for a turn that has ended, is
// [agent.CodeConflict]. An unknown approval is [agent.CodeNotFound].
func (s *Store) ResolveApproval(ctx context.Context, id agent.TurnID, d agent.Decision) (agent.Approval, error) {
	const op = "decide"
	var args []byte
	if d.Decision == agent.DecisionEdit {
		var err error
		if args, err = encodeRaw(d.Args); err != nil {
			return agent.Approval{}, mapError(op, err)
		}
	}
	d.Args, d.Message, d.By = args, plain(d.Message), plain(d.By)
	var (
		b        pgx.Batch
		stored   decided
		approval agent.Approval
	)
	b.Queue(decide, id, d.ApprovalID, d.Decision, args, d.Message, d.Remember, d.By)
	b.Queue(readDecided, id, d.ApprovalID).QueryRow(func(row pgx.Row) error {
		var args []byte
		err := row.Scan(&stored.done, &stored.live, &stored.Decision.Decision, &args, &stored.Message, &stored.Remember, &stored.By)
		stored.Args = args
		if errors.Is(err, pgx.ErrNoRows) {
			return agent.Errorf(agent.CodeNotFound, "", "approval %q is not known", d.ApprovalID)
		}
		return err
	})
	b.Queue(readApproval, id, d.ApprovalID).Query(func(rows pgx.Rows) (err error) {
		approval, err = pgx.CollectExactlyOneRow(rows, scanApproval)
		return err
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return agent.Approval{}, mapError(op, err)
	}
	switch {
	case !stored.done:
		return agent.Approval{}, agent.Errorf(agent.CodeConflict, op, "turn %q has ended", id)
	case !stored.same(&d):
		return agent.Approval{}, agent.Errorf(agent.CodeConflict, op, "approval %q is decided already, by %q", d.ApprovalID, stored.By)
	}
	return approval, nil
}

func (s *decided) same(d *agent.Decision) bool {
	return s.Decision.Decision == d.Decision && s.By == d.By && s.Message == d.Message && s.Remember == d.Remember &&
		sameJSON(s.Args, d.Args)
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}

const readWaiting = `
SELECT s.holder FROM sessions s
WHERE s.tenant = $1 AND s.session_id = $2 AND EXISTS (SELECT FROM approvals a WHERE a.turn_id = s.holder AND a.decision IS NULL)`

// Waiting returns the turn that holds a session while a person has not decided one of its approvals, "" when there is none.
func (s *Store) Waiting(ctx context.Context, tenant string, id agent.SessionID) (agent.TurnID, error) {
	var holder agent.TurnID
	err := s.pool.QueryRow(ctx, readWaiting, tenant, id).Scan(&holder)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return holder, mapError("read session", err)
}
