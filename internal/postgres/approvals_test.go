package postgres_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

func approval(id string) agent.Approval {
	return agent.Approval{
		ApprovalID: id, TurnID: "t1", CallID: "c1", Step: 1, ToolName: "send", Args: json.RawMessage(`{"to": "x"}`), Rule: "policy",
	}
}

func TestApprovals(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.ready("t1", "s")
	for range 2 {
		require.NoError(t, b.SaveApproval(t.Context(), tenant, approval("a1")))
	}
	require.NoError(t, b.SaveApproval(t.Context(), tenant, approval("a2")))
	open, err := b.Approvals(t.Context(), "t1")
	require.NoError(t, err)
	require.Len(t, open, 2)
	requireSame(t, approval("a1"), open[0])

	edit := agent.Decision{ApprovalID: "a1", Decision: agent.DecisionEdit, Args: json.RawMessage(`{"to": "y"}`), By: "ops", Message: "safer"}
	want := approval("a1")
	want.Args, want.Decision, want.By, want.Message = edit.Args, edit.Decision, edit.By, edit.Message
	for range 2 {
		got, err := b.ResolveApproval(t.Context(), "t1", edit)
		require.NoError(t, err)
		requireSame(t, want, got)
	}
	tests := map[string]struct {
		change func(*agent.Decision)
		want   agent.Code
	}{
		"another decision": {func(d *agent.Decision) { d.Decision = agent.DecisionApprove }, agent.CodeConflict},
		"other arguments":  {func(d *agent.Decision) { d.Args = json.RawMessage(`{"to":"z"}`) }, agent.CodeConflict},
		"another person":   {func(d *agent.Decision) { d.By = "dev" }, agent.CodeConflict},
		"unknown":          {func(d *agent.Decision) { d.ApprovalID = "a9" }, agent.CodeNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := edit
			test.change(&d)
			_, err := b.ResolveApproval(t.Context(), "t1", d)
			requireCode(t, test.want, err)
		})
	}

	b.finish(finish("t1", "s"))
	_, err = b.ResolveApproval(t.Context(), "t1", edit)
	require.NoError(t, err, "saying it again does no harm")
	_, err = b.ResolveApproval(t.Context(), "t1", agent.Decision{ApprovalID: "a2", Decision: agent.DecisionApprove, By: "ops"})
	requireCode(t, agent.CodeConflict, err)
	requireCode(t, agent.CodeConflict, b.SaveApproval(t.Context(), tenant, approval("a3")))
	requireCode(t, agent.CodeNotFound, b.SaveApproval(t.Context(), "evil", approval("a3")))
	decided, err := b.Approvals(t.Context(), "t1")
	require.NoError(t, err)
	requireSame(t, want, decided[0])
	require.Empty(t, decided[1].Decision)
}
