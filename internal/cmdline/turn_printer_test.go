package cmdline_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// TestIncompleteAnswerHasNote checks that the printer says why an answer is cut short.
func TestIncompleteAnswerHasNote(t *testing.T) {
	for _, stop := range []agent.StopReason{agent.StopEndTurn, agent.StopMaxTokens, agent.StopFiltered} {
		var out, notes bytes.Buffer
		cmdline.NewTurnPrinter(&out, &notes).Show(&agent.Event{Type: agent.EventStatus, Status: agent.StatusCompleted, Result: &agent.AgentStepOutput{
			Status: agent.TurnCompleted, Output: "three fl", StopReason: stop,
		}})
		require.Contains(t, out.String(), "three fl")
		if cut := stop.CutShort(); cut != "" {
			require.Contains(t, notes.String(), cut)
			continue
		}
		require.NotContains(t, notes.String(), "cut short")
	}
}
