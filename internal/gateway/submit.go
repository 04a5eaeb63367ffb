package gateway

import (
	"cmp"
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// submit submits a request, and sets r to the request that the port got.
func (g *Gateway) submit(ctx context.Context, caller identity, door string, r *agent.TurnRequest) (agent.Receipt, error) {
	e := agent.Envelope{Channel: door, Request: *r}
	receipt, err := g.accept(ctx, caller, &e)
	*r = e.Request
	return receipt, err
}

// accept completes and checks an envelope, and submits it.
func (g *Gateway) accept(ctx context.Context, caller identity, e *agent.Envelope) (agent.Receipt, error) {
	r := &e.Request
	if r.StreamTo != nil {
		return agent.Receipt{}, errStreamTo()
	}
	if err := caller.setCaller(r); err != nil {
		return agent.Receipt{}, err
	}
	if r.Channel == "" {
		r.Channel = e.Channel
	}
	caller.setSender(e)
	if err := r.Validate(int(g.cfg.Limits.BodyBytes)); err != nil {
		return agent.Receipt{}, err
	}
	if err := g.compileDraft(ctx, caller, r); err != nil {
		return agent.Receipt{}, err
	}
	if err := caller.allowRun(r.Agent); err != nil {
		return agent.Receipt{}, err
	}
	receipt, err := g.cfg.Turns.Submit(ctx, *e)
	if err != nil {
		return receipt, err
	}
	return g.rememberOrCheck(ctx, caller, receipt, r)
}

// rememberOrCheck remembers a new turn. If the receipt is of an older turn, whose agent may be another one than the request's, it returns an error
// unless the caller may run that agent.
func (g *Gateway) rememberOrCheck(ctx context.Context, caller identity, receipt agent.Receipt, r *agent.TurnRequest) (agent.Receipt, error) {
	if !receipt.Joined {
		g.newTurns.Add(receipt.TurnID, newTurn{tenant: r.Context.TenantName(), agent: r.Agent})
	} else if !caller.principal.MayAll(agent.ActionTurnsRun) {
		if _, err := g.turn(ctx, caller, receipt.TurnID, agent.ActionTurnsRun); err != nil {
			return agent.Receipt{}, err
		}
	}
	return receipt, nil
}

// setSender sets the sender of an envelope.
func (c identity) setSender(e *agent.Envelope) {
	e.Principal, e.RequestID, e.Remote = c.principal, c.requestID, c.remote
	e.Sender = cmp.Or(c.actor(e.Sender), e.Request.Context.UserID)
}

// allowRun returns a denied error unless the caller may run an agent. With an empty name routing chooses the agent, and the runtime checks it.
func (c identity) allowRun(name string) error {
	if name == "" && c.principal.MayAny(agent.ActionTurnsRun) {
		return nil
	}
	return c.allow(agent.ActionTurnsRun, name)
}

// errStreamTo returns the error for a request with stream_to, which would let any caller signal any workflow.
func errStreamTo() error {
	return agent.Invalid("stream_to", "is for workflows only: follow the turn's events instead")
}

// compileDraft compiles the draft of a request, if it has one, and sets the request's agent to the draft's. The caller must be allowed to apply
// the draft.
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
