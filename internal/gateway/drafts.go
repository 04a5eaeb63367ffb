package gateway

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// compileDraft compiles the draft of a request, if it has one; the request is then for the draft's agent. The caller must be allowed to apply the
// draft.
func (g *Gateway) compileDraft(ctx context.Context, caller identity, r *agent.TurnRequest) error {
	if r.Draft == nil {
		return nil
	}
	if !caller.principal.MayAny(agent.ActionCatalogWrite) {
		return caller.allow(agent.ActionCatalogWrite, scopeName(agent.DocumentKey{Kind: agent.KindAgent, Name: r.Agent}))
	}
	draft, err := g.cfg.Documents.CompileDraft(ctx, r.Context.TenantName(), r.Draft.Text, caller.allowWrite)
	if err != nil {
		return err
	}
	if r.Agent != "" && r.Agent != draft.Agent {
		return agent.Invalid("agent", "is %.140q, and the draft is of %q", r.Agent, draft.Agent)
	}
	r.Agent, r.Draft = draft.Agent, &draft
	return nil
}
