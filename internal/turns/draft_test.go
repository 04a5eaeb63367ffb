package turns_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// A turn of a draft is recorded as such, and uses the plan of the draft whatever the catalog has.
func TestDraft(t *testing.T) {
	o := newInboxHarness(t)
	draft := func(name, system, model string) *agent.Draft {
		p := agentPlan(name)
		p.System, p.Models[0].Profile = system, model
		_, hash, err := o.catalog.ReplacePrompt(t.Context(), p, system)
		require.NoError(t, err)
		return &agent.Draft{Agent: name, PlanHash: hash, Revision: 4}
	}
	brief := draft("clerk", "Be brief.", "p")
	for _, d := range []*agent.Draft{brief, draft("new", "Be long.", "p")} {
		id := o.submitTurn(func(r *agent.TurnRequest) { r.Agent, r.Draft = d.Agent, d })
		turn := o.turn(id)
		require.Equal(t, agent.RouteDecision{Agent: d.Agent, Reason: agent.RouteDraft, Revision: 4}, *turn.Record.Route)
		require.Equal(t, d.PlanHash, turn.Record.PlanHash)
		line, _ := o.lastAudit()
		require.Equal(t, true, detail(t, &line)["draft"])
	}

	// The same key joins only with the same draft.
	asked := agent.Envelope{Channel: "http", Principal: keyCaller("*"), Request: helloRequest(func(r *agent.TurnRequest) { r.IdempotencyKey, r.Draft = "k", brief })}
	first := o.submit(asked)
	again := o.submit(asked)
	require.Equal(t, []any{first.TurnID, true}, []any{again.TurnID, again.Joined})
	for _, other := range []*agent.Draft{draft("clerk", "Be polite.", "p"), nil} {
		asked.Request.Draft = other
		_, err := o.Submit(t.Context(), asked)
		require.Equal(t, "conflict idempotency_key", string(agent.CodeOf(err))+" "+agent.FailureOf(err).Field)
	}

	// A rerun with a draft uses the draft's models.
	old := o.submitTurn(func(r *agent.TurnRequest) { r.Agent, r.Model = "clerk", "p" })
	o.end(old, agent.TurnCompleted)
	other := draft("clerk", "Be brief.", "q")
	receipt, err := o.Rerun(t.Context(), old, agent.Envelope{Channel: "http", Principal: keyCaller("*"), Request: agent.TurnRequest{
		Agent: "clerk", Rerun: &agent.Rerun{}, Draft: other, Context: agent.InvocationContext{Tenant: "acme"},
	}})
	require.NoError(t, err)
	turn := o.turn(receipt.TurnID)
	require.Equal(t, []any{other.PlanHash, old}, []any{turn.Record.PlanHash, turn.RerunOf})
}
