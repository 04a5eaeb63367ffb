package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// ApprovalStore stores approvals, the decisions about them, and the decisions that sessions remember.
type ApprovalStore struct{ *database }

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

// SaveApproval records that a call waits for a person or, if a.Kind is set, for something else. Saving it again changes nothing, not even the
// deadline. The error is [agent.CodeNotFound] if the tenant does not have the turn, and [agent.CodeConflict] if the turn has ended.
func (s *ApprovalStore) SaveApproval(ctx context.Context, tenant string, a agent.Approval) error {
	const op = "save approval"
	args, err := encodeRaw(a.Args)
	if err != nil {
		return mapError(op, err)
	}
	var live bool
	err = s.pool.QueryRow(ctx, saveApproval, a.TurnID, tenant, a.ApprovalID, a.CallID, a.Step, cleanText(a.ToolName), args, cleanText(a.Rule),
		cleanText(a.Description), append([]agent.DecisionKind{}, a.Allowed...), a.ExpiresAt, string(a.OnExpiry), string(a.Remember), a.ArgsHash,
		string(a.Kind), a.Refused).Scan(&live)
	if err == nil && !live {
		return agent.Errorf(agent.CodeConflict, op, "turn %q has ended", a.TurnID)
	}
	return mapError(op, ifNoRows(err, unknownTurn(op, a.TurnID)))
}

// approvalColumns selects the columns for [scanApproval].
const approvalColumns = `
SELECT a.approval_id, a.turn_id, a.call_id, a.step, a.tool_name, a.args, a.rule, coalesce(a.decision, '') AS decision, a.decided_by, a.message,
	a.tenant, t.session_id, t.agent, a.description, a.allowed, a.expires_at, a.on_expiry, a.remember_scope, a.remember, a.decided_args,
	a.created_at, a.decided_at, a.args_hash, a.kind, a.refused
FROM approvals a JOIN turns t ON t.turn_id = a.turn_id`

const (
	readTurnsApprovals = approvalColumns + ` WHERE a.turn_id = $1 ORDER BY a.step, a.created_at, a.approval_id`
	readTurnsApproval  = approvalColumns + ` WHERE a.turn_id = $1 AND a.approval_id = $2`
	readApproval       = approvalColumns + ` WHERE a.approval_id = $2 AND (a.tenant = $1 OR $1 = '*')
ORDER BY a.created_at, a.turn_id LIMIT 1`
)

// Approvals lists the approvals of a turn, decided or not, in the order of its steps. Args are the arguments that the person was shown. If the
// decision is edit, the call runs with DecidedArgs.
func (s *ApprovalStore) Approvals(ctx context.Context, id agent.TurnID) ([]agent.Approval, error) {
	found, err := queryRows(ctx, s.pool, scanApproval, readTurnsApprovals, id)
	return found, mapError("list approvals", err)
}

// Approval returns an approval by its id. The error is [agent.CodeNotFound] if the tenant does not have it. The tenant "*" stands for all
// tenants, for a system without authentication.
func (s *ApprovalStore) Approval(ctx context.Context, tenant, id string) (agent.Approval, error) {
	a, err := queryRow(ctx, s.pool, unknownApproval(id), scanApproval, readApproval, tenant, cleanText(id))
	return a, mapError("read approval", err)
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
	return a, err
}

// isOpen is the condition that approval a has neither been decided nor expired.
const isOpen = `a.decision IS NULL AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())`

// readPendingBelow follows the turns that a turn waits for. The recursion ends because plans never delegate in a cycle.
const readPendingBelow = `
WITH RECURSIVE below (turn_id) AS (
	SELECT $1::text COLLATE "C"
	UNION
	SELECT c.turn_id FROM turns c JOIN below b ON c.parent = b.turn_id WHERE c.parent <> '' AND c.state IN ('queued', 'running')
)` + approvalColumns + ` JOIN below b ON b.turn_id = a.turn_id
WHERE ` + isOpen + `
ORDER BY a.created_at, a.step, a.approval_id`

