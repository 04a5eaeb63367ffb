package middleware

import (
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

// The names of the rules of combining middleware, which docs/guides/middleware.md explains. A plan that breaks one does not compile, and the
// refusal begins with "rule <name>: ".
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

// onlyOnce returns the middleware that may come once.
func onlyOnce() []string {
	return []string{"human_in_the_loop", "model_fallback", "model_retry", "prompt_caching", "summarization", "todo"}
}

// pairRule is a rule about two middleware of a plan, one before the other.
type pairRule struct {
	rule           string
	earlier, later string // names; the rule is checked for each entry with the name
	isBroken       func(earlier, later agent.Middleware) bool
	message        string // for the author of the plan
}

// pairRules returns the rules of order. Each describes the wrong order; if both orders are wrong there are two.
func pairRules() []pairRule {
	always := func(agent.Middleware, agent.Middleware) bool { return true }
	const afterFilter = " must come before pii, which would else join the end of one attempt to the beginning of the next"
	const cacheMessage = "context_editing without clear_at_least changes the prompt with every call, so that the conversation is never read from the cache"
	return []pairRule{
		{ruleRepeatBeforeFilter, "pii", "model_retry", always, "model_retry" + afterFilter},
		{ruleRepeatBeforeFilter, "pii", "model_fallback", always, "model_fallback" + afterFilter},
		{ruleFilterBeforeAsk, "summarization", "pii", readsInput, "pii must come before summarization, which sends the conversation to a model"},
		{
			ruleSummaryBeforeEdit, "context_editing", "summarization", always,
			"summarization must come before context_editing, because a stored summary would not fit the edited messages",
		},
		{ruleErrorBeforeRetry, "tool_retry", "tool_error", hidesErrors, "tool_error must come before tool_retry, which would not see the errors"},
		{ruleFallbackSees, "model_fallback", "model_retry", swallowsErrors, "model_retry with on_failure continue hides the model's failure from model_fallback"},
		{ruleStablePrefix, "context_editing", "prompt_caching", func(earlier, _ agent.Middleware) bool { return editsEveryCall(earlier) }, cacheMessage},
		{ruleStablePrefix, "prompt_caching", "context_editing", func(_, later agent.Middleware) bool { return editsEveryCall(later) }, cacheMessage},
	}
}

func readsInput(_, later agent.Middleware) bool {
	m, ok := later.(*pii.Middleware)
	return ok && m.Reads()
}

func hidesErrors(earlier, later agent.Middleware) bool {
	retry, isRetry := earlier.(*toolRetry)
	hide, isHide := later.(*toolError)
	if !isRetry || !isHide {
		return false
	}
	sharesTool := len(retry.options.Tools) == 0 || len(hide.tools) == 0 ||
		slices.ContainsFunc(retry.options.Tools, func(name string) bool { return appliesTo(hide.tools, name) })
	return sharesTool && slices.ContainsFunc(hide.codes, func(c agent.Code) bool { return slices.Contains(retry.options.RetryOn, string(c)) })
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
				return ruleViolation(r.rule, "name", "%s", r.message)
			}
		}
	}
	return nil
}
