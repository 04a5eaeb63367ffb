package routing

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Router decides for one tenant. It is immutable and safe for concurrent use.
type Router struct {
	rules    []rule // in the order of evaluation
	defaults []fallback
	bounds   bounds
}

// fallback is a table's default agent.
type fallback struct {
	table string
	agent string
}

// Decide returns the agent of a request; the package comment has the rules. available reports which agents exist; nil: all do. With explain
// the decision has a verdict on every rule; without, evaluation stops at the rule that decides. Both decide alike. Agent is empty if nothing
// chooses one. The caller fills in the revision.
func (r *Router) Decide(c agent.RouteContext, available func(name, model string) bool, explain bool) agent.RouteDecision {
	d := r.choose(newFacts(&c, r.bounds), available, explain)
	if c.Agent == "" {
		return d
	}
	for i := range d.Rules {
		if v := &d.Rules[i]; v.Chosen {
			v.Chosen, v.Reason = false, "matched, and would decide if the request named no agent"
		}
	}
	return agent.RouteDecision{
		Agent: c.Agent, Reason: agent.RouteNamed, Expected: d.Agent, Mismatch: d.Agent != "" && d.Agent != c.Agent, Rules: d.Rules,
	}
}

// choose decides as if the request named no agent.
func (r *Router) choose(f *facts, available func(name, model string) bool, explain bool) agent.RouteDecision {
	var (
		d       agent.RouteDecision
		decided bool
	)
	if explain {
		d.Rules = make([]agent.RuleVerdict, 0, len(r.rules))
	}
	for i := range r.rules {
		rule := &r.rules[i]
		matched, reason := rule.matches(f, explain)
		usable := matched && (available == nil || available(rule.agent, rule.model))
		chosen := usable && !decided
		if chosen {
			decided = true
			d.Agent, d.Model, d.Reason, d.Table, d.Rule = rule.agent, rule.model, agent.RouteRuled, rule.table, rule.name
		}
		if !explain {
			if decided {
				return d
			}
			continue
		}
		switch {
		case chosen:
			reason = "matched"
		case usable:
			reason = "matched, but a rule before it decided"
		case matched:
			reason = "matched, but " + rule.unavailableReason()
		}
		d.Rules = append(d.Rules, agent.RuleVerdict{
			Table: rule.table, Rule: rule.name, Priority: rule.priority, Matched: matched, Chosen: chosen, Reason: reason,
			Agent: rule.agent, Model: rule.model,
		})
	}
	if decided {
		return d
	}
	for _, def := range r.defaults {
		if available == nil || available(def.agent, "") {
			d.Agent, d.Reason, d.Table = def.agent, agent.RouteDefault, def.table
			break
		}
	}
	return d
}

// matches reports whether a rule's conditions hold; the reason is the first one that does not.
func (r *rule) matches(f *facts, explain bool) (matched bool, reason string) {
	if r.disabled {
		return false, "disabled"
	}
	for _, c := range r.conditions {
		if holds, reason := c.test(f, explain); !holds {
			return false, reason
		}
	}
	return true, ""
}

// unavailableReason names the agent and the model that a rule asks for but that are not available.
func (r *rule) unavailableReason() string {
	if r.model != "" {
		return fmt.Sprintf("agent %q with model %q is not available", clip.Bytes(r.agent, maxShown), clip.Bytes(r.model, maxShown))
	}
	return fmt.Sprintf("agent %q is not available", clip.Bytes(r.agent, maxShown))
}
