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

// decisionExpired is the label of an approval that nobody decided.
const decisionExpired = "expired"

// Carry implements [agent.Observer]. It returns no trace.
func (m *Metrics) Carry(context.Context) string { return "" }

// Delegate implements [agent.Observer]. It returns no trace.
func (m *Metrics) Delegate(context.Context, *agent.Observed, agent.TurnID) string { return "" }

// Work implements [agent.Observer]. It measures an activity.
func (m *Metrics) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	since, name := orNow(w.Started), m.activityNames.label(w.Name)
	return ctx, func(err error) {
		m.activities.get(activityKey{name, outcomeOf(err)}).Observe(time.Since(since).Seconds())
	}
}

// Request implements [agent.Observer]. It measures a request to a provider and counts its usage.
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
		series := m.requests.get(k)
		series.requests.Inc()
		series.duration.Observe(took.Seconds())
		if o.FirstDelta > 0 {
			series.firstToken.Observe(o.FirstDelta.Seconds())
		}
		if r.Epoch > 1 {
			m.retries.WithLabelValues(k.model).Inc()
		}
		m.countUsage(r.Turn, k.model, &o.Usage)
		if o.FirstOfTurn && o.FirstDelta > 0 && r.Turn != nil && !r.Turn.Since.IsZero() {
			waited := since.Add(o.FirstDelta).Sub(r.Turn.Since)
			m.firstToken.WithLabelValues(m.agents.label(r.Turn.Agent)).Observe(max(waited, 0).Seconds()) // below 0 if the clocks of two machines differ
		}
	}
}

// modelName returns the name of a model that operators know: its profile, or the model itself.
func modelName(p *agent.PlanModel) string { return cmp.Or(p.Profile, p.Model) }

// countUsage counts the usage of a request of a turn.
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

// countable returns n, or 0 if n is negative, absurdly large or not a number, which a provider may report.
func countable[N int64 | float64](n N) float64 {
	if n > 0 && n <= 1e12 {
		return float64(n)
	}
	return 0
}

// Tool implements [agent.Observer]. It measures an attempt of a tool call.
func (m *Metrics) Tool(ctx context.Context, t agent.ToolObservation) (context.Context, func(agent.ToolOutcome)) {
	since, name := orNow(t.Started), t.Name
	return ctx, func(o agent.ToolOutcome) {
		s := m.toolCalls.get(m.toolKeyOf(name, &o))
		s.calls.Inc()
		if s.duration != nil {
			s.duration.Observe(time.Since(since).Seconds())
		}
	}
}

// toolKeyOf returns the labels of an attempt. The tool of a refused call may not exist.
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

// Decided implements [agent.Observer]. It counts a decision and measures how long the approval waited.
func (m *Metrics) Decided(_ context.Context, _ *agent.Observed, a *agent.Approval) {
	decision := string(a.Decision)
	if a.By == agent.ExpiredBy {
		decision = decisionExpired
	}
	m.decisions.WithLabelValues(decision).Inc()
	if a.CreatedAt != nil {
		m.approvalWait.Observe(max(time.Since(*a.CreatedAt), 0).Seconds())
	}
}

// Ended implements [agent.Observer]. It counts and measures a turn.
func (m *Metrics) Ended(_ context.Context, e agent.TurnEnded) {
	out := e.Output
	if e.Turn == nil || out == nil {
		return
	}
	s := m.turns.get(turnKey{m.tenants.label(e.Turn.Tenant), m.agents.label(e.Turn.Agent), string(out.Status), string(out.StopReason)})
	s.turns.Inc()
	s.workTime.Observe((time.Duration(out.ExecutionTimeMS) * time.Millisecond).Seconds())
	if !e.Turn.Since.IsZero() {
		s.totalTime.Observe(max(orNow(e.Ended).Sub(e.Turn.Since), 0).Seconds())
	}
}

// orNow returns t, or the current time if t is zero.
func orNow(t time.Time) time.Time {
	if t.IsZero() {
		return time.Now()
	}
	return t
}

// outcomeOf returns the label of the outcome of work.
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
