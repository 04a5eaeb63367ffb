package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
)

// rememberable says whether a decision on approval a may be remembered: without the hash of its arguments a decision about one call
// would stand for all of them.
const rememberable = `(a.remember_scope = 'tool' OR a.remember_scope IN ('call', '') AND a.args_hash <> '')`

// What was decided is never written again: the update asks for decision IS NULL. The turn's row is locked so that it cannot end in
// between. A decision about a call for want of which its turn has failed is always remembered: it is for later attempts.
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
		AND (NOT $6 OR $3 IN ('approve', 'reject') AND ` + rememberable + `)
	RETURNING a.*, turn.session_id
)
INSERT INTO remembered_decisions (tenant, session_id, tool, args_hash, decision, message, by, created_at)
SELECT tenant, session_id, tool_name, CASE remember_scope WHEN 'tool' THEN '' ELSE args_hash END, decision, message, decided_by, decided_at
FROM decided WHERE remember
ON CONFLICT (tenant, session_id, tool, args_hash) DO UPDATE
SET decision = excluded.decision, message = excluded.message, by = excluded.by, created_at = excluded.created_at`

const readDecided = `
SELECT a.decision IS NOT NULL, t.state IN ('queued', 'running') OR t.state = 'failed' AND a.refused, a.expires_at <= clock_timestamp(), ` + rememberable + `
FROM approvals a JOIN turns t ON t.turn_id = a.turn_id
WHERE a.turn_id = $1 AND a.approval_id = $2`

// decisionOutcome is how an approval stands after somebody tried to decide it.
type decisionOutcome struct {
	agent.Approval

	done         bool  // somebody, or the lapse of time, has decided
	live         bool  // the turn has not ended, or its end leaves the approval open
	late         *bool // its time is over; nil: it has no end
	rememberable bool
}

// ResolveApproval stores a decision, in one round trip, and with it what is to be remembered for later calls of the session. Deciding
// again is accepted silently when it is the same decision by the same person, also after the turn has ended. Refused are, with nothing
// stored:
//
//   - an unknown approval: [agent.CodeNotFound]
//   - any other second decision, the first one for a turn that has ended, and one that comes after the approval expired, whether or not
//     [Store.ExpireApprovals] has run: [agent.CodeConflict]
//   - a decision that is not allowed here: [agent.CodeInvalid] with Field "decision"
//   - one to be remembered where the policy does not have it, or that changes the call: [agent.CodeInvalid] with Field "remember"
//   - one in the name of [agent.ExpiredBy]: [agent.CodeInvalid] with Field "by"
func (s *Store) ResolveApproval(ctx context.Context, id agent.TurnID, d agent.Decision) (agent.Approval, error) {
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
	d.Args, d.Message, d.By = args, plain(d.Message), plain(d.By)
	var (
		b   pgx.Batch
		now decisionOutcome
	)
	b.Queue(decide, id, d.ApprovalID, string(d.Decision), args, d.Message, d.Remember, d.By)
	b.Queue(readDecided, id, d.ApprovalID).QueryRow(func(row pgx.Row) error {
		err := row.Scan(&now.done, &now.live, &now.late, &now.rememberable)
		if errors.Is(err, pgx.ErrNoRows) {
			return unknownApproval(d.ApprovalID)
		}
		return err
	})
	b.Queue(readTurnsApproval, id, d.ApprovalID).Query(func(rows pgx.Rows) (err error) {
		now.Approval, err = pgx.CollectExactlyOneRow(rows, scanApproval)
		return err
	})
	if err := s.pool.SendBatch(ctx, &b).Close(); err != nil {
		return agent.Approval{}, mapError(op, err)
	}
	if err := now.refusal(&d); err != nil {
		return agent.Approval{}, err
	}
	return now.Approval, nil
}

// refusal says why a decision does not stand, nil when it does.
func (s *decisionOutcome) refusal(d *agent.Decision) error {
	const op = "decide"
	switch {
	case s.done && s.decidedAs(d):
		return nil
	case s.By == agent.ExpiredBy && s.ExpiresAt != nil, !s.done && s.live && s.late != nil && *s.late:
		return agent.Errorf(agent.CodeConflict, op, "approval %q expired at %s", s.ApprovalID, s.ExpiresAt.Format(time.RFC3339))
	case s.done && s.Kind != "":
		return agent.Errorf(agent.CodeConflict, op, "call %q has its result already", s.CallID)
	case s.done:
		return agent.Errorf(agent.CodeConflict, op, "approval %q is decided already, by %q", s.ApprovalID, s.By)
	case !s.live:
		return agent.Errorf(agent.CodeConflict, op, "turn %q has ended", s.TurnID)
	case s.Kind != "":
		return agent.Invalid("decision", "%q waits for a result, not for a decision: provide it", s.ApprovalID)
	case d.Decision == agent.DecisionProvide:
		return agent.Invalid("tool_call_id", "call %q waits for a decision, not for a result", s.CallID)
	case len(s.Allowed) > 0 && !slices.Contains(s.Allowed, d.Decision):
		return agent.Invalid("decision", "%q is not allowed here, want %s", d.Decision, orList(s.Allowed))
	case d.Decision != agent.DecisionApprove && d.Decision != agent.DecisionReject:
		return agent.Invalid("remember", "goes with approve and reject only")
	default:
		return agent.Invalid("remember", "decisions about %q are not remembered", s.ToolName)
	}
}

// decidedAs reports whether the decision on record is this very one.
func (s *decisionOutcome) decidedAs(d *agent.Decision) bool {
	return s.Decision == d.Decision && s.By == d.By && s.Message == d.Message && (s.Remembered == d.Remember || s.Refused) &&
		sameJSON(s.DecidedArgs, d.Args)
}

func orList(kinds []agent.DecisionKind) string {
	words := make([]string, len(kinds))
	for i, kind := range kinds {
		words[i] = string(kind)
	}
	return strings.Join(words, " or ")
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	if json.Compact(&x, a) != nil || json.Compact(&y, b) != nil {
		return bytes.Equal(a, b)
	}
	return bytes.Equal(x.Bytes(), y.Bytes())
}
