package turns_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// requestApprovals begins a turn whose calls wait for a person, and requests the approvals.
func (h *harness) requestApprovals(req agent.TurnRequest, blocks ...agent.Block) ([]agent.CallVerdict, turns.RequestApprovalResult) {
	h.t.Helper()
	h.begin(req)
	h.model.script(calls(blocks...))
	v := h.callModel(req.TurnID, 1)
	in := turns.RequestApprovalInput{TurnID: req.TurnID, Step: 1}
	for _, c := range v.Calls {
		if c.Gate == agent.GateApproval {
			in.Calls = append(in.Calls, turns.ApprovalCall{ID: c.ID, Rule: c.Rule})
		}
	}
	out, err := h.RequestApproval(h.t.Context(), in)
	require.NoError(h.t, err)
	return v.Calls, out
}

func asks(v agent.GateVerdict) *testMiddleware {
	v.Gate = agent.GateApproval
	return &testMiddleware{gate: func(agent.GatedCall, agent.GateVerdict) agent.GateVerdict { return v }}
}

func TestMiddlewareGates(t *testing.T) {
	var seen agent.GatedCall
	m := &testMiddleware{gate: func(c agent.GatedCall, so agent.GateVerdict) agent.GateVerdict {
		seen = c
		require.Equal(t, agent.GateApproval, so.Gate, "safe by default")
		return agent.GateVerdict{Gate: agent.GateNone}
	}}
	h := newHarness(t, withMiddleware(m))
	h.begin(agent.TurnRequest{TurnID: "t1", Context: agent.InvocationContext{UserID: "u", UserRole: "admin", Tenant: "acme"}})
	h.model.script(calls(toolCall("a", `{"q":1}`)))
	v := h.callModel("t1", 1)
	require.Empty(t, v.Calls[0].Gate)
	require.JSONEq(t, `{"q":1}`, string(seen.Args))
	require.Equal(t, []string{"u", "admin", "acme", "lookup"}, []string{seen.UserID, seen.UserRole, seen.Tenant, seen.Tool.Spec.Name})
}

// A call that its tool finds to have no effects needs no approval, unless the tool always needs one. It then runs as a call without
// effects, unless a person has edited its arguments.
func TestEffectsAreReadBeforeAPersonIsAsked(t *testing.T) {
	rule := func(gate func(c agent.GatedCall, so agent.GateVerdict) agent.GateVerdict) *testMiddleware {
		return &testMiddleware{gate: gate}
	}
	tests := map[string]struct {
		reads bool
		rule  *testMiddleware
		gate  agent.Gate
		local bool
	}{
		"nothing is known": {false, rule(nil), agent.GateApproval, false},
		"it only reads":    {true, rule(nil), "", true},
		"a rule asks all":  {true, asks(agent.GateVerdict{}), agent.GateApproval, true},
		"a rule refuses": {true, rule(func(agent.GatedCall, agent.GateVerdict) agent.GateVerdict {
			return agent.GateVerdict{Gate: agent.GateDenied}
		}), "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, withMiddleware(tt.rule))
			h.tool.reads = tt.reads
			h.begin(agent.TurnRequest{TurnID: "t1"})
			h.model.script(calls(toolCall("a", `{"q":1}`)))
			v := h.callModel("t1", 1)
			require.Equal(t, tt.gate, v.Calls[0].Gate)
			require.Equal(t, tt.local, v.Calls[0].Local)
			var repeatable bool
			h.tool.call = func(_ context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
				repeatable = inv.Repeatable
				return agent.ToolResult{Output: json.RawMessage(`{}`)}, nil
			}
			h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a"})
			require.Equal(t, tt.local, repeatable, "a tool that was found to have no effects must keep to it")
		})
	}
}

