package routing

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Router chooses agents for one tenant. It is immutable and safe for concurrent use.
type Router struct {
	rules    []rule // in the order of evaluation
	defaults []defaultAgent
	bounds   bounds
}

// defaultAgent is the default agent of a table.
type defaultAgent struct {
	table string
	agent string
}

// Decide returns the agent of a request as the package comment describes. available reports whether an agent exists; nil means that all do. If explain
// is true, the decision has a verdict for every rule. Agent is empty if no agent is chosen. The caller sets Revision.
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

// choose decides without regard to an agent that the request names.
func (r *Router) choose(f *facts, available func(name, model string) bool, explain bool) agent.RouteDecision {
	var d agent.RouteDecision
	isDecided := false
	if available == nil {
		available = func(string, string) bool { return true }
	}
	if explain {
		d.Rules = make([]agent.RuleVerdict, 0, len(r.rules))
	}
	for i := range r.rules {
		rule := &r.rules[i]
		matched, reason := rule.matches(f, explain)
		usable := matched && available(rule.agent, rule.model)
		chosen := usable && !isDecided
		if chosen {
			isDecided = true
			d.Agent, d.Model, d.Reason, d.Table, d.Rule = rule.agent, rule.model, agent.RouteRuled, rule.table, rule.name
		}
		if !explain && isDecided {
			return d
		}
		if !explain {
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
	if isDecided {
		return d
	}
	for _, def := range r.defaults {
		if available(def.agent, "") {
			d.Agent, d.Reason, d.Table = def.agent, agent.RouteDefault, def.table
			break
		}
	}
	return d
}

// matches reports whether all conditions of the rule hold, and why the first one does not.
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

// unavailableReason returns the explanation for a rule whose agent or model is not available.
func (r *rule) unavailableReason() string {
	if r.model != "" {
		return fmt.Sprintf("agent %q with model %q is not available", clip.Bytes(r.agent, maxShown), clip.Bytes(r.model, maxShown))
	}
	return fmt.Sprintf("agent %q is not available", clip.Bytes(r.agent, maxShown))
}
