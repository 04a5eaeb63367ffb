package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// BenchmarkUsage reports on a ledger of 200,000 calls within 30 days, of 50,000 turns, 500 users, 10 agents and 5 models; every hundredth call was
// paid again.
func BenchmarkUsage(b *testing.B) {
	s := newBench(b, postgres.Config{})
	s.exec(`INSERT INTO usage_ledger (turn_id, step, epoch, tenant, model, input_tokens, output_tokens, cached_tokens, reasoning_tokens, cost_usd, user_id,
			agent, session_id, channel, created_at)
		SELECT 't' || n / 4, 1 + n % 4 - (n % 100 = 3)::integer, 1 + (n % 100 = 3)::integer, $1, 'm' || n % 5, 100, 10, 0, 0, 0.001, 'u' || n % 500, 'a' || n % 10,
			's' || n / 40, 'http', now() - n * 13 * interval '1 second'
		FROM generate_series(1, 200000) AS n`)
	_, err := s.pool.Exec(b.Context(), `VACUUM ANALYZE`)
	require.NoError(b, err)
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
