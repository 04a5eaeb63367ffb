// Package middleware holds the built-in middleware, one file each, under LangChain v1's names (DESIGN §6).
package middleware

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

// Factory makes a middleware from the options of a plan.
type Factory func(options json.RawMessage) (agent.Middleware, error)

// Builtin lists the middleware of this package by name. maxRetries is how often model_retry tries again where a plan does not say.
func Builtin(maxRetries int) []Named {
	return []Named{
		{Name: "model_retry", New: func(options json.RawMessage) (agent.Middleware, error) { return newModelRetry(maxRetries, options) }},
		{Name: "model_fallback", New: newModelFallback},
		{Name: "tool_retry", New: newToolRetry},
		{Name: "tool_error", New: newToolError},
		{Name: "context_editing", New: newContextEditing},
		{Name: "pii", New: pii.New},
	}
}

// Named is a middleware that plans can name.
type Named struct {
	Name string
	New  Factory
}

// Set builds the chains of plans.
type Set struct{ factories map[string]Factory }

// NewSet refuses two of one name.
func NewSet(all ...Named) (*Set, error) {
	s := &Set{factories: make(map[string]Factory, len(all))}
	for _, n := range all {
		if _, ok := s.factories[n.Name]; ok {
			return nil, fmt.Errorf("middleware %q is given twice", n.Name)
		}
		s.factories[n.Name] = n.New
	}
	return s, nil
}

// Check makes a middleware and says what keeps it from working in a plan, nil for any plan; the error's Field is name, or options and
// what is within.
func (s *Set) Check(m agent.PlanMiddleware, p *agent.Plan) error {
	f, ok := s.factories[m.Name]
	if !ok {
		return agent.Invalid("name", "there is no middleware %q", m.Name)
	}
	made, err := f(m.Options)
	if checker, ok := made.(agent.PlanChecker); ok && err == nil && p != nil {
		err = checker.CheckPlan(p)
	}
	if err == nil && p != nil && repeats(m.Name) && slices.ContainsFunc(p.Middleware, filters) {
		return agent.Invalid("name", "rule repeat-before-filter: %s must come before pii, "+
			"which would take the end of one try for the beginning of the next", m.Name)
	}
	if err != nil {
		path := "options"
		if e, ok := errors.AsType[*agent.Error](err); ok && e.Op == "" {
			if e.Field != "" {
				path += "." + e.Field
			}
			err = e.Err
		}
		return agent.Invalid(path, "%w", err)
	}
	return nil
}

// repeats says of a middleware that it may run a model call more than once.
func repeats(name string) bool { return name == "model_retry" || name == "model_fallback" }

// filters says of one that it holds back what is streamed.
func filters(m agent.PlanMiddleware) bool { return m.Name == "pii" }

// Chain builds the middleware of a plan in its order.
func (s *Set) Chain(p *agent.Plan) ([]agent.Middleware, error) {
	out := make([]agent.Middleware, 0, len(p.Middleware))
	for i, m := range p.Middleware {
		f, ok := s.factories[m.Name]
		if !ok {
			return nil, agent.Invalid(fmt.Sprintf("middleware[%d].name", i), "there is no middleware %q", m.Name)
		}
		built, err := f(m.Options)
		if err != nil {
			return nil, fmt.Errorf("middleware[%d] %s: %w", i, m.Name, err)
		}
		out = append(out, built)
	}
	return out, nil
}