func TestRemember(t *testing.T) {
	cases := map[string]struct {
		scope    agent.RememberScope
		decision agent.DecisionKind
		args     string     // of the later call
		gate     agent.Gate // of the later call
		refused  string     // the field of the refusal; empty if the decision is accepted
	}{
		"the same call":            {"", agent.DecisionApprove, `{"b":2, "a":1}`, agent.GateNone, ""},
		"other arguments":          {"", agent.DecisionApprove, `{"a":2,"b":2}`, agent.GateApproval, ""},
		"other arguments, by tool": {agent.RememberTool, agent.DecisionApprove, `{"a":2}`, agent.GateNone, ""},
		"rejected":                 {"", agent.DecisionReject, `{"a":1,"b":2}`, agent.GateDenied, ""},
		"off":                      {agent.RememberOff, agent.DecisionApprove, `{"a":1,"b":2}`, agent.GateApproval, "remember"},
		"an answer":                {"", agent.DecisionRespond, `{"a":1,"b":2}`, agent.GateApproval, "remember"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, withMiddleware(asks(agent.GateVerdict{Rule: "asked", Remember: c.scope})))
			_, out := h.requestApprovals(agent.TurnRequest{TurnID: "t1", SessionID: "s1"}, toolCall("a", `{"a":1,"b":2}`))
			d := agent.Decision{ApprovalID: out.Pending[0].ApprovalID, Decision: c.decision, Remember: true, By: "ops", Message: "because"}
			r := h.decide("t1", d)
			if c.refused != "" {
				require.Equal(t, c.refused, r.Refusal.Field)
			} else {
				require.NotNil(t, r.Verdict, "%+v", r.Refusal)
			}
			h.completeTurn("t1")

			h.begin(agent.TurnRequest{TurnID: "t2", SessionID: "s1"})
			h.model.script(calls(toolCall("z", c.args)))
			v := h.callModel("t2", 1)
			require.Equal(t, c.gate, v.Calls[0].Gate)
			if c.gate == agent.GateDenied {
				require.Equal(t, "because", v.Calls[0].Rule)
			}
			// Another session does not remember it.
			h.begin(agent.TurnRequest{TurnID: "t3", SessionID: "s2"})
			h.model.script(calls(toolCall("z", c.args)))
			v = h.callModel("t3", 1)
			require.Equal(t, agent.GateApproval, v.Calls[0].Gate)
		})
	}
}

func TestExpiry(t *testing.T) {
	cases := map[agent.Expiry]agent.DecisionVerdict{
		"":                  {Decision: agent.DecisionReject},
		agent.ExpiryReject:  {Decision: agent.DecisionReject},
		agent.ExpiryApprove: {Decision: agent.DecisionApprove, Run: true},
		agent.ExpiryEnd:     {Decision: agent.DecisionReject, End: true},
	}
	for outcome, want := range cases {
		t.Run(string(outcome), func(t *testing.T) {
			h := newHarness(t, withMiddleware(asks(agent.GateVerdict{Rule: "asked", ExpiresSec: 1, OnExpiry: outcome})))
			_, out := h.requestApprovals(agent.TurnRequest{TurnID: "t1"}, toolCall("a", `{}`))
			require.Positive(t, out.ExpiresInMS)
			require.LessOrEqual(t, out.ExpiresInMS, int64(1000))
			early, err := h.ExpireApprovals(t.Context(), turns.ExpireApprovalsInput{TurnID: "t1", Step: 1})
			require.NoError(t, err)
			require.Empty(t, early.Verdicts)
			require.Positive(t, early.NextInMS)

			var late turns.ExpireApprovalsResult
			require.Eventually(t, func() bool {
				late, err = h.ExpireApprovals(t.Context(), turns.ExpireApprovalsInput{TurnID: "t1", Step: 1})
				return err != nil || len(late.Verdicts) > 0
			}, 10*time.Second, 50*time.Millisecond)
			require.NoError(t, err)
			want.ApprovalID, want.CallID, want.By = out.Pending[0].ApprovalID, "a", agent.ExpiredBy
			require.Equal(t, []agent.DecisionVerdict{want}, late.Verdicts)
			require.Zero(t, late.NextInMS)
			again, err := h.ExpireApprovals(t.Context(), turns.ExpireApprovalsInput{TurnID: "t1", Step: 1})
			require.NoError(t, err)
			require.Equal(t, late, again)
			r, err := h.Decide(t.Context(), turns.DecideInput{TurnID: "t1", Decision: agent.Decision{
				ApprovalID: want.ApprovalID, Decision: agent.DecisionApprove, By: "ops",
			}})
			require.NoError(t, err)
			require.Equal(t, string(agent.CodeConflict), r.Refusal.Type, "too late")
			if !want.Run {
				require.True(t, h.result().Verdict.Failed, "the model gets the reason")
			}
		})
	}
}

