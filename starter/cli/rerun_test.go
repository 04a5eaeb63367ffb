package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestRerun(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip", "-m", "small", "fetch flights"))
	b.rt.Finish("turn-1", agent.TurnFailed, "")
	b.rt.Script = flights
	b.showInput("Be brief.", 0, "rerun", "turn-1", "--model", "large", "--from-step", "2", "--prompt", "@-", "--session", "again")
	golden(t, "rerun", b.screen.String())
	r := b.rt.Submitted()[1].Request
	require.Equal(t, "large again", r.Model+" "+string(r.SessionID))
	require.Equal(t, agent.Rerun{Of: "turn-1", FromStep: 2, Prompt: "Be brief.", Input: r.Rerun.Input}, *r.Rerun)

	both := answer[rerunComparison](b, "rerun", "turn-2")
	require.Equal(t, both.Original.Output, both.Rerun.Output)
	require.Equal(t, "turn-2 turn-3", string(both.Original.TurnID+" "+both.Rerun.TurnID))
	require.Contains(t, b.show(0, "rerun", "turn-2"), "The text is the same.")
	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Finish(id, agent.TurnFailed, "")
	}
	b.show(exitFailed, "rerun", "turn-2")

	b.refuses("", map[string]string{"--from-step is -1": "rerun turn-1 --from-step -1", `"a/b" is no turn id`: "rerun a/b"})
	require.Equal(t, "look ×2, pay", calledTools(&agent.AgentStepOutput{ToolCalls: []agent.ToolCallNote{{Tool: "pay"}, {Tool: "look"}, {Tool: "look"}}}))
}

func TestDrafts(t *testing.T) {
	b := setup(t)
	b.rt.Script = flights
	file := writeFile(t, "kind: AgentInstance\nname: clerk\n", t.TempDir(), "clerk.yaml")
	b.show(0, "chat", "--draft", file, "fetch flights")
	require.Equal(t, "clerk", b.rt.Submitted()[0].Request.Draft.Agent)
	b.show(0, "rerun", "turn-1", "--draft", file)
	require.Equal(t, "clerk", b.rt.Submitted()[1].Request.Draft.Agent)
	empty := writeFile(t, " \n", t.TempDir(), "empty.yaml")
	b.refuses("", map[string]string{"--draft": "chat --draft " + file + ".gone x", "is empty": "chat --draft " + empty + " x", "--draft: open": "rerun turn-1 --draft " + file + ".gone"})
}

func TestForkSession(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip", "fetch flights"))
	b.rt.Say("turn-1", "done")
	require.Equal(t, "session copy begins with 1 message of trip, up to turn turn-1\n", b.show(0, "sessions", "fork", "trip", "--turn", "turn-1", "--session", "copy"))
	forked := answer[agent.SessionForked](b, "sessions", "fork", "trip")
	require.Equal(t, agent.SessionID("trip"), forked.ForkedFrom)
	require.Contains(t, b.show(exitUsage, "sessions", "fork", "trip", "--turn", "none"), "no turn")
}

func TestRenameSession(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "start", "-s", "trip", "fetch flights"))
	require.Equal(t, "session trip is called To LAX\n", b.show(0, "sessions", "rename", "trip", " To LAX "))
	found := answer[[]agent.SessionSummary](b, "sessions", "list", "--text", "lax", "--status", "running")
	require.Len(t, found, 1)
	require.Equal(t, "To LAX fetch flights", found[0].Title+" "+found[0].Summary)
	require.Contains(t, b.show(0, "sessions", "list"), "To LAX")
	require.Equal(t, "session trip has no title\n", b.show(0, "sessions", "rename", "trip", ""))
	require.NotContains(t, b.show(0, "sessions", "list"), "To LAX")
	require.Contains(t, b.show(exitUsage, "sessions", "rename", "none", "x"), "no session")
	b.refuses("", map[string]string{`"a/b" is no session id`: "sessions rename a/b x"})
}
