package turnstone

import (
	"context"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// observers calls several observers in order. Each gets the context that the one before returned. Carry and Delegate return the first answer
// that is not empty.
type observers []agent.Observer

func (all observers) Carry(ctx context.Context) string {
	return all.first(func(o agent.Observer) string { return o.Carry(ctx) })
}

func (all observers) Delegate(ctx context.Context, t *agent.Observed, child agent.TurnID) string {
	return all.first(func(o agent.Observer) string { return o.Delegate(ctx, t, child) })
}

func (all observers) first(ask func(agent.Observer) string) string {
	for _, o := range all {
		if s := ask(o); s != "" {
			return s
		}
	}
	return ""
}

func (all observers) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	return nest(ctx, all, func(ctx context.Context, o agent.Observer) (context.Context, func(error)) { return o.Work(ctx, w) })
}

func (all observers) Request(ctx context.Context, r agent.ModelObservation) (context.Context, func(agent.ModelOutcome)) {
	return nest(ctx, all, func(ctx context.Context, o agent.Observer) (context.Context, func(agent.ModelOutcome)) {
		return o.Request(ctx, r)
	})
}

func (all observers) Tool(ctx context.Context, t agent.ToolObservation) (context.Context, func(agent.ToolOutcome)) {
	return nest(ctx, all, func(ctx context.Context, o agent.Observer) (context.Context, func(agent.ToolOutcome)) {
		return o.Tool(ctx, t)
	})
}

func (all observers) Decided(ctx context.Context, t *agent.Observed, approval *agent.Approval) {
	for _, o := range all {
		o.Decided(ctx, t, approval)
	}
}

func (all observers) Ended(ctx context.Context, e agent.TurnEnded) {
	for _, o := range all {
		o.Ended(ctx, e)
	}
}

// nest calls begin with each observer in order. The function that it returns ends them in reverse order.
func nest[T any](ctx context.Context, all observers, begin func(context.Context, agent.Observer) (context.Context, func(T))) (context.Context, func(T)) {
	ends := make([]func(T), len(all))
	for i, o := range all {
		ctx, ends[i] = begin(ctx, o) //nolint:fatcontext // one level for each observer
	}
	return ctx, func(v T) {
		for _, end := range slices.Backward(ends) {
			end(v)
		}
	}
}
