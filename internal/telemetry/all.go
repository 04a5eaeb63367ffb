// Package telemetry is what operators see of a process: its traces (traces), metrics (metrics) and logs (logs). Traces and metrics are
// observers of turns; [All] makes one of them.
package telemetry

import (
	"context"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// All is the observer that tells several. Of what a turn is to remember, the first word counts; contexts are handed from one to the next.
func All(observers ...agent.Observer) agent.Observer {
	if len(observers) == 1 {
		return observers[0]
	}
	return all(observers)
}

type all []agent.Observer

func (a all) Carry(ctx context.Context) string {
	return a.first(func(o agent.Observer) string { return o.Carry(ctx) })
}

func (a all) Delegate(ctx context.Context, t *agent.Observed, child agent.TurnID) string {
	return a.first(func(o agent.Observer) string { return o.Delegate(ctx, t, child) })
}

func (a all) first(ask func(agent.Observer) string) string {
	for _, o := range a {
		if s := ask(o); s != "" {
			return s
		}
	}
	return ""
}

func (a all) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	return nest(ctx, a, func(ctx context.Context, o agent.Observer) (context.Context, func(error)) { return o.Work(ctx, w) })
}

func (a all) Request(ctx context.Context, r agent.ModelObservation) (context.Context, func(agent.ModelOutcome)) {
	return nest(ctx, a, func(ctx context.Context, o agent.Observer) (context.Context, func(agent.ModelOutcome)) {
		return o.Request(ctx, r)
	})
}

func (a all) Tool(ctx context.Context, t agent.ToolObservation) (context.Context, func(agent.ToolOutcome)) {
	return nest(ctx, a, func(ctx context.Context, o agent.Observer) (context.Context, func(agent.ToolOutcome)) {
		return o.Tool(ctx, t)
	})
}

func (a all) Decided(ctx context.Context, t *agent.Observed, approval *agent.Approval) {
	for _, o := range a {
		o.Decided(ctx, t, approval)
	}
}

func (a all) Ended(ctx context.Context, e agent.TurnEnded) {
	for _, o := range a {
		o.Ended(ctx, e)
	}
}

// nest begins with each observer in order, and ends in the opposite one.
func nest[T any](ctx context.Context, a all, begin func(context.Context, agent.Observer) (context.Context, func(T))) (context.Context, func(T)) {
	ends := make([]func(T), len(a))
	for i, o := range a {
		ctx, ends[i] = begin(ctx, o) //nolint:fatcontext // one level for each observer
	}
	return ctx, func(v T) {
		for _, end := range slices.Backward(ends) {
			end(v)
		}
	}
}