// PendingBelow lists the undecided approvals of a turn and of the turns that it waits for, oldest first.
func (s *ApprovalStore) PendingBelow(ctx context.Context, id agent.TurnID) ([]agent.Approval, error) {
	found, err := queryRows(ctx, s.pool, scanApproval, readPendingBelow, id)
	return found, mapError("list pending approvals", err)
}

const (
	defaultApprovals = 50
	maxApprovals     = 500
)

// The values of [agent.ApprovalQuery.State].
const (
	approvalsPending = "pending"
	approvalsDecided = "decided"
)

// isPending is the condition that a person can still decide approval a of turn t.
const isPending = isOpen + ` AND (t.state IN ('queued', 'running') OR t.state = 'failed' AND a.refused)`

func listApprovals() string {
	return boundedPage(`approval_id, turn_id, call_id, step, tool_name, args, rule, decision, decided_by, message, tenant, session_id, agent, description,
	allowed, expires_at, on_expiry, remember_scope, remember, decided_args, created_at, decided_at, args_hash, kind, refused`, approvalColumns+`
		WHERE a.kind = '' AND (a.tenant = $1 OR $1 = '*') AND ($2 = '' OR a.turn_id = $2) AND ($3 = '' OR t.session_id = $3)
			AND ($4 <> 'decided' AND `+isPending+` OR $4 <> 'pending' AND a.decision IS NOT NULL)
			AND (a.created_at, a.turn_id, a.approval_id) > ($5, $6, $7)
		ORDER BY a.created_at, a.turn_id, a.approval_id LIMIT $8::integer + 1
	`, `created_at, turn_id, approval_id`,
		`coalesce(octet_length(args::text), 0) + coalesce(octet_length(decided_args::text), 0) + octet_length(description)`, `$8`, `$9`)
}

// approvalPlace is the place of an approval in a list.
type approvalPlace struct {
	CreatedAt  int64        `json:"c"` // microseconds since 1970, never 0
	TurnID     agent.TurnID `json:"t"`
	ApprovalID string       `json:"a"`
}

func (p *approvalPlace) isValid() bool {
	return 0 < p.CreatedAt && p.CreatedAt <= maxTokenTime && checkText("", string(p.TurnID), maxTokenBytes) == nil &&
		checkText("", p.ApprovalID, maxTokenBytes) == nil
}

// ListApprovals returns a page of a tenant's approvals, oldest first. The tenant "*" stands for all tenants, for a system without
// authentication. An approval is pending if a person can still decide it. An empty state stands for pending and decided ones. A page has at
// most 8 MiB of arguments and descriptions, but at least one approval. Next is empty on the last page. An invalid token, state or limit is
// [agent.CodeInvalid] with Field "page_token", "state" or "limit".
func (s *ApprovalStore) ListApprovals(ctx context.Context, q agent.ApprovalQuery) (page agent.ApprovalPage, err error) {
	switch {
	case q.State != "" && q.State != approvalsPending && q.State != approvalsDecided:
		return page, agent.Invalid("state", "want pending or decided, got %.100q", q.State)
	case q.Limit < 0 || q.Limit > maxApprovals:
		return page, agent.Invalid("limit", "is %d, want 1 to %d", q.Limit, maxApprovals)
	case q.Limit == 0:
		q.Limit = defaultApprovals
	}
	var after approvalPlace
	if err := decodePageToken(q.After, &after, (*approvalPlace).isValid); err != nil {
		return page, err
	}
	page.Approvals, page.Next, err = queryBoundedPage(ctx, s.pool, scanApproval, func(last *agent.Approval) any {
		return approvalPlace{CreatedAt: last.CreatedAt.UnixMicro(), TurnID: last.TurnID, ApprovalID: last.ApprovalID}
	}, listApprovals(), q.Tenant, cleanText(string(q.TurnID)), cleanText(string(q.SessionID)), q.State, time.UnixMicro(after.CreatedAt), after.TurnID,
		after.ApprovalID, q.Limit, maxPageBytes)
	return page, mapError("list approvals", err)
}
