package middleware

import (
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

// Rule is a rule of combining middleware. A plan that breaks it does not compile, and the refusal begins with "rule <name>: ". There is a
// rule for each way in which valid middleware goes wrong together or in its plan.
type Rule struct {
	Name string
	What string // what a plan must be like
	Why  string // what would happen otherwise
}

// The names of the rules.
const (
	ruleOnce               = "once"
	ruleRepeatBeforeFilter = "repeat-before-filter"
	ruleFilterBeforeAsk    = "filter-before-summary"
	ruleSummaryBeforeEdit  = "summary-before-edit"
	ruleErrorBeforeRetry   = "error-before-retry"
	ruleFallbackSees       = "fallback-sees-errors"
	ruleStablePrefix       = "cache-stable-prefix"
	ruleCacheSupported     = "cache-supported"
	ruleKnownContext       = "known-context"
	ruleKnownModel         = "known-model"
	ruleKnownTool          = "known-tool"
)

// Rules returns the rules, for people: those of the order first, then those between a middleware and its plan.
func Rules() []Rule {
	out := make([]Rule, 0, len(pairRules())+8)
	out = append(out, onceRule())
	for _, r := range pairRules() {
		if !slices.Contains(out, r.Rule) { // some are about several pairs
			out = append(out, r.Rule)
		}
	}
	return append(
		out,
		Rule{
			ruleCacheSupported, "prompt_caching with unsupported_model_behavior raise: every model of the agent is Anthropic's",
			"a turn on another model would not be cached, which the option says is an error",
		},
		Rule{
			ruleKnownContext, "summarization with a fraction: every model of the agent says its context_tokens",
			"a fraction of nothing is nothing: the conversation would never be summarized, and outgrow the model",
		},
		Rule{
			ruleKnownModel, "model_fallback and summarization name models of the agent",
			"the call would fail when it is needed",
		},
		Rule{
			ruleKnownTool, "human_in_the_loop and tool_call_limit name tools of the agent",
			"a misspelt name guards nothing",
		},
	)
}

// onlyOnce returns the middleware that may come once.
func onlyOnce() []string {
	return []string{"human_in_the_loop", "model_fallback", "model_retry", "prompt_caching", "summarization", "todo"}
}

func onceRule() Rule {
	return Rule{
		ruleOnce, "human_in_the_loop, model_fallback, model_retry, prompt_caching, summarization and todo come once",
		"a second approval policy overrules the first, retries multiply, and two summaries replace each other's note with every call",
	}
}

// pairRule is about two middleware of a plan.
type pairRule struct {
	Rule

	earlier, later string // names; one that comes twice is asked of each of its entries
	isBroken       func(earlier, later agent.Middleware) bool
	message        string // for the author of the plan
}

// pairRules returns the rules of order. Each describes the wrong order; if both orders are wrong there are two.
func pairRules() []pairRule {
	always := func(agent.Middleware, agent.Middleware) bool { return true }
	filter := Rule{
		ruleRepeatBeforeFilter, "model_retry and model_fallback come before pii",
		"pii would take the end of one try for the beginning of the next, and hold back or let through the wrong text",
	}
	prefix := Rule{
		ruleStablePrefix, "beside prompt_caching every edit of context_editing has a clear_at_least",
		"without, each call clears one more result: the prompt differs from the one before in the middle, and the conversation is written " +
			"to the cache again and again without ever being read from it",
	}
	cacheMessage := "context_editing without clear_at_least changes the prompt with every call, so that the conversation is never read from the cache"
	return []pairRule{
		{filter, "pii", "model_retry", always, "model_retry must come before pii, which would take the end of one try for the beginning of the next"},
		{filter, "pii", "model_fallback", always, "model_fallback must come before pii, which would take the end of one try for the beginning of the next"},
		{
			Rule{
				ruleFilterBeforeAsk, "pii that looks at what the model is told comes before summarization",
				"summarization sends the conversation to a model and keeps what it says: with the values that pii should have taken out",
			},
			"summarization", "pii", readsInput, "pii must come before summarization, which sends the conversation to a model",
		},
		{
			Rule{
				ruleSummaryBeforeEdit, "summarization comes before context_editing",
				"older messages would change between two calls, so that no summary fits any more and each call pays for a new one, made of what is left",
			},
			"context_editing", "summarization", always, "summarization must come before context_editing, whose changes no kept summary would fit",
		},
		{
			Rule{
				ruleErrorBeforeRetry, "tool_error comes before a tool_retry of the same tools and errors",
				"tool_retry would see data: no Retry-After, and nothing that tells a call that was turned away from one that may have taken effect",
			},
			"tool_retry", "tool_error", hidesErrors, "tool_error must come before tool_retry, which would not see the errors",
		},
		{
			Rule{
				ruleFallbackSees, "model_retry behind model_fallback has on_failure error",
				"the error would have become a reply, and no other model would be asked",
			},
			"model_fallback", "model_retry", swallowsErrors, "on_failure continue hides from model_fallback that the model failed",
		},
		{prefix, "context_editing", "prompt_caching", func(earlier, _ agent.Middleware) bool { return editsEveryCall(earlier) }, cacheMessage},
		{prefix, "prompt_caching", "context_editing", func(_, later agent.Middleware) bool { return editsEveryCall(later) }, cacheMessage},
	}
}

func readsInput(_, later agent.Middleware) bool {
	m, ok := later.(*pii.Middleware)
	return ok && m.Reads()
}

func hidesErrors(earlier, later agent.Middleware) bool {
	retry, ok := earlier.(*toolRetry)
	hide, is := later.(*toolError)
	if !ok || !is {
		return false
	}
	tools := len(retry.options.Tools) == 0 || len(hide.tools) == 0 ||
		slices.ContainsFunc(retry.options.Tools, func(name string) bool { return appliesTo(hide.tools, name) })
	return tools && slices.ContainsFunc(hide.codes, func(c agent.Code) bool { return slices.Contains(retry.options.RetryOn, string(c)) })
}

func swallowsErrors(_, later agent.Middleware) bool {
	m, ok := later.(*modelRetry)
	return ok && m.options.OnFailure == onFailureContinue
}

func editsEveryCall(m agent.Middleware) bool {
	e, ok := m.(*contextEditing)
	return ok && slices.ContainsFunc(e.edits, func(c clearToolUses) bool { return c.clearAtLeast == 0 })
}

// ruleViolation returns the refusal of a rule.
func ruleViolation(rule, field, format string, args ...any) error {
	return agent.Invalid(field, "rule %s: "+format, append([]any{rule}, args...)...)
}

// checkOrder checks a middleware against those before it.
func (s *Set) checkOrder(name string, made agent.Middleware, p *agent.Plan) error {
	for i := range p.Middleware {
		before := &p.Middleware[i]
		if before.Name == name && slices.Contains(onlyOnce(), name) {
			return ruleViolation(ruleOnce, "name", "%s comes twice", name)
		}
		for _, r := range pairRules() {
			if r.later != name || r.earlier != before.Name {
				continue
			}
			earlier, err := s.build(before)
			if err != nil {
				return fmt.Errorf("middleware[%d] %s: %w", i, before.Name, err)
			}
			if r.isBroken(earlier, made) {
				return ruleViolation(r.Name, "name", "%s", r.message)
			}
		}
	}
	return nil
}
