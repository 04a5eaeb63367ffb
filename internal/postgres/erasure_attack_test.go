package postgres_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// A user may call himself whatever he likes: like a key of a record's detail, like what stands between two of its strings, like a word that the
// runtime writes. What is not about him stays as it was, and so do the proofs of others.
func TestErasureOfAwkwardNames(t *testing.T) {
	b := newBench(t, postgres.Config{})
	erased := func(user string) erasure.Erasure {
		e, err := b.CreateErasure(t.Context(), erasure.Request{Tenant: tenant, UserID: user, Reason: "§"}, "ops")
		require.NoError(t, err, user)
		b.mark(e.ID)
		b.rows(e.ID)
		e, err = b.FinishErasure(t.Context(), tenant, e.ID)
		require.NoError(t, err, user)
		require.Equal(t, erasure.StatusCompleted, e.Status, user)
		return e
	}
	record := func(subject, resource, detail string) {
		require.NoError(t, b.AppendAudit(t.Context(), []agent.AuditRecord{{
			At: time.Now(), Tenant: tenant, Subject: subject, Credential: "key/abc", Method: "key", Action: "turns.run", Resource: resource,
			Outcome: agent.AuditAllowed, Detail: json.RawMessage(detail),
		}}))
	}
	const others = `{"mode": "durable", "note": ": ", "tags": ["x", "y", ", "], "turn_id": "t", "user_id": "bob", "empty": ""}`
	proofs := []erasure.Erasure{erased("first")}
	for _, user := range []string{
		"digest", "status", "erasure", "key", "agent", "user_id", "completed", ": ", ", ", `", "`, `": "`, "%", "_", `\1`, `\`, `a"b`, "(?:", "$1", "é", "{", "\u2028",
	} {
		quoted, err := json.Marshal(map[string]any{"user_id": user, "by": "user/" + user, "mode": "x" + user})
		require.NoError(t, err)
		record("bob", "agent/analyst", others)
		record(user, "agent/user/"+user, string(quoted))
		proofs = append(proofs, erased(user))
		e := proofs[len(proofs)-1]

		var detail, resource string
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT detail, resource FROM audit_log WHERE subject = $1 ORDER BY id DESC LIMIT 1`,
			e.Report.Pseudonym).Scan(&detail, &resource), user)
		want, err := json.Marshal(map[string]any{"user_id": e.Report.Pseudonym, "by": "user/" + e.Report.Pseudonym, "mode": "x" + user})
		require.NoError(t, err)
		require.JSONEq(t, string(want), detail, user)
		require.Equal(t, "ops", e.RequestedBy, user)
		require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT detail, resource FROM audit_log WHERE subject = 'bob' ORDER BY id DESC LIMIT 1`).Scan(&detail, &resource))
		if user != ": " && user != ", " { // which one of the strings is
			require.JSONEq(t, others, detail, user)
		}
		require.True(t, json.Valid([]byte(detail)), user)
		require.Equal(t, "agent/analyst", resource, user)
	}
	for _, e := range proofs {
		e, err := b.Erasure(t.Context(), tenant, e.ID)
		require.NoError(t, err)
		p, err := erasure.Verify(&e, "")
		require.NoError(t, err)
		require.Empty(t, p.Faults)
		require.True(t, p.Trail)
	}
}

// Who decided about another's call is named in that turn's stream too, and in the streams above it. An id may be as long as a turn's.
func TestErasureOfAnApprover(t *testing.T) {
	b := newBench(t, postgres.Config{})
	approver := strings.Repeat("x", erasure.MaxUserID)
	sql := strings.NewReplacer("<approver>", approver)
	for _, text := range []string{
		`INSERT INTO sessions (tenant, session_id) VALUES ('acme', 's')`,
		`INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history, input,
			context, trace, parent, finished_at) SELECT 't' || i, 'acme', 's', i, 'completed', '', 'a', 'a@1', 'h', 'm', 'http', 'bob', 'queue', 'load', '[]', '{}', '',
			CASE i WHEN 1 THEN '' ELSE 't' || i - 1 END, now() FROM generate_series(1, 3) i`,
		`INSERT INTO approvals (turn_id, approval_id, tenant, call_id, step, tool_name, rule, message, decided_by)
			VALUES ('t3', 'a', 'acme', 'c', 1, 't', 'r', 'wisteria', '<approver>')`,
		`INSERT INTO streams (stream_id) VALUES ('t1'), ('t2'), ('t3')`,
		`INSERT INTO events (stream_id, event_index, size, event) SELECT 't' || i, 1, 1, json_build_object('type', 'approval_resolved', 'approval', json_build_object(
			'approval_id', 'a', 'by', '<approver>', 'message', 'wisteria', 'decided_args', 'wisteria')) FROM generate_series(1, 3) i`,
		`INSERT INTO events (stream_id, event_index, size, event) VALUES ('t1', 2, 1, '{"type":"approval_resolved","approval":{"by":"bob","message":"marigold"}}')`,
	} {
		_, err := b.pool.Exec(t.Context(), sql.Replace(text))
		require.NoError(t, err, text)
	}
	before := b.dump("marigold")
	e, err := b.CreateErasure(t.Context(), erasure.Request{Tenant: tenant, UserID: approver, Reason: "ticket"}, "ops")
	require.NoError(t, err)
	b.mark(e.ID)
	b.rows(e.ID)
	e, err = b.FinishErasure(t.Context(), tenant, e.ID)
	require.NoError(t, err)
	require.Equal(t, erasure.StatusCompleted, e.Status)
	require.EqualValues(t, 3, kindOf(t, e.Report, "events of decisions").Unnamed)
	require.Empty(t, b.mentions(approver))
	require.Empty(t, b.mentions("wisteria"))
	require.Equal(t, before, b.dump("marigold"))
	require.Len(t, b.dump(e.Report.Pseudonym)["events"], 3)
}
