package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestListTurnsAndSessions(t *testing.T) {
	b := setup(t)
	for _, c := range [][2]string{{"trip-1", "fetch flights\nfrom NYC\x1b[2J"}, {"trip-1", "and now?"}, {"trip-2", "hello"}} {
		require.Equal(t, 0, b.run(noInput(), "start", "-s", c[0], c[1]))
	}
	b.rt.Say("turn-1", "done")
	b.rt.Finish("turn-2", agent.TurnFailed, "")
	b.show(0, "turns", "--limit", "2")
	golden(t, "turns", b.screen.String())
	b.show(0, "sessions", "list")
	golden(t, "sessions", b.screen.String())

	require.Contains(t, turnRow(&agent.TurnSummary{Usage: &agent.Usage{InputTokens: 1, Unpriced: true}}), notPriced)

	ids := func(args ...string) (found []agent.TurnID) {
		for _, s := range answer[[]agent.TurnSummary](b, append([]string{"turns", "list"}, args...)...) {
			found = append(found, s.TurnID)
		}
		return found
	}
	require.Equal(t, []agent.TurnID{"turn-2", "turn-1"}, ids("--status", "failed,completed", "--status", "queued", "--session", "trip-1", "--channel", "cli"))
	require.Equal(t, []agent.TurnID{"turn-1"}, ids("--text", "FLIGHTS", "--agent", "analyst", "--since", "2026-11-21", "--until", "2026-11-21T12:01:00Z"))
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip-3", "pay"))
	b.rt.Emit("turn-4", gatewaytest.Status(agent.StatusWaiting))
	require.Equal(t, []agent.TurnID{"turn-4"}, ids("--status", "waiting"))
	require.Empty(t, ids("--user", "nobody"))
	sessions := answer[[]agent.SessionSummary](b, "sessions", "list", "--text", "flights", "--since", "2026-11-21")
	require.Len(t, sessions, 1)
	require.Equal(t, agent.SessionID("trip-1"), sessions[0].SessionID)

	b.refuses("", map[string]string{
		"want one or more of queued":              "turns --status odd",
		`--since is "yesterday"`:                  "turns --since yesterday",
		"--limit is -1":                           "sessions list --limit -1",
		`--until is "x", want 12h, 30d, 2026-11-`: "sessions list --until x",
	})
}
