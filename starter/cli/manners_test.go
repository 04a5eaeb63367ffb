package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// Help texts and hints have the name of the program that was called.
func TestTextsNameTheProgram(t *testing.T) {
	b := setup(t)
	b.name = "turnstone"
	for _, args := range [][]string{{"--help"}, {"chat", "--help"}, {"schedules", "create", "--help"}, {"version"}} {
		text := b.show(0, args...)
		require.Contains(t, text, "turnstone ")
		require.NotContains(t, text, "starter ")
	}
	require.Contains(t, b.show(exitUnreachable, "agents", "--server", "http://127.0.0.1:1"), "Start one with: turnstone dev ")
	require.Contains(t, b.show(exitUsage, "chta"), "Error: unknown command \"chta\" for \"turnstone\"; did you mean chat?\nSee \"turnstone help\".\n")
}

func TestDisabledFeatureNamesItsSetting(t *testing.T) {
	b := setup(t)
	require.Contains(t, b.show(exitUsage, "keys", "create", "x"), "Error: API keys are off on this server: set auth.keys (TURNSTONE_AUTH_KEYS=true)")
	require.Contains(t, b.show(exitUsage, "links", "list"), "set telegram.token")
}

func TestTablesFitTheTerminal(t *testing.T) {
	b := setup(t)
	b.rt.Script = says(strings.Repeat("words ", 30))
	b.show(0, "start", strings.Repeat("a long message ", 20))
	wide := b.show(0, "turns")
	b.width = 100
	for line := range strings.Lines(b.show(0, "turns")) {
		require.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 100, line)
		require.True(t, strings.HasPrefix(line, "TURN") || strings.HasPrefix(line, "turn-1 "), "the first column is not shortened")
	}
	require.Greater(t, len(wide), 200, "in a pipe no cell is shortened")
}

func TestSpinnerOnTerminalsAlone(t *testing.T) {
	b := setup(t)
	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) { rt.Say(id, "done") }
	require.NotContains(t, b.show(0, "chat", "x"), "waiting for")
	b.terminals = [2]bool{true, true}
	require.Contains(t, b.show(0, "chat", "x"), "\r| waiting for the agent")
	require.Equal(t, "done\n", b.screen.out(), "the spinner is on standard error")
	for _, env := range []string{"NO_COLOR=1", "TERM=dumb"} {
		b.env = []string{env}
		require.NotContains(t, b.show(0, "chat", "x"), "waiting for", env)
	}
}
