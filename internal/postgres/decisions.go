package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// canRemember is the condition that a decision about approval a may be remembered. Without the hash of the arguments, a decision about one call
// would apply to all calls.
const canRemember = `(a.remember_scope = 'tool' OR a.remember_scope IN ('call', '') AND a.args_hash <> '')`

// decide never overwrites a decision. It locks the turn's row, so that the turn cannot end at the same time. If the turn has failed for want of
// this decision, the decision is always remembered, for later attempts.
const decide = `
WITH turn AS (
	SELECT turn_id, session_id, state FROM turns WHERE turn_id = $1 AND state IN ('queued', 'running', 'failed') FOR SHARE
), decided AS (
	UPDATE approvals a SET decision = $3, decided_args = $4::json, message = $5, remember = $6 OR a.refused, decided_by = $7,
		decided_at = clock_timestamp()
	FROM turn
	WHERE a.turn_id = turn.turn_id AND a.approval_id = $2 AND a.decision IS NULL AND (turn.state <> 'failed' OR a.refused)
		AND (a.kind = '') = ($3 <> 'provide') AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())
		AND (cardinality(a.allowed) = 0 OR $3 = ANY (a.allowed))
		AND (NOT $6 OR $3 IN ('approve', 'reject') AND ` + canRemember + `)
	RETURNING a.*, turn.session_id
)
INSERT INTO remembered_decisions (tenant, session_id, tool, args_hash, decision, message, by, created_at)
SELECT tenant, session_id, tool_name, CASE remember_scope WHEN 'tool' THEN '' ELSE args_hash END, decision, message, decided_by, decided_at
FROM decided WHERE remember
ON CONFLICT (tenant, session_id, tool, args_hash) DO UPDATE
SET decision = excluded.decision, message = excluded.message, by = excluded.by, created_at = excluded.created_at`

const readDecided = `
SELECT a.decision IS NOT NULL, t.state IN ('queued', 'running') OR t.state = 'failed' AND a.refused,
	coalesce(a.expires_at <= clock_timestamp(), false)
FROM approvals a JOIN turns t ON t.turn_id = a.turn_id
WHERE a.turn_id = $1 AND a.approval_id = $2`

// decisionOutcome is the state of an approval after an attempt to decide it.
type decisionOutcome struct {
	agent.Approval

	isDecided bool
	isLive    bool // the turn has not ended, or it has ended and left the approval open
	isLate    bool // the deadline has passed
}

// ResolveApproval stores a decision in one round trip, and remembers it for later calls of the session if d.Remember is set. The same decision
// by the same person is accepted again, even after the turn has ended. The error is
//
//   - [agent.CodeNotFound] for an unknown approval,
//   - [agent.CodeConflict] if there is another decision, the turn has ended, or the approval has expired, whether or not
//     [ApprovalStore.ExpireApprovals] has run,
//   - [agent.CodeInvalid] with Field "decision" if the approval does not allow the decision,
//   - [agent.CodeInvalid] with Field "remember" if the decision cannot be remembered, and
//   - [agent.CodeInvalid] with Field "by" for a decision in the name of [agent.ExpiredBy].
func (s *ApprovalStore) ResolveApproval(ctx context.Context, id agent.TurnID, d agent.Decision) (agent.Approval, error) {
	const op = "decide"
	if d.By == agent.ExpiredBy {
		return agent.Approval{}, agent.Invalid("by", "%q is nobody", d.By)
	}
	var args []byte
	if d.Decision == agent.DecisionEdit || d.Decision == agent.DecisionProvide {
		var err error
		if args, err = encodeRaw(d.Args); err != nil {
			return agent.Approval{}, mapError(op, err)
		}
	}
	d.Args, d.Message, d.By = args, cleanText(d.Message), cleanText(d.By)
	var (
		b       pgx.Batch
		outcome decisionOutcome
	)
	b.Queue(decide, id, d.ApprovalID, string(d.Decision), args, d.Message, d.Remember, d.By)
	b.Queue(readDecided, id, d.ApprovalID).QueryRow(scanOr(unknownApproval(d.ApprovalID), &outcome.isDecided, &outcome.isLive, &outcome.isLate))
	queueRow(&b, &outcome.Approval, nil, scanApproval, readTurnsApproval, id, d.ApprovalID)
	if err := s.send(ctx, &b); err != nil {
		return agent.Approval{}, mapError(op, err)
	}
	if err := outcome.refusal(&d); err != nil {
		return agent.Approval{}, err
	}
	return outcome.Approval, nil
}

// refusal returns why a decision was not stored, nil if it was.
func (o *decisionOutcome) refusal(d *agent.Decision) error {
	const op = "decide"
	switch {
	case o.isDecided && o.isSame(d):
		return nil
	case o.hasExpired():
		return agent.Errorf(agent.CodeConflict, op, "approval %q expired at %s", o.ApprovalID, o.ExpiresAt.Format(time.RFC3339))
	case o.isDecided && o.By == agent.EndedBy:
		return agent.Errorf(agent.CodeConflict, op, "turn %q has ended", o.TurnID)
	case o.isDecided && o.Kind != "":
		return agent.Errorf(agent.CodeConflict, op, "call %q has its result already", o.CallID)
	case o.isDecided:
		return agent.Errorf(agent.CodeConflict, op, "approval %q is decided already, by %q", o.ApprovalID, o.By)
	case !o.isLive:
		return agent.Errorf(agent.CodeConflict, op, "turn %q has ended", o.TurnID)
	case o.Kind != "":
		return agent.Invalid("decision", "%q waits for a result, not for a decision: provide it", o.ApprovalID)
	case d.Decision == agent.DecisionProvide:
		return agent.Invalid("tool_call_id", "call %q waits for a decision, not for a result", o.CallID)
	case len(o.Allowed) > 0 && !slices.Contains(o.Allowed, d.Decision):
		return agent.Invalid("decision", "%q is not allowed here, want %s", d.Decision, orList(o.Allowed))
	case d.Decision != agent.DecisionApprove && d.Decision != agent.DecisionReject:
		return agent.Invalid("remember", "goes with approve and reject only")
	default:
		return agent.Invalid("remember", "decisions about %q are not remembered", o.ToolName)
	}
}

