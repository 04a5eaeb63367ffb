package turns

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxCachedExecutors = 256
	buildTimeout       = 30 * time.Second // for loading and building a plan
)

// executor is a plan with its middleware. All calls of all turns of the plan share it.
type executor struct {
	plan  agent.Plan
	chain []agent.Middleware

	readsDatasets bool // whether a tool takes references to datasets
}

// executor returns the executor of the plan with a hash, from the cache if possible. Concurrent calls for one plan build it once. Plans never change,
// so cached executors do not expire. A failed build is not cached.
func (ts *Turns) executor(ctx context.Context, hash string) (*executor, error) {
	if e, ok := ts.executors.Get(hash); ok {
		return e, nil
	}
	built, err, _ := ts.building.Do(hash, func() (any, error) {
		if e, ok := ts.executors.Get(hash); ok {
			return e, nil
		}
		// Other callers may wait for this build, so it continues if the first caller is cancelled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), buildTimeout)
		defer cancel()
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
	return built.(*executor), nil //nolint:forcetypeassert // the function above returns nothing else
}

// The middleware that withModelRetry looks for.
const (
	modelRetry    = "model_retry"
	modelFallback = "model_fallback"
)

// withModelRetry adds model_retry to the middleware of a plan that does not name it: directly after model_fallback, so that each model is retried
// before the next one is used, or first if there is no model_fallback, so that middleware that filters replies starts anew with each try.
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
