package postgres_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// BenchmarkTurn measures a turn with one tool call in the store: begin, two model steps, two prompts, a tool step, finish.
func BenchmarkTurn(b *testing.B) {
	s := newBench(b, postgres.Config{})
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	n := 0
	for b.Loop() {
		n++
		id := fmt.Sprintf("t%d", n)
		cursor := s.ready(id, "s").Cursor
		for step := 1; step <= 2; step++ {
			_, _, err := s.Prompt(b.Context(), agent.PromptQuery{TurnID: agent.TurnID(id), Tenant: tenant, SessionID: "s", Cursor: cursor, Step: step})
			must(err)
			must(s.SaveModelStep(b.Context(), modelStep(id, step, 1, call("c1"))))
		}
		must(s.SaveToolStep(b.Context(), toolStep(id, 1, "c1", 1)))
		s.finish(finish(id, "s"))
	}
}

// fill commits a catalog with a number of agents of 1 KB each.
func (b *bench) fill(documents int) {
	b.t.Helper()
	c := agent.CatalogCommit{At: 0, By: "bench", Source: agent.SourceAPI}
	body := `{"description":"` + strings.Repeat("words ", 160) + `"}`
	for i := range documents {
		c.Put = append(c.Put, put(agentKey(fmt.Sprintf("a%05d", i)), body))
	}
	_, err := b.CommitCatalog(b.t.Context(), c)
	require.NoError(b.t, err)
}

// BenchmarkCommitCatalog changes one of ten thousand documents.
func BenchmarkCommitCatalog(b *testing.B) {
	s := newBench(b, postgres.Config{})
	s.fill(10_000)
	at := int64(1)
	var err error
	for b.Loop() {
		c := agent.CatalogCommit{At: at, Put: []agent.Document{put(agentKey(fmt.Sprintf("a%05d", at%10_000)), `{"description":"changed"}`)}}
		if at, err = s.CommitCatalog(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoadCatalog(b *testing.B) {
	for _, documents := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(documents), func(b *testing.B) {
			s := newBench(b, postgres.Config{})
			s.fill(documents)
			for b.Loop() {
				s.load()
			}
		})
	}
}

// BenchmarkCatalogSince reads the changes of a catalog of ten thousand documents, when there are none and when there is one.
func BenchmarkCatalogSince(b *testing.B) {
	s := newBench(b, postgres.Config{})
	s.fill(10_000)
	s.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("a00007"), `1`)}})
	for after, name := range map[int64]string{2: "nothing", 1: "one"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s.since(after)
			}
		})
	}
}

// BenchmarkAdmit admits turns of a tenant that has all limits, 100,000 ledger rows of 500 users in this month, 10,000 admissions within
// the last minute and 1,000 running turns.
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
				SELECT 't', n, 1, 'acme', 'm' || n % 5, 100, 10, 0, 0, 0.001, 'u' || n % 500, 'a' || n % 10,
					date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + n % 1000 * interval '1 minute'
				FROM generate_series(1, 100000) AS n`)
			s.exec(`INSERT INTO admissions (tenant, kind, name, n, at)
				SELECT 'acme', k, CASE k WHEN 'tenant' THEN '' ELSE 'u1' END, n, now() + n * interval '1 ms' FROM generate_series(1, 10000) AS n,
					unnest(ARRAY['tenant', 'user', 'agent']) AS k`)
			s.exec(`INSERT INTO turn_places (tenant, turn_id, user_id, agent, at, begun) SELECT 'acme', n, 'u' || n % 500, 'a', now(), true FROM generate_series(1, 1000) AS n`)
			s.exec(`VACUUM ANALYZE`)
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

// BenchmarkChargeUsage writes ledger rows of 16 concurrent turns of one tenant, user and agent, with and without the daily sums.
func BenchmarkChargeUsage(b *testing.B) {
	for name, prepare := range map[string]string{"pending": `SELECT`, "no sums": `ALTER TABLE usage_ledger DISABLE TRIGGER add_up`} {
		b.Run(name, func(b *testing.B) {
			s := newBench(b, postgres.Config{MaxConns: 16})
			s.exec(prepare)
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

// BenchmarkUsage reports on a ledger of 200,000 calls within 30 days, of 50,000 turns, 500 users, 10 agents and 5 models. Every hundredth
// call is a repeated try.
func BenchmarkUsage(b *testing.B) {
	s := newBench(b, postgres.Config{})
	s.exec(`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, user_id,
			agent, session_id, channel, created_at)
		SELECT 't' || n / 4, 1 + n % 4 - (n % 100 = 3)::integer, 1 + (n % 100 = 3)::integer, 'acme', 'm' || n % 5, 100, 10, 0, 0, 0.001, 'u' || n % 500, 'a' || n % 10,
			's' || n / 40, 'http', now() - n * 13 * interval '1 second'
		FROM generate_series(1, 200000) AS n`)
	s.exec(`VACUUM ANALYZE`)
	midnight := time.Now().UTC().Truncate(24 * time.Hour)
	for name, q := range map[string]agent.UsageQuery{
		"days":          {Since: midnight.AddDate(0, 0, -30), Group: []agent.UsageKey{agent.UsageDay}},
		"days of users": {Since: midnight.AddDate(0, 0, -30), Group: []agent.UsageKey{agent.UsageDay, agent.UsageUser}, PageSize: 10_000},
		"a user":        {Since: midnight.AddDate(0, 0, -30), UserID: "u7"},
		"row by row":    {Since: midnight.AddDate(0, 0, -30), Group: []agent.UsageKey{agent.UsageAgent, agent.UsageModel}},
		"turns":         {Since: midnight.AddDate(0, 0, -30), Group: []agent.UsageKey{agent.UsageTurn}},
		"an hour":       {Since: time.Now().Add(-time.Hour), Group: []agent.UsageKey{agent.UsageAgent, agent.UsageModel}},
		"a turn":        {Since: midnight.AddDate(0, 0, -30), TurnID: "t77", Group: []agent.UsageKey{agent.UsageStep, agent.UsageEpoch}},
	} {
		b.Run(name, func(b *testing.B) {
			q.Tenant = tenant
			for b.Loop() {
				if _, err := s.Usage(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
