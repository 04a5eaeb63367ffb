// Package middleware holds the built-in middleware, one file each, under LangChain v1's names.
package middleware

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/middleware/pii"
)

// Factory returns a middleware with the options of a plan.
type Factory func(options json.RawMessage) (agent.Middleware, error)

// Builtin returns the middleware of this package by name. ofProfile and maxRetries say how often model_retry retries if the plan does not:
// by model profile, and for all others.
func Builtin(maxRetries int, ofProfile map[string]int) []Named {
	approvals := newApprovals()
	return []Named{
		{Name: "model_retry", New: func(options json.RawMessage) (agent.Middleware, error) {
			return newModelRetry(maxRetries, ofProfile, options)
		}},
		{Name: "model_fallback", New: newModelFallback},
		{Name: "tool_retry", New: newToolRetry},
		{Name: "tool_error", New: newToolError},
		{Name: "model_call_limit", New: newModelCallLimit},
		{Name: "tool_call_limit", New: newToolCallLimit},
		{Name: "human_in_the_loop", New: approvals.build},
		{Name: "todo", New: newTodo},
		{Name: "summarization", New: newSummarization},
		{Name: "context_editing", New: newContextEditing},
		{Name: "prompt_caching", New: newPromptCaching},
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

// NewSet returns a set. It refuses two of one name.
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

// Check builds a middleware and returns what is wrong with it, or with its place in a plan, if there is one. The Field of the error is name,
// or options and the path within. The middleware before it must be in the plan. A refusal by a rule (see [Rules]) begins with its name.
func (s *Set) Check(m agent.PlanMiddleware, p *agent.Plan) error {
	if _, ok := s.factories[m.Name]; !ok {
		return agent.Invalid("name", "there is no middleware %q", m.Name)
	}
	made, err := s.build(&m)
	if err != nil || p == nil {
		return withOptionsPath(err)
	}
	if checker, ok := made.(agent.PlanChecker); ok {
		if err := checker.CheckPlan(p); err != nil {
			return withOptionsPath(err)
		}
	}
	return s.checkOrder(m.Name, made, p)
}

// withOptionsPath puts options in front of the field of a factory's error.
func withOptionsPath(err error) error {
	if err == nil {
		return nil
	}
	path := "options"
	if e, ok := errors.AsType[*agent.Error](err); ok && e.Op == "" {
		if e.Field != "" {
			path += "." + e.Field
		}
		err = e.Err
	}
	return agent.Invalid(path, "%w", err)
}

// Chain builds the middleware of a plan in its order.
func (s *Set) Chain(p *agent.Plan) ([]agent.Middleware, error) {
	out := make([]agent.Middleware, 0, len(p.Middleware))
	for i := range p.Middleware {
		m := &p.Middleware[i]
		built, err := s.build(m)
		if err != nil {
			return nil, fmt.Errorf("middleware[%d] %s: %w", i, m.Name, err)
		}
		out = append(out, built)
	}
	return out, nil
}

// build builds one. Options of null mean none, because YAML makes null of an empty entry.
func (s *Set) build(m *agent.PlanMiddleware) (agent.Middleware, error) {
	options := m.Options
	if bytes.Equal(bytes.TrimSpace(options), []byte("null")) {
		options = nil
	}
	f, ok := s.factories[m.Name]
	if !ok {
		return nil, agent.Invalid("name", "there is no middleware %q", m.Name)
	}
	return f(options)
}
