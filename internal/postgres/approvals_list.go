package postgres

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

const (
	defaultApprovals = 50
	maxApprovals     = 500
	maxApprovalBytes = 8 << 20 // of the arguments and descriptions of a page
)

// The states of an approval that a query may ask for.
const (
	approvalsPending = "pending"
	approvalsDecided = "decided"
)

// pending says whether a person can still decide approval a of turn t.
const pending = `a.decision IS NULL AND (a.expires_at IS NULL OR a.expires_at > clock_timestamp())
	AND (t.state IN ('queued', 'running') OR t.state = 'failed' AND a.refused)`

// One more approval than the page may have is looked at, to know whether there are more.
const listApprovals = `
SELECT approval_id, turn_id, call_id, step, tool_name, args, rule, decision, decided_by, message, tenant, session_id, agent, description,
	allowed, expires_at, on_expiry, remember_scope, remember, decided_args, created_at, decided_at, args_hash, kind, refused, found
FROM (
	SELECT l.*, row_number() OVER oldest AS n, count(*) OVER () AS found,
		sum(coalesce(octet_length(args::text), 0) + coalesce(octet_length(decided_args::text), 0) + octet_length(description)) OVER oldest AS total
	FROM (` + approvalSelect + `
		FROM approvals a JOIN turns t ON t.turn_id = a.turn_id
		WHERE a.kind = '' AND (a.tenant = $1 OR $1 = '*') AND ($2 = '' OR a.turn_id = $2) AND ($3 = '' OR t.session_id = $3)
			AND ($4 <> 'decided' AND ` + pending + ` OR $4 <> 'pending' AND a.decision IS NOT NULL)
			AND (a.created_at, a.turn_id, a.approval_id) > ($5, $6, $7)
		ORDER BY a.created_at, a.turn_id, a.approval_id LIMIT $8::integer + 1
	) AS l (approval_id, turn_id, call_id, step, tool_name, args, rule, decision, decided_by, message, tenant, session_id, agent,
		description, allowed, expires_at, on_expiry, remember_scope, remember, decided_args, created_at, decided_at, args_hash, kind, refused)
	WINDOW oldest AS (ORDER BY created_at, turn_id, approval_id ROWS UNBOUNDED PRECEDING)
) p WHERE n <= $8 AND (n = 1 OR total <= $9) ORDER BY n`

// approvalToken is the place of an approval in the list, the last of a page.
type approvalToken struct {
	CreatedAt  int64        `json:"c"` // microseconds since 1970, never 0
	TurnID     agent.TurnID `json:"t"`
	ApprovalID string       `json:"a"`
}

// ListApprovals returns a page of a tenant's approvals, oldest first; the tenant "*" is all of them, for a system without authentication.
// Pending are those that somebody can still decide: their turns have not ended, their time is not over. An empty state asks for the
// pending and the decided ones. A page has at most 8 MiB of what was shown and decided, yet at least one approval while there is one;
// Next is empty on the last page. A token that no page had is [agent.CodeInvalid] with Field "page_token", an unknown state or a bad
// limit with theirs. One round trip.
func (s *Store) ListApprovals(ctx context.Context, q agent.ApprovalQuery) (agent.ApprovalPage, error) {
	const op = "list approvals"
	switch {
	case q.State != "" && q.State != approvalsPending && q.State != approvalsDecided:
		return agent.ApprovalPage{}, agent.Invalid("state", "want pending or decided, got %.100q", q.State)
	case q.Limit < 0 || q.Limit > maxApprovals:
		return agent.ApprovalPage{}, agent.Invalid("limit", "is %d, want 1 to %d", q.Limit, maxApprovals)
	case q.Limit == 0:
		q.Limit = defaultApprovals
	}
	from, err := decodeApprovalToken(q.After)
	if err != nil {
		return agent.ApprovalPage{}, err
	}
	// The filters differ so much in what they leave that no plan suits all of them: this mode makes one for the values at hand.
	rows, err := s.pool.Query(ctx, listApprovals, pgx.QueryExecModeCacheDescribe, q.Tenant, plain(string(q.TurnID)), plain(string(q.SessionID)),
		q.State, time.UnixMicro(from.CreatedAt), from.TurnID, from.ApprovalID, q.Limit, maxApprovalBytes)
	if err != nil {
		return agent.ApprovalPage{}, mapError(op, err)
	}
	var (
		page  agent.ApprovalPage
		found int
	)
	page.Approvals, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (agent.Approval, error) {
		return scanApproval(withColumn{row, &found})
	})
	if err != nil {
		return agent.ApprovalPage{}, mapError(op, err)
	}
	if n := len(page.Approvals); n < found {
		page.Next, err = encodeApprovalToken(&page.Approvals[n-1])
	}
	return page, mapError(op, err)
}

// withColumn is a row with one more column behind those that a scanner knows.
type withColumn struct {
	pgx.CollectableRow

	last any
}

func (r withColumn) Scan(dest ...any) error { return r.CollectableRow.Scan(append(dest, r.last)...) }

func encodeApprovalToken(a *agent.Approval) (string, error) {
	text, err := json.Marshal(approvalToken{CreatedAt: a.CreatedAt.UnixMicro(), TurnID: a.TurnID, ApprovalID: a.ApprovalID})
	return base64.RawURLEncoding.EncodeToString(text), err
}

// decodeApprovalToken returns the zero token, which is before everything, for "".
func decodeApprovalToken(s string) (approvalToken, error) {
	var t approvalToken
	if s == "" {
		return t, nil
	}
	malformed := agent.Invalid("page_token", "is not one that a page had")
	if len(s) > maxTokenBytes {
		return t, malformed
	}
	text, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || strictjson.Decode(text, &t) != nil || t.CreatedAt <= 0 || t.CreatedAt > maxTokenTime {
		return t, malformed
	}
	if checkText("", string(t.TurnID), maxTokenBytes) != nil || checkText("", t.ApprovalID, maxTokenBytes) != nil {
		return t, malformed
	}
	return t, nil
}

// maxTokenTime is far in the future, and yet a timestamp: the year 11476.
const maxTokenTime = 300_000_000_000_000_000
