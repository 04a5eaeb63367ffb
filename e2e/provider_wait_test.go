package e2e_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// TestTurnOutlastsItsProvider: a turn whose provider fails and is then busy waits, says until when, and ends with the answer. A direct turn
// becomes durable for that. One that may not wait so long fails with the provider's error.
func TestTurnOutlastsItsProvider(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode   agent.Mode
		wait   time.Duration
		status agent.TurnStatus
		tries  int
	}{
		"durable":     {agent.ModeDurable, time.Minute, agent.TurnCompleted, 3},
		"direct":      {agent.ModeDirect, time.Minute, agent.TurnCompleted, 3},
		"not so long": {agent.ModeDurable, 10 * time.Second, agent.TurnFailed, 2},
		"not at all":  {agent.ModeDurable, 0, agent.TurnFailed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := turnstonetest.NewModel(t, turnstonetest.Refuse(503, ""), turnstonetest.Refuse(429, "7"), turnstonetest.Say("three flights"))
			s := start(t, provider.Use, func(set *app.Config) { set.LLM.MaxRetries, set.Turn.ProviderWait = 0, c.wait })
			out, events := s.run(agent.TurnRequest{Message: "hello", SessionID: "waits", Mode: c.mode})
			require.Equal(t, c.status, out.Status, "%+v", out.Error)
			asked := provider.Requests()
			require.Len(t, asked, c.tries)
			var told []string
			for i := range events {
				if events[i].Type == agent.EventStatus && events[i].Status == agent.StatusRunning && strings.Contains(events[i].Reason, "next try") {
					told = append(told, events[i].Reason)
				}
			}
			require.Len(t, told, c.tries-1)
			for i, want := range []string{"(5xx); next try in 5s", "(429); next try in 7s"}[:c.tries-1] {
				require.Contains(t, told[i], want)
				require.GreaterOrEqual(t, asked[i+1].At.Sub(asked[i].At), []time.Duration{5 * time.Second, 7 * time.Second}[i])
			}
			if c.status == agent.TurnFailed {
				require.Equal(t, agent.StopModelError, out.StopReason)
				return
			}
			require.Equal(t, "three flights", out.Output)
			s.closed(out.TurnID)
			if c.mode == agent.ModeDurable {
				s.replay("paused_for_provider", out.TurnID.WorkflowID(), "")
			}
		})
	}
}
