package middleware

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// maxFallbacks bounds the models of a chain.
const maxFallbacks = 10

// modelFallback asks other models of the plan when one fails, as LangChain v1's ModelFallbackMiddleware does: on any error of a provider.
// The usage of each is charged at its own price. Put it before model_retry, so that each model is retried before the next is asked.
type modelFallback struct {
	agent.Pass
	models []string
}

func newModelFallback(options json.RawMessage) (agent.Middleware, error) {
	var o struct {
		Models []string `json:"models"` // profiles, in the order in which they are asked after the turn's own
	}
	if err := decode(options, &o); err != nil {
		return nil, err
	}
	if len(o.Models) == 0 || len(o.Models) > maxFallbacks {
		return nil, agent.Invalid("models", "want 1 to %d profiles of the agent", maxFallbacks)
	}
	return &modelFallback{models: o.Models}, nil
}

// CheckPlan implements [agent.PlanChecker]: a turn may only use what its plan lists.
func (m *modelFallback) CheckPlan(p *agent.Plan) error {
	for i, name := range m.models {
		if _, err := p.Model(name); err != nil || name == "" {
			return ruleViolation(ruleKnownModel, fmt.Sprintf("models[%d]", i), "the agent has no model %.50q", name)
		}
	}
	return nil
}

// WrapModel asks one model after the other until one answers. The error is the last one's.
func (m *modelFallback) WrapModel(next agent.ModelFunc) agent.ModelFunc {
	return func(ctx context.Context, inv agent.Invocation, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
		first := req.Profile
		reply, err := next(ctx, inv, req, emit)
		for _, name := range m.models {
			if err == nil || ctx.Err() != nil {
				break
			}
			if name == first {
				continue
			}
			req.Profile = name
			reply, err = next(ctx, inv, req, emit)
		}
		return reply, err
	}
}
