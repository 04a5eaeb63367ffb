package cmdline_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// A person who approves a call sees what will run: the printer escapes characters that hide, reorder or erase other text.
func TestApprovedArgumentsReadAsTheyRun(t *testing.T) {
	t.Parallel()
	args := "{\"to\":\"DE\u202e123\u202c\",\"host\":\"good\u200b.example\u2028\",\"tag\":\"a\U000E0062\",\"esc\":\"\\u001b[2J\\u0007\"}"
	var out, notes bytes.Buffer
	cmdline.NewTurnPrinter(&out, &notes).Show(&agent.Event{
		Type: agent.EventApprovalRequested, Approval: &agent.Approval{TurnID: "t", ApprovalID: "a", ToolName: "pay\x1b[1A\r", Args: []byte(args)},
	})
	shown := notes.String()
	for _, want := range []string{`DE\u202e123\u202c`, `good\u200b.example\u2028`, `a\udb40\udc62`, `\u001b[2J\u0007`} {
		require.Contains(t, shown, want)
	}
	for _, never := range []string{"\u202e", "\u200b", "\u2028", "\U000E0062", "\x1b", "\r"} {
		require.NotContains(t, shown, never)
	}
	require.Equal(t, "Größe 漢字 👩", cmdline.Visible("Größe 漢字 👩"))
}