func TestEditedArgumentsMustFit(t *testing.T) {
	h := newHarness(t)
	h.catalog.change(func(p *agent.Plan) {
		p.Tools[0].Spec.Parameters = json.RawMessage(`{"type":"object","properties":{"q":{"type":"integer"}},"additionalProperties":false}`)
	})
	_, out := h.requestApprovals(agent.TurnRequest{TurnID: "t1"}, toolCall("a", `{"q":1}`))
	edit := agent.Decision{ApprovalID: out.Pending[0].ApprovalID, Decision: agent.DecisionEdit, Args: json.RawMessage(`{"q":"one"}`), By: "ops"}
	r := h.decide("t1", edit)
	require.Equal(t, "args.q", r.Refusal.Field)
	edit.Args = json.RawMessage(`{"q":2}`)
	r = h.decide("t1", edit)
	require.True(t, r.Verdict.Run, "%+v", r.Refusal)
	h.tool.call = returns(agent.ToolResult{Output: json.RawMessage(`1`)}, nil)
	h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: "a", Decided: true})
	require.JSONEq(t, `{"q":2}`, string(h.result().Args))
}

func TestRefusedCall(t *testing.T) {
	h, in := beginWithCall(t, true)
	in.Refused = "Tool call limit exceeded."
	v := h.callTool(in)
	require.True(t, v.Failed)
	require.Zero(t, h.tool.count)
	require.Contains(t, string(h.result().Result.Output), in.Refused)
}

