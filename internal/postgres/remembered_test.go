package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// remember decides one approval of a call and lets the decision stand.
func (b *bench) remember(id, tool, hash string, scope agent.RememberScope, kind agent.DecisionKind) {
	b.t.Helper()
	a := approval(id)
	a.ToolName, a.ArgsHash, a.Remember = tool, hash, scope
	b.ask(a)
	got, err := b.ResolveApproval(b.t.Context(), "t1", agent.Decision{ApprovalID: id, Decision: kind, Message: "because " + id, By: "ops", Remember: true})
	require.NoError(b.t, err)
	require.True(b.t, got.Remembered)
}

// remembered renders what stands for a call: the first that fits it.
func (b *bench) remembered(session, tool, hash string) string {
	b.t.Helper()
	key := agent.RememberKey{Tool: tool, ArgsHash: hash}
	others := []agent.RememberKey{{Tool: "send", ArgsHash: "h1"}, {Tool: "send", ArgsHash: "h2"}, {Tool: "other", ArgsHash: "h1"}}
	found, err := b.Remembered(b.t.Context(), tenant, agent.SessionID(session), append(others, key))
	require.NoError(b.t, err)
	alone, err := b.Remembered(b.t.Context(), tenant, agent.SessionID(session), []agent.RememberKey{key})
	require.NoError(b.t, err)
	require.LessOrEqual(b.t, len(alone), 1, "one decision stands for one call")
	for _, r := range found {
		if r.Key.Tool == tool && (r.Key.ArgsHash == "" || r.Key.ArgsHash == hash) {
			require.Equal(b.t, []agent.Remembered{r}, alone, "the same, whatever else is asked for")
			return fmt.Sprintf("%s, %s by %s", r.Decision, r.Message, r.By)
		}
	}
	require.Empty(b.t, alone)
	return ""
}

func TestRemembered(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	require.Empty(t, b.remembered("s", "send", "h1"))

	b.remember("a1", "send", "h1", agent.RememberCall, agent.DecisionApprove)
	require.Equal(t, "approve, because a1 by ops", b.remembered("s", "send", "h1"))
	require.Empty(t, b.remembered("s", "send", "h2"), "other arguments")
	require.Empty(t, b.remembered("s", "other", "h1"), "another tool")
	require.Empty(t, b.remembered("s2", "send", "h1"), "another session")

	b.remember("a2", "send", "h2", agent.RememberTool, agent.DecisionReject)
	require.Equal(t, "reject, because a2 by ops", b.remembered("s", "send", "h1"), "the newest of those that fit")
	require.Equal(t, "reject, because a2 by ops", b.remembered("s", "send", "h3"), "every call of the tool")

	b.remember("a3", "send", "h1", "", agent.DecisionApprove)
	require.Equal(t, "approve, because a3 by ops", b.remembered("s", "send", "h1"))
	require.Equal(t, "reject, because a2 by ops", b.remembered("s", "send", "h2"))
	require.Equal(t, 2, b.count("remembered_decisions"), "one for each call and one for the tool")

	_, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "a1", Decision: agent.DecisionApprove, Message: "because a1", By: "ops", Remember: true})
	require.NoError(t, err)
	require.Equal(t, "approve, because a3 by ops", b.remembered("s", "send", "h1"), "saying it again is no news")

	foreign, err := b.Remembered(t.Context(), "evil", "s", []agent.RememberKey{{Tool: "send", ArgsHash: "h1"}})
	require.NoError(t, err)
	require.Empty(t, foreign)
	none, err := b.Remembered(t.Context(), tenant, "s", nil)
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestWhatIsNotToBeRememberedIsNot(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	b.ask(approval("a1"))
	got, err := b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "a1", Decision: agent.DecisionApprove, By: "ops"})
	require.NoError(t, err)
	require.False(t, got.Remembered)
	require.Zero(t, b.count("remembered_decisions"))
}
