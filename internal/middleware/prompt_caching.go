package middleware

import (
	"context"
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// cachingProvider is the provider whose cache a request must ask for. Other providers cache by themselves or not at all.
const cachingProvider = "anthropic"

// The values of unsupported_model_behavior.
const (
	unsupportedIgnore = "ignore"
	unsupportedWarn   = "warn"
	unsupportedRaise  = "raise"
)

// promptCaching asks the provider to keep the stable prefix of the prompt, as LangChain v1's AnthropicPromptCachingMiddleware does. The
// model's adapter sets the marks after all middleware, so the middleware's place in the list does not matter.
type promptCaching struct {
	agent.Pass
	options promptCachingOptions
}

// promptCachingOptions are LangChain v1's.
type promptCachingOptions struct {
	Type                     string `json:"type"`                       // ephemeral, the only one there is
	TTL                      string `json:"ttl"`                        // 5m (default) or 1h
	MinMessagesToCache       int    `json:"min_messages_to_cache"`      // the system prompt counts as one; default 0
	UnsupportedModelBehavior string `json:"unsupported_model_behavior"` // ignore, warn (default) or raise: when the plan compiles
}

func newPromptCaching(options json.RawMessage) (agent.Middleware, error) {
	const maxCount = 1_000_000
	m := &promptCaching{options: promptCachingOptions{Type: "ephemeral", TTL: "5m", UnsupportedModelBehavior: unsupportedWarn}}
	if err := decode(options, &m.options); err != nil {
		return nil, err
	}
	o := &m.options
	if err := oneOf("type", o.Type, "ephemeral"); err != nil {
		return nil, err
	}
	if err := oneOf("ttl", o.TTL, "5m", "1h"); err != nil {
		return nil, err
	}
	if err := oneOf("unsupported_model_behavior", o.UnsupportedModelBehavior, unsupportedIgnore, unsupportedWarn, unsupportedRaise); err != nil {
		return nil, err
	}
	if o.MinMessagesToCache < 0 || o.MinMessagesToCache > maxCount {
		return nil, agent.Invalid("min_messages_to_cache", "want 0 to %d messages", maxCount)
	}
	return m, nil
}

// CheckPlan implements [agent.PlanChecker]. A turn may run on any model of the plan.
func (m *promptCaching) CheckPlan(p *agent.Plan) error {
	if m.options.UnsupportedModelBehavior != unsupportedRaise {
		return nil
	}
	for i := range p.Models {
		if model := &p.Models[i]; model.Provider != cachingProvider {
			return ruleViolation(ruleCacheSupported, "unsupported_model_behavior",
				"model %.50q is %.50q's, want %s's", model.Profile, model.Provider, cachingProvider)
		}
	}
	return nil
}

// BeforeModel marks the request. Models that cannot cache ignore the mark.
func (m *promptCaching) BeforeModel(_ context.Context, _ agent.Invocation, req *agent.ModelRequest) (agent.Jump, error) {
	messages := len(req.Messages)
	if req.System != "" {
		messages++
	}
	if messages >= m.options.MinMessagesToCache {
		req.Cache = &agent.PromptCache{TTL: m.options.TTL}
	}
	return agent.JumpNone, nil
}