// TestTheSameDecisionAtOnce: two concurrent identical decisions count as one and are announced once.
func TestTheSameDecisionAtOnce(t *testing.T) {
	h := newHarness(t)
	_, out := h.requestApprovals(agent.TurnRequest{TurnID: "t1"}, toolCall("a", `{}`))
	d := agent.Decision{ApprovalID: out.Pending[0].ApprovalID, Decision: agent.DecisionApprove, By: "ops"}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			r, err := h.Decide(t.Context(), turns.DecideInput{TurnID: "t1", Decision: d})
			if err != nil || r.Verdict == nil || !r.Verdict.Run {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	wg.Wait()
	r := h.decide("t1", d)
	require.True(t, r.Verdict.Run)
	shown, voided := 0, int64(0)
	for _, e := range h.events("t1") {
		if e.Type == agent.EventReset {
			voided = e.FromIndex
			shown = 0
		}
		if e.Type == agent.EventApprovalResolved && e.Meta.EventIndex >= voided {
			shown++
		}
	}
	require.Equal(t, 1, shown)
}

// TestLookForDecisions: the decision is stored, but the process died before it did anything else.
func TestLookForDecisions(t *testing.T) {
	cases := map[string]func(h *harness, a string) error{
		"by the turn that looks": nil,
		"by a second decision": func(h *harness, a string) error {
			r, err := h.Decide(h.t.Context(), turns.DecideInput{TurnID: "t1", Decision: agent.Decision{
				ApprovalID: a, Decision: agent.DecisionApprove, By: "bob",
			}})
			require.ErrorContains(h.t, r.Refusal.AsError(), `by "ann"`)
			require.Equal(h.t, agent.DecisionReject, r.Stands.Decision)
			return err
		},
	}
	for name, before := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			_, out := h.requestApprovals(agent.TurnRequest{TurnID: "t1"}, toolCall("a", `{}`), toolCall("b", `{}`))
			a, b := out.Pending[0].ApprovalID, out.Pending[1].ApprovalID
			in := turns.LookForDecisionsInput{TurnID: "t1", Step: 1, Approvals: []string{a, b}}
			found, err := h.LookForDecisions(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, turns.LookForDecisionsResult{}, found)

			reject := agent.Decision{ApprovalID: a, Decision: agent.DecisionReject, Message: "too dear", By: "ann"}
			_, err = h.store.ResolveApproval(t.Context(), "t1", reject)
			require.NoError(t, err)
			if before != nil {
				require.NoError(t, before(h, a))
			}
			want := []agent.DecisionVerdict{{ApprovalID: a, CallID: "a", Decision: agent.DecisionReject, By: "ann"}}
			for range 2 {
				found, err = h.LookForDecisions(t.Context(), in)
				require.NoError(t, err)
				require.Equal(t, turns.LookForDecisionsResult{Verdicts: want}, found)
			}
			step, _, err := h.store.ToolStep(t.Context(), agent.StepKey{TurnID: "t1", Step: 1, CallID: "a"})
			require.NoError(t, err)
			require.NotNil(t, step, "the model gets the reason")
			require.Contains(t, string(step.Result.Output), "too dear")
			resolved := 0
			for _, e := range h.events("t1") {
				if e.Type == agent.EventApprovalResolved {
					resolved++
				}
			}
			require.Equal(t, 1, resolved, "viewers get one event")

			require.NoError(t, h.log.Cancel(t.Context(), "t1"))
			in.Approvals = []string{b}
			found, err = h.LookForDecisions(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, turns.LookForDecisionsResult{Cancelled: true}, found)

			in.Approvals = []string{"of a database that was restored since"}
			_, err = h.LookForDecisions(t.Context(), in)
			require.False(t, agent.CodeOf(err).Retryable(), "the record is gone for good")
		})
	}
}

// After a turn has ended, its decision is accepted again and any other is refused.
func TestDecisionComesAgain(t *testing.T) {
	o := newInboxHarness(t)
	id := o.submitTurn(nil)
	for _, approval := range []string{"decided", "open"} {
		require.NoError(t, o.store.SaveApproval(t.Context(), "acme", agent.Approval{
			ApprovalID: approval, TurnID: id, CallID: "c", Step: 1, ToolName: "send", Args: json.RawMessage(`{}`),
		}))
	}
	d := agent.Decision{ApprovalID: "decided", Decision: agent.DecisionApprove, By: "ann"}
	_, err := o.store.ResolveApproval(t.Context(), id, d)
	require.NoError(t, err)
	o.end(id, agent.TurnCompleted)
	require.NoError(t, o.Decide(t.Context(), id, d))
	for name, other := range map[string]agent.Decision{
		"another decision": {ApprovalID: "decided", Decision: agent.DecisionReject, By: "ann"},
		"another person":   {ApprovalID: "decided", Decision: agent.DecisionApprove, By: "bob"},
		"the first one":    {ApprovalID: "open", Decision: agent.DecisionApprove, By: "ann"},
		"unknown":          {ApprovalID: "none", Decision: agent.DecisionApprove, By: "ann"},
	} {
		require.Equal(t, agent.CodeConflict, agent.CodeOf(o.Decide(t.Context(), id, other)), name)
	}
	open := agent.Decision{ApprovalID: "open", Decision: agent.DecisionReject, By: "ann"}
	require.ErrorContains(t, o.Decide(t.Context(), id, open), "has ended", "only the end of the turn has decided it")
}
