package turns

import (
	"context"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// TurnInput names a recorded turn.
type TurnInput struct {
	TurnID agent.TurnID `json:"turn_id"`
}

// RouteTurnResult is the recorded route of a turn: its agent, and why it has that agent. The event "route" lists all rules that were tried.
type RouteTurnResult struct {
	Agent  string            `json:"agent"`
	Reason agent.RouteReason `json:"reason,omitempty"`
	Rule   string            `json:"rule,omitempty"` // table#rule, if Reason is "rule"
}

// RouteTurn returns the recorded route of a turn, so that the workflow's history shows it.
func (ts *Turns) RouteTurn(ctx context.Context, in TurnInput) (RouteTurnResult, error) {
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return RouteTurnResult{}, err
	}
	out := RouteTurnResult{Agent: turn.Agent, Rule: ruleName(turn.route)}
	if turn.route != nil {
		out.Reason = turn.route.Reason
	}
	return out, nil
}

// LoadPlanResult is the part of a turn's plan that the core needs.
type LoadPlanResult struct {
	Limits    agent.Limits `json:"limits,omitzero"`
	Rules     agent.Rules  `json:"rules,omitzero"`
	ModelName string       `json:"model_name,omitempty"` // the provider's name of the turn's model
	Prepare   bool         `json:"prepare,omitempty"`    // whether the turn runs Retrieve before its first model call
	// LocalCalls is set if model calls run as local activities, because they are short or because of the configuration.
	LocalCalls bool `json:"local_calls,omitempty"`
}

// LoadPlan builds the recorded plan of a turn in this process, and returns what the core needs of it.
func (ts *Turns) LoadPlan(ctx context.Context, in TurnInput) (LoadPlanResult, error) {
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return LoadPlanResult{}, err
	}
	return ts.loadPlan(ctx, &turn)
}

func (ts *Turns) loadPlan(ctx context.Context, turn *facts) (LoadPlanResult, error) {
	exec, err := ts.executor(ctx, turn.PlanHash)
	if err != nil {
		return LoadPlanResult{}, err
	}
	out := LoadPlanResult{
		Limits: exec.plan.Limits.Lower(&turn.limits), Prepare: len(exec.plan.Prepare) > 0, ModelName: modelName(&exec.plan, turn.model),
	}
	out.LocalCalls = ts.runsLocally(out.ModelName)
	out.Limits.Tools = nil // the core does not need them
	out.Rules, err = ts.rules(ctx, exec, turn)
	return out, err
}

// ruleName returns the name of the rule that chose the agent, as table#rule, or "" if no rule did.
func ruleName(d *agent.RouteDecision) string {
	if d == nil || d.Reason != agent.RouteRuled {
		return ""
	}
	return d.Table + "#" + d.Rule
}

// routeSummary returns the reason for a turn's agent, for the Web UI.
func routeSummary(turn *facts) string {
	switch {
	case turn.route == nil:
		return turn.Agent
	case turn.route.Reason == agent.RouteRuled:
		return clip.Bytes("rule "+ruleName(turn.route)+": "+turn.Agent, maxSummary)
	case turn.route.Reason == agent.RouteNamed:
		return clip.Bytes("named by the request: "+turn.Agent, maxSummary)
	case turn.route.Reason == agent.RouteDraft:
		return clip.Bytes("draft: "+turn.Agent, maxSummary)
	default:
		return clip.Bytes("default agent: "+turn.Agent, maxSummary)
	}
}

// rules returns what the core has to know of a plan besides its limits. It reads the store only if a limit applies to the whole session.
func (ts *Turns) rules(ctx context.Context, exec *executor, turn *facts) (agent.Rules, error) {
	var rules agent.Rules
	for _, m := range exec.chain {
		if ruler, ok := m.(agent.Ruler); ok {
			ruler.Rule(&rules)
		}
	}
	if len(turn.schema) > 0 {
		rules.StructuredTries = structuredTries
	}
	isForSession := func(l agent.CallLimit) bool { return l.Thread > 0 }
	if !slices.ContainsFunc(rules.ModelCalls, isForSession) && !slices.ContainsFunc(rules.ToolCalls, isForSession) {
		return rules, nil
	}
	counts, err := ts.Store.CallCounts(ctx, turn.Tenant, turn.SessionID)
	if err != nil {
		return rules, fmt.Errorf("count the session's calls: %w", err)
	}
	for i := range rules.ModelCalls {
		rules.ModelCalls[i].Before = counts.Model
	}
	for i := range rules.ToolCalls {
		for _, t := range counts.Tools {
			if l := &rules.ToolCalls[i]; l.Tool == "" || l.Tool == t.Tool {
				l.Before += t.Calls
			}
		}
	}
	return rules, nil
}

// modelName returns the provider's name of the model of a profile, or the profile if the plan does not have it.
func modelName(p *agent.Plan, profile string) string {
	m, err := p.Model(profile)
	if err != nil {
		return profile
	}
	return m.Model
}
