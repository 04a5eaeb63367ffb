package metrics

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Outcomes of work, requests and tool calls.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"
	outcomeCancelled = "cancelled"

	outcomeSuccess = "success"
	outcomeFailed  = "failed"
	outcomeRefused = "refused"
	outcomeCached  = "cached"
)

// expired is the decision of an approval that nobody decided.
const expired = "expired"

// Carry returns "": metrics belong to no trace.
func (m *Metrics) Carry(context.Context) string { return "" }

// Delegate returns "", likewise.
func (m *Metrics) Delegate(context.Context, *agent.Observed, agent.TurnID) string { return "" }

// Work measures a piece of a turn's work.
func (m *Metrics) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	since, name := orNow(w.Started), m.activityNames.label(w.Name)
	return ctx, func(err error) {
		m.activities.get(workKey{name, outcomeOf(err)}).Observe(time.Since(since).Seconds())
	}
}

// Request measures a request to a provider, and counts what it cost.
func (m *Metrics) Request(ctx context.Context, r agent.ModelObservation) (context.Context, func(agent.ModelOutcome)) {
	since := time.Now()
	return ctx, func(o agent.ModelOutcome) {
		took := time.Since(since)
		k := requestKey{m.providers.label(r.Model.Provider), m.models.label(modelName(&r.Model)), r.Purpose, outcomeOK}
		switch {
		case o.Cause != nil:
			k.outcome = outcomeCancelled
		case o.Err != nil:
			k.outcome = outcomeError
			m.modelErrors.get(errorKey{k.provider, k.model, string(agent.CodeOf(o.Err))}).Inc()
		}
		asked := m.requests.get(k)
		asked.requests.Inc()
		asked.took.Observe(took.Seconds())
		if o.FirstDelta > 0 {
			asked.first.Observe(o.FirstDelta.Seconds())
		}
		if r.Epoch > 1 {
			m.retries.WithLabelValues(k.model).Inc()
		}
		m.countUsage(r.Turn, k.model, &o.Usage)
		if o.FirstOfTurn && o.FirstDelta > 0 && r.Turn != nil && !r.Turn.Since.IsZero() {
			waited := since.Add(o.FirstDelta).Sub(r.Turn.Since)
			m.first.WithLabelValues(m.agents.label(r.Turn.Agent)).Observe(max(waited, 0).Seconds()) // the clocks of two machines may differ
		}
	}
}

// modelName returns the name of a model in the configuration and the ledger.
func modelName(p *agent.PlanModel) string { return cmp.Or(p.Profile, p.Model) }

func (m *Metrics) countUsage(t *agent.Observed, model string, u *agent.Usage) {
	if t == nil || *u == (agent.Usage{}) {
		return
	}
	s := m.usage.get(usageKey{m.tenants.label(t.Tenant), m.agents.label(t.Agent), model})
	s.input.Add(countable(u.InputTokens))
	s.output.Add(countable(u.OutputTokens))
	s.cached.Add(countable(u.CachedTokens))
	s.reasoning.Add(countable(u.ReasoningTokens))
	s.cost.Add(countable(u.CostUSD))
}

// countable returns 0 for what a provider may report and a counter cannot add: negative, absurdly large or no numbers.
func countable[N int64 | float64](n N) float64 {
	if n > 0 && n <= 1e12 {
		return float64(n)
	}
	return 0
}

// Tool measures an attempt of a tool call.
func (m *Metrics) Tool(ctx context.Context, t agent.ToolObservation) (context.Context, func(agent.ToolOutcome)) {
	since, name := orNow(t.Started), t.Name
	return ctx, func(o agent.ToolOutcome) {
		s := m.toolCalls.get(m.toolKeyOf(name, &o))
		s.calls.Inc()
		if s.took != nil {
			s.took.Observe(time.Since(since).Seconds())
		}
	}
}

// toolKeyOf returns the key of an attempt. A refused call may name no tool at all.
func (m *Metrics) toolKeyOf(name string, o *agent.ToolOutcome) toolKey {
	switch {
	case o.Refused:
		if !m.tools.isKnown(name) {
			name = unknown
		}
		return toolKey{name, outcomeRefused}
	case o.Err != nil:
		return toolKey{m.tools.label(name), outcomeError}
	case o.Cached:
		return toolKey{m.tools.label(name), outcomeCached}
	case o.Result != nil && o.Result.Failure != nil:
		return toolKey{m.tools.label(name), outcomeFailed}
	default:
		return toolKey{m.tools.label(name), outcomeSuccess}
	}
}

// Decided counts a decision and how long it was waited for.
func (m *Metrics) Decided(_ context.Context, _ *agent.Observed, a *agent.Approval) {
	decision := string(a.Decision)
	if a.By == agent.ExpiredBy {
		decision = expired
	}
	m.decisions.WithLabelValues(decision).Inc()
	if a.CreatedAt != nil {
		m.waited.Observe(max(time.Since(*a.CreatedAt), 0).Seconds())
	}
}

// Ended counts a turn.
func (m *Metrics) Ended(_ context.Context, e agent.TurnEnded) {
	out := e.Output
	if e.Turn == nil || out == nil {
		return
	}
	s := m.turns.get(turnKey{m.tenants.label(e.Turn.Tenant), m.agents.label(e.Turn.Agent), string(out.Status), string(out.StopReason)})
	s.turns.Inc()
	s.latency.Observe((time.Duration(out.ExecutionTimeMS) * time.Millisecond).Seconds())
	if !e.Turn.Since.IsZero() {
		s.wall.Observe(max(orNow(e.Ended).Sub(e.Turn.Since), 0).Seconds())
	}
}

// orNow returns t, or the current time if t is zero.
func orNow(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now()
	}
	return t
}

func outcomeOf(err error) string {
	switch {
	case err == nil:
		return outcomeOK
	case errors.Is(err, context.Canceled) || agent.CodeOf(err) == agent.CodeCancelled:
		return outcomeCancelled
	default:
		return outcomeError
	}
}