// hasExpired reports whether the approval has expired, whether or not that has been recorded.
func (o *decisionOutcome) hasExpired() bool {
	return o.By == agent.ExpiredBy && o.ExpiresAt != nil || !o.isDecided && o.isLive && o.isLate
}

// isSame reports whether the stored decision is d.
func (o *decisionOutcome) isSame(d *agent.Decision) bool {
	return o.Decision == d.Decision && o.By == d.By && o.Message == d.Message && (o.Remembered == d.Remember || o.Refused) &&
		isSameJSON(o.DecidedArgs, d.Args)
}

func orList(kinds []agent.DecisionKind) string {
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = string(kind)
	}
	return strings.Join(words, " or ")
}

func isSameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}

// expireApprovals locks the rows in a fixed order, so that two processes that expire the same step do not deadlock.
const expireApprovals = `
WITH turn AS (
	SELECT turn_id FROM turns WHERE turn_id = $1 AND state IN ('queued', 'running') FOR SHARE
), due AS (
	SELECT a.turn_id, a.approval_id FROM approvals a JOIN turn ON turn.turn_id = a.turn_id
	WHERE a.step = $2 AND a.decision IS NULL AND a.expires_at <= clock_timestamp()
	ORDER BY a.approval_id FOR UPDATE OF a
)
UPDATE approvals a SET decision = CASE a.on_expiry WHEN 'approve' THEN 'approve' ELSE 'reject' END, decided_by = $3,
	message = CASE a.kind WHEN '' THEN 'nobody decided in time' ELSE 'no result was provided in time' END, decided_at = clock_timestamp()
FROM due WHERE a.turn_id = due.turn_id AND a.approval_id = due.approval_id AND a.decision IS NULL`

const readExpired = approvalColumns + ` WHERE a.turn_id = $1 AND a.step = $2 AND a.decided_by = $3 AND a.decision IS NOT NULL
ORDER BY a.created_at, a.approval_id`

// readNextExpiry rounds up, so that the approval has expired after that time.
const readNextExpiry = `
SELECT CASE WHEN min(a.expires_at) IS NULL THEN 0
	ELSE greatest(ceil(extract(epoch FROM min(a.expires_at) - clock_timestamp()) * 1000), 1) END::bigint
FROM approvals a JOIN turns t ON t.turn_id = a.turn_id
WHERE a.turn_id = $1 AND a.step = $2 AND a.decision IS NULL AND t.state IN ('queued', 'running')`

// ExpireApprovals decides the undecided approvals of a step that have expired, in the name of [agent.ExpiredBy]. It approves those whose OnExpiry
// is approve and rejects the others; if OnExpiry is end, the caller also has to end the turn. It returns all approvals of the step that have
// expired, now or before, and the time until the next one expires, which is 0 if there is none or the turn has ended. The clock is that of
// the database.
func (s *ApprovalStore) ExpireApprovals(
	ctx context.Context, id agent.TurnID, step int,
) (expired []agent.Approval, next time.Duration, err error) {
	var (
		b  pgx.Batch
		ms int64
	)
	b.Queue(expireApprovals, id, step, agent.ExpiredBy)
	queueRows(&b, &expired, scanApproval, readExpired, id, step, agent.ExpiredBy)
	b.Queue(readNextExpiry, id, step).QueryRow(scanInto(&ms))
	if err := s.send(ctx, &b); err != nil {
		return nil, 0, mapError("expire approvals", err)
	}
	return expired, time.Duration(ms) * time.Millisecond, nil
}

// readRemembered finds the newest decision for each key, which is about that call or about all calls of the tool.
const readRemembered = `
SELECT DISTINCT r.tool, r.args_hash, r.decision, r.message, r.by, r.created_at
FROM unnest($3::text[], $4::text[]) AS k (tool, args_hash), LATERAL (
	SELECT * FROM remembered_decisions d
	WHERE d.tenant = $1 AND d.session_id = $2 AND d.tool = k.tool AND d.args_hash IN ('', k.args_hash)
	ORDER BY d.created_at DESC, d.args_hash DESC LIMIT 1
) r
ORDER BY r.created_at DESC, r.tool, r.args_hash DESC`

// Remembered returns the remembered decisions of a session for calls with these keys, newest first. A call gets the first decision that has its
// key, or its tool and an empty hash.
func (s *ApprovalStore) Remembered(
	ctx context.Context, tenant string, id agent.SessionID, keys []agent.RememberKey,
) ([]agent.Remembered, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	tools, hashes := make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		tools[i], hashes[i] = cleanText(key.Tool), key.ArgsHash
	}
	found, err := queryRows(ctx, s.pool, func(row pgx.CollectableRow) (r agent.Remembered, err error) {
		err = row.Scan(&r.Key.Tool, &r.Key.ArgsHash, &r.Decision, &r.Message, &r.By, nil)
		return r, err
	}, readRemembered, tenant, id, tools, hashes)
	return found, mapError("read decisions", err)
}
