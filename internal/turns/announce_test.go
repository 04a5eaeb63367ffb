package turns_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// TestBeginIsStored: the events of a turn that begins are stored when BeginTurn returns. The log alone would take a quarter of a second.
func TestBeginIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		calls   agent.ModelCalls
		prepare []agent.PlanStep
	}{
		"the model runs as an activity": {agent.ModelCallsActivity, nil},
		"the turn prepares first":       {agent.ModelCallsLocal, []agent.PlanStep{{}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.catalog.change(func(p *agent.Plan) { p.Prepare = c.prepare })
			h.config.ModelCalls = c.calls
			h.Turns = h.process()
			h.begin(agent.TurnRequest{TurnID: "t1"})
			var stored int
			require.NoError(t, h.pool.QueryRow(t.Context(), `SELECT count(*) FROM events WHERE stream_id = 't1'`).Scan(&stored))
			require.Equal(t, len(h.events("t1")), stored)
		})
	}
}
