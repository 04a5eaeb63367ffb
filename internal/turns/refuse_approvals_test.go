package turns_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// TestRefusedApprovals: a turn that does not wait for approvals fails with the approval's id and the command to decide it. The approval
// stays open, and the decision applies to the next attempt at the job, in the same session or in one of its own.
func TestRefusedApprovals(t *testing.T) {
	attempt := func(id agent.TurnID, s agent.SessionID, retry int) agent.TurnRequest {
		return agent.TurnRequest{TurnID: id, SessionID: s, Approvals: agent.ApprovalsRefuse, Context: agent.InvocationContext{
			Metadata: map[string]any{agent.MetaJobID: "7", agent.MetaRetryCount: retry},
		}}
	}
	for name, session := range map[string]agent.SessionID{"a session of its own": "", "a session": "s1"} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.begin(attempt("job-7", session, 0))
			h.model.script(calls(toolCall("a", `{"q":1}`)), calls(toolCall("b", `{"q":1}`)))
			v := h.callModel("job-7", 1)
			require.Equal(t, &agent.Failure{
				Type: "approval_required", Tool: "lookup", Step: "1",
				Message: "the tool lookup needs the approval job-7.1.a, and this turn waits for nobody. " +
					"To decide: starter approvals decide job-7.1.a approve --by NAME. The decision stands for the next attempt",
			}, v.Failure)
			again, err := h.process().CallModel(t.Context(), turns.CallModelInput{TurnID: "job-7", Step: 1})
			require.NoError(t, err)
			require.Equal(t, v, again)
			_, err = h.StoreTurn(t.Context(), turns.StoreTurnInput{
				TurnID: "job-7", Status: agent.TurnFailed, Stop: agent.StopApprovalRequired, Failure: v.Failure,
			})
			require.NoError(t, err)
			require.Contains(t, types(h.events("job-7")), agent.EventApprovalRequested)

			open, err := h.store.ListApprovals(t.Context(), agent.ApprovalQuery{Tenant: agent.DefaultTenant, State: "pending"})
			require.NoError(t, err)
			require.Len(t, open.Approvals, 1, "it can be decided after the turn has ended")
			d := agent.Decision{ApprovalID: "job-7.1.a", Decision: agent.DecisionApprove, By: "ops"}
			for range 2 {
				_, err = h.store.ResolveApproval(t.Context(), "job-7", d)
				require.NoError(t, err)
			}
			d.By = "another"
			_, err = h.store.ResolveApproval(t.Context(), "job-7", d)
			require.Equal(t, agent.CodeConflict, agent.CodeOf(err))

			h.begin(attempt("job-7-r1", session, 1))
			v = h.callModel("job-7-r1", 1)
			require.Nil(t, v.Failure)
			require.Equal(t, agent.GateNone, v.Calls[0].Gate, "it was approved before")
		})
	}
}

// TestApprovalList: a tool on the list needs no approval, unless its grant always asks. A tool that is not on the list is refused.
func TestApprovalList(t *testing.T) {
	for name, c := range map[string]struct {
		policy   agent.ApprovalPolicy
		approval agent.Approve
		gate     agent.Gate
		refused  bool
	}{
		"on the list":        {policy: "lookup", gate: ""},
		"as names begin":     {policy: "pay, look*", gate: ""},
		"not on it":          {policy: "pay", gate: agent.GateApproval, refused: true},
		"always asked":       {policy: "lookup", approval: agent.ApproveAlways, gate: agent.GateApproval, refused: true},
		"a turn that waits":  {policy: agent.ApprovalsWait, gate: agent.GateApproval},
		"nothing said":       {gate: agent.GateApproval},
		"refused, but never": {policy: agent.ApprovalsRefuse, approval: agent.ApproveNever},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.catalog.change(func(p *agent.Plan) { p.Tools[0].Approval = c.approval })
			h.begin(agent.TurnRequest{TurnID: "t1", Approvals: c.policy})
			h.model.script(calls(toolCall("a", `{}`)))
			v := h.callModel("t1", 1)
			require.Equal(t, c.gate, v.Calls[0].Gate)
			require.Equal(t, c.refused, v.Failure != nil)
		})
	}
}

// unreachableApprovals is a store that cannot read decisions.
type unreachableApprovals struct{ turns.TurnStore }

func (unreachableApprovals) Remembered(context.Context, string, agent.SessionID, []agent.RememberKey) ([]agent.Remembered, error) {
	return nil, agent.Errorf(agent.CodeUnavailable, "", "the store is unavailable")
}

// TestApprovalsUnavailable: while approvals are unavailable, a gated call waits, is refused or runs, as on_unavailable says. A call that a
// policy explicitly gates never runs.
func TestApprovalsUnavailable(t *testing.T) {
	for name, c := range map[string]struct {
		mode   agent.OnUnavailable
		always bool
		gate   agent.Gate
		waits  bool
	}{
		"nothing said":       {waits: true},
		"wait":               {mode: agent.UnavailableWait, waits: true},
		"refuse":             {mode: agent.UnavailableRefuse, gate: agent.GateDenied},
		"refuse, by policy":  {mode: agent.UnavailableRefuse, always: true, gate: agent.GateDenied},
		"run":                {mode: agent.UnavailableRun, gate: agent.GateNone},
		"run, but by policy": {mode: agent.UnavailableRun, always: true, waits: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, func(c2 *turns.Config) { c2.Store, c2.OnUnavailable = unreachableApprovals{c2.Store}, c.mode })
			if c.always {
				h.catalog.change(func(p *agent.Plan) { p.Tools[0].Approval = agent.ApproveAlways })
			}
			h.begin(agent.TurnRequest{TurnID: "t1"})
			h.model.script(calls(toolCall("a", `{}`)))
			v, err := h.CallModel(t.Context(), turns.CallModelInput{TurnID: "t1", Step: 1})
			if c.waits {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.gate, v.Calls[0].Gate)
			require.Contains(t, v.Calls[0].Rule, "approvals cannot be reached")
		})
	}
}

// TestJobErrorOfChild: a job fails with approval_required if its child turn needs an approval.
func TestJobErrorOfChild(t *testing.T) {
	h := newHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1", Approvals: "lookup", Context: agent.InvocationContext{Metadata: map[string]any{agent.MetaJobID: "7"}}})
	h.model.script(calls(toolCall("a", `{}`)), says("done"))
	h.tool.call = func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Failure: &agent.Failure{Type: "approval_required", Message: "child"}}, nil
	}
	for step := 1; step <= 2; step++ {
		h.callModel("t1", step)
		if step == 1 {
			h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
		}
	}
	h.completeTurn("t1")
	require.Equal(t, "approval_required", h.spy.finished[0].JobError.Type)
}
