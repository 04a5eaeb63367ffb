package postgres_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// fillTurns stores 10,000 ended turns of 1,000 sessions, 20 users and 5 agents with results of 1 KB, as many of another tenant, and 10,000
// unfinished turns of the tenant "busy", 2,500 of which wait.
func (b *bench) fillTurns() {
	b.t.Helper()
	b.exec(`INSERT INTO sessions (tenant, session_id, last_seq, title) SELECT x, 's' || n, 10, 'Trip ' || n / 2 FROM unnest(ARRAY['acme', 'zeta']) AS x, generate_series(0, 999) AS n`)
	b.exec(`INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history,
			context, created_at, finished_at, input)
		SELECT x || n, x, 's' || n % 1000, 1 + n / 1000, CASE WHEN n % 50 = 7 THEN 'failed' ELSE 'completed' END, '', 'a' || n % 5, '', '', 'm', 'http',
			'u' || n % 20, '', '', '{}', now() - (10000 - n) * interval '1 minute', now() - (10000 - n) * interval '1 minute' + interval '9 s',
			json_build_array(json_build_object('role', 'user', 'blocks', json_build_array(json_build_object('type', 'text', 'text',
				'Please compare the flights from NYC to LAX on day ' || n || ', sort them by price and arrival, and show me the three best.'))))
		FROM unnest(ARRAY['acme', 'zeta']) AS x, generate_series(0, 9999) AS n`)
	b.exec(`INSERT INTO agent_results (turn_id, tenant, session_id, job_id, run_id, node_id, status, output)
		SELECT turn_id, tenant, session_id, gen_random_uuid(), '', '', state, json_build_object('output', repeat('word ', 200), 'stop_reason', 'end_turn',
			'usage', json_build_object('input_tokens', 100, 'output_tokens', 10, 'cost_usd', 0.001))
		FROM turns WHERE tenant IN ('acme', 'zeta')`)
	b.exec(`INSERT INTO sessions (tenant, session_id, last_seq) SELECT 'busy', t.turn_id, 1 FROM turns t WHERE t.tenant = 'acme'`)
	b.exec(`INSERT INTO turns (turn_id, tenant, session_id, seq, state, workflow_id, agent, instance_id, plan_hash, model, channel, user_id, on_busy, history,
			context, created_at, input)
		SELECT 'busy-' || turn_id, 'busy', turn_id, 1, 'running', '', agent, '', '', 'm', 'http', user_id, '', '', '{}', created_at, input
		FROM turns WHERE tenant = 'acme'`)
	b.exec(`INSERT INTO approvals (turn_id, tenant, approval_id, call_id, step, tool_name, args, rule)
		SELECT 'busy-' || turn_id, 'busy', turn_id, 'c', 1, 'send', '{}', 'policy' FROM turns WHERE tenant = 'acme' AND user_id IN ('u1', 'u2', 'u3', 'u4', 'u5')`)
	b.exec(`VACUUM ANALYZE`)
}

// BenchmarkFindTurns lists and searches 10,000 turns and 1,000 sessions. It reports the 99th percentile of the durations.
func BenchmarkFindTurns(b *testing.B) {
	s := newBench(b, postgres.Config{})
	s.fillTurns()
	turns := func(q agent.TurnQuery) func() (int, error) {
		q.Tenant = cmp.Or(q.Tenant, tenant)
		return func() (int, error) {
			page, err := s.FindTurns(b.Context(), q)
			return len(page.Turns), err
		}
	}
	sessions := func(q agent.SessionQuery) func() (int, error) {
		q.Tenant = tenant
		return func() (int, error) {
			page, err := s.FindSessions(b.Context(), q)
			return len(page.Sessions), err
		}
	}
	for _, c := range []struct {
		name string
		want int
		find func() (int, error)
	}{
		{"turns", 50, turns(agent.TurnQuery{})},
		{"turns of the largest page", 200, turns(agent.TurnQuery{Limit: 200})},
		{"turns of a user that failed", 50, turns(agent.TurnQuery{UserID: "u7", Status: []string{"failed"}})},
		{"turns of a session", 10, turns(agent.TurnQuery{SessionID: "s77"})},
		{"turns with a frequent text", 50, turns(agent.TurnQuery{Text: "FLIGHTS"})},
		{"turns with a rare text", 1, turns(agent.TurnQuery{Text: "day 123,"})},
		{"turns that run", 0, turns(agent.TurnQuery{Status: []string{"running"}})},
		{"turns that wait, of none", 0, turns(agent.TurnQuery{Status: []string{"waiting"}})},
		{"turns that wait, of 10,000 that have not ended", 200, turns(agent.TurnQuery{Tenant: "busy", Status: []string{"waiting"}, Limit: 200})},
		{"turns that wait, of one user", 50, turns(agent.TurnQuery{Tenant: "busy", Status: []string{"waiting"}, UserID: "u3"})},
		{"turns, of 10,000 that have not ended", 50, turns(agent.TurnQuery{Tenant: "busy"})},
		{"sessions", 50, sessions(agent.SessionQuery{})},
		{"sessions of a user", 50, sessions(agent.SessionQuery{UserID: "u7"})},
		{"sessions with a frequent text", 50, sessions(agent.SessionQuery{Text: "FLIGHTS"})},
		{"sessions with a rare text", 1, sessions(agent.SessionQuery{Text: "day 123,"})},
		{"sessions with a title", 22, sessions(agent.SessionQuery{Text: "trip 12"})},
		{"sessions that failed", 20, sessions(agent.SessionQuery{Status: []string{"failed"}})},
		{"one session", 1, sessions(agent.SessionQuery{SessionID: "s77"})},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				n, err := c.find()
				took = append(took, time.Since(start))
				require.NoError(b, err)
				require.Equal(b, c.want, n)
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
		})
	}
}
