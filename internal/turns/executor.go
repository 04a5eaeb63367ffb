package turns

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	cachedExecutors = 256              // plans that a process caches, ready to run
	buildPatience   = 30 * time.Second // to load and build a plan
)

// executor is a plan that is ready to run: with its middleware built. It is shared by all calls of all turns of the plan.
type executor struct {
	plan  agent.Plan
	chain []agent.Middleware

	readsDatasets bool // a tool takes references to datasets
}

// executor returns the plan of a hash, ready to run. It builds a plan once, however many turns ask for it at the same time. Plans never change, so
// the cache needs no end; a failed build is tried again.
func (ts *Turns) executor(ctx context.Context, hash string) (*executor, error) {
	if e, ok := ts.executors.Get(hash); ok {
		return e, nil
	}
	made, err, _ := ts.building.Do(hash, func() (any, error) {
		if e, ok := ts.executors.Get(hash); ok {
			return e, nil
		}
		// Other callers wait for the same plan: the build goes on if the first caller leaves.
		ctx, free := context.WithTimeout(context.WithoutCancel(ctx), buildPatience)
		defer free()
		plan, err := ts.Registry.Plan(ctx, hash)
		if err != nil {
			return nil, fmt.Errorf("load plan %s: %w", hash, err)
		}
		plan.Middleware = withModelRetry(plan.Middleware)
		chain, err := ts.Middleware.Chain(&plan)
		if err != nil {
			return nil, err
		}
		e := &executor{plan: plan, chain: chain, readsDatasets: slices.ContainsFunc(plan.Tools, func(t agent.PlanTool) bool { return t.Spec.ReadsDatasets })}
		ts.executors.Add(hash, e)
		return e, nil
	})
	if err != nil {
		return nil, err
	}
	return made.(*executor), nil //nolint:forcetypeassert // what the function above makes
}

// Middleware that the place of model_retry depends on.
const (
	modelRetry    = "model_retry"
	modelFallback = "model_fallback"
)

// withModelRetry adds model_retry to the middleware of a plan that does not name it. It goes right behind model_fallback, so that each model is
// retried before the next one is asked; else it goes first, so that middleware that filters replies starts again with each try.
func withModelRetry(list []agent.PlanMiddleware) []agent.PlanMiddleware {
	place := 0
	for i := range list {
		switch list[i].Name {
		case modelRetry:
			return list
		case modelFallback:
			place = i + 1
		}
	}
	return slices.Insert(slices.Clone(list), place, agent.PlanMiddleware{Name: modelRetry})
}
