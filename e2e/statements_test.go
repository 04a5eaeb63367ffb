package e2e_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// TestStatementsOfATurn bounds what a turn with one tool call, from the HTTP door to its last event, asks of the database, so that nobody adds
// a statement unseen. No test runs beside it: a slow turn writes its tokens in more statements.
func TestStatementsOfATurn(t *testing.T) {
	const turns = 30
	provider := turnstonetest.NewModel(t, func(x *turnstonetest.Exchange) { notesThenAnswers(x.Body)(x) })
	counted := postgrestest.Count(t)
	set := turnstonetest.Settings(t, provider.Use, func(c *app.Config) {
		c.Database.URL, c.Temporal.ModelCalls = app.Secret(counted.DSN), string(agent.ModelCallsLocal)
	})
	s := startService(t, turnstone.Config{Settings: set, Toolkits: []agent.Toolkit{&effects{calls: map[agent.TurnID]int{}}}})
	for mode, most := range map[agent.Mode]int{agent.ModeDurable: 15, agent.ModeDirect: 15} {
		require.NoError(t, s.turn(t.Context(), mode, func() {})) // what is made once is made
		counted.Take()
		for range turns {
			require.NoError(t, s.turn(t.Context(), mode, func() {}))
		}
		cost := counted.Take()
		t.Logf("%s: %s", mode, cost.Table(turns))
		require.LessOrEqual(t, cost.Total(), most*turns, "%s", mode)
		require.LessOrEqual(t, cost.WAL, int64(turns*20<<10), "%s", mode)
	}
}
