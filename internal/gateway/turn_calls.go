package gateway

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// This file is what all doors do with a turn that there is: look it up as the caller may see it, check what he says, call [Runtime].

func (g *Gateway) decide(ctx context.Context, who identity, id agent.TurnID, d agent.Decision) error {
	if err := checkDecision(&d); err != nil {
		return err
	}
	v, err := g.turn(ctx, who, id)
	if err != nil {
		return err
	}
	return g.cfg.Runtime.Decide(ctx, v.TurnID, d)
}

func (g *Gateway) provide(ctx context.Context, who identity, id agent.TurnID, r ProvidedResult) error {
	if err := r.Validate(); err != nil {
		return err
	}
	v, err := g.turn(ctx, who, id)
	if err != nil {
		return err
	}
	return g.cfg.Runtime.Provide(ctx, v.TurnID, r)
}

func (g *Gateway) cancel(ctx context.Context, who identity, id agent.TurnID, c agent.CancelRequest) error {
	v, err := g.turn(ctx, who, id)
	if err != nil {
		return err
	}
	return g.cfg.Runtime.Cancel(ctx, v.TurnID, c)
}

func (g *Gateway) message(
	ctx context.Context, who identity, door string, id agent.TurnID, req *agent.TurnRequest,
) (receipt agent.Receipt, position int, err error) {
	v, err := g.turn(ctx, who, id)
	if err != nil {
		return receipt, 0, err
	}
	if err := g.checkMessage(&v, door, req); err != nil {
		return receipt, 0, err
	}
	return g.cfg.Runtime.Message(ctx, v.TurnID, *req)
}
