package client_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestRerunAndFork(t *testing.T) {
	rt, c := serve(t, nil)
	_, err := c.Start(t.Context(), agent.TurnRequest{Message: "x", TurnID: "t1", SessionID: "s1"})
	require.NoError(t, err)
	_, err = c.Rerun(t.Context(), "t1", agent.RerunRequest{})
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	rt.Say("t1", "done")
	r, err := c.Rerun(t.Context(), "t1", agent.RerunRequest{FromStep: 2, Model: "large", SessionID: "again"})
	require.NoError(t, err)
	require.Equal(t, agent.SessionID("again"), r.SessionID)
	sent := rt.Submitted()[1].Request
	require.Equal(t, "large", sent.Model)
	require.NotEmpty(t, sent.IdempotencyKey, "a lost connection does not make two of it")
	require.Equal(t, 2, sent.Rerun.FromStep)

	r, err = c.Try(t.Context(), "kind: AgentInstance\nname: new\n", agent.TurnRequest{Message: "x"})
	require.NoError(t, err)
	require.Equal(t, "new", rt.Submitted()[2].Request.Draft.Agent)
	tried, err := c.Turn(t.Context(), r.TurnID)
	require.NoError(t, err)
	require.True(t, tried.Draft)

	forked, err := c.Fork(t.Context(), agent.Fork{From: "s1", TurnID: "t1", SessionID: "branch"})
	require.NoError(t, err)
	require.Equal(t, agent.SessionForked{SessionID: "branch", ForkedFrom: "s1", TurnID: "t1", Turns: 1, Messages: 1}, forked)
	_, err = c.Fork(t.Context(), agent.Fork{From: "s1", TurnID: "none"})
	require.Equal(t, "not_found turn_id", string(agent.CodeOf(err))+" "+agent.FailureOf(err).Field)
}
