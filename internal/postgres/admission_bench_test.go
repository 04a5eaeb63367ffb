package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// BenchmarkAdmit lets turns of one tenant in that has every bound, 100,000 rows in its ledger of this month, of 500 users, 10,000 admissions
// within the last minute and 1,000 turns at once.
func BenchmarkAdmit(b *testing.B) {
	all := agent.Bound{
		RequestsPerMinute: 1 << 30, ConcurrentTurns: 1 << 30, TokensPerMinute: 1 << 50, DailyCostUSD: 1 << 50, MonthlyCostUSD: 1 << 50, DailyTokens: 1 << 50,
		MonthlyTokens: 1 << 50,
	}
	tight := all
	tight.RequestsPerMinute = 10_000
	for name, bound := range map[string]agent.Bound{"all": all, "refused": tight, "budget": {MonthlyCostUSD: 1 << 50}} {
		b.Run(name, func(b *testing.B) {
			s := newBench(b, postgres.Config{})
			s.exec(`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, user_id,
					agent, created_at)
				SELECT 't', n, 1, $1, 'm' || n % 5, 100, 10, 0, 0, 0.001, 'u' || n % 500, 'a' || n % 10,
					date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + n % 1000 * interval '1 minute'
				FROM generate_series(1, 100000) AS n`)
			s.exec(`INSERT INTO admissions (tenant, kind, name, n, at)
				SELECT $1, k, CASE k WHEN 'tenant' THEN '' ELSE 'u1' END, n, now() + n * interval '1 ms' FROM generate_series(1, 10000) AS n,
					unnest(ARRAY['tenant', 'user', 'agent']) AS k`)
			s.exec(`INSERT INTO turn_places (tenant, turn_id, user_id, agent, at, begun) SELECT $1, n, 'u' || n % 500, 'a', now(), true FROM generate_series(1, 1000) AS n`)
			_, err := s.pool.Exec(b.Context(), `VACUUM ANALYZE`)
			require.NoError(b, err)
			n := 0
			for b.Loop() {
				n++
				a := agent.Admission{TurnID: agent.TurnID(fmt.Sprintf("bench%d", n)), Tenant: tenant, UserID: "u1", Agent: "a1", Tenants: bound}
				if name == "all" {
					a.Users, a.Agents = bound, bound
				}
				if err := s.Admit(b.Context(), a); (err != nil) != (name == "refused") {
					b.Fatal(err)
				}
			}
		})
	}
}

func (b *bench) exec(sql string) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, tenant)
	require.NoError(b.t, err)
}

// BenchmarkChargeUsage writes the ledger, 16 turns of one tenant, user and agent at once: with what is to be added up, and without.
func BenchmarkChargeUsage(b *testing.B) {
	for name, prepare := range map[string]string{"pending": `SELECT`, "no sums": `ALTER TABLE usage_ledger DISABLE TRIGGER add_up`} {
		b.Run(name, func(b *testing.B) {
			s := newBench(b, postgres.Config{MaxConns: 16})
			_, err := s.pool.Exec(b.Context(), prepare)
			require.NoError(b, err)
			s.ready("t1", "s1")
			b.SetParallelism(8)
			began := time.Now().UnixNano()
			b.RunParallel(func(pb *testing.PB) {
				key := agent.StepKey{TurnID: "t1", Step: int(time.Now().UnixNano()-began) % (1 << 30)}
				for epoch := agent.Epoch(1); pb.Next(); epoch++ {
					if err := s.ChargeUsage(b.Context(), key, tenant, []agent.UsageEntry{{Epoch: epoch, Model: "m", Usage: agent.Usage{InputTokens: 10}}}); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}
