package metrics

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The outcomes of work, requests and tool calls.
const (
	outcomeOK        = "ok"
	outcomeError     = "error"
	outcomeCancelled = "cancelled"

	outcomeSuccess = "success"
	outcomeFailed  = "failed"
	outcomeRefused = "refused"
	outcomeCached  = "cached"
)

// expired stands for the decision of an approval that nobody decided.
const expired = "expired"

// Carry says nothing: metrics are of no trace.
func (m *Metrics) Carry(context.Context) string { return "" }

// Delegate says nothing, likewise.
func (m *Metrics) Delegate(context.Context, *agent.Observed, agent.TurnID) string { return "" }

// Work measures a piece of a turn's work.
func (m *Metrics) Work(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	since, name := started(w.Started), m.works.of(w.Name)
	return ctx, func(err error) {
		m.worked.of(workedKey{name, outcomeOf(err)}).Observe(time.Since(since).Seconds())
	}
}

// Request measures a request to a provider, and counts what it cost.
func (m *Metrics) Request(ctx context.Context, r agent.ModelObservation) (context.Context, func(agent.ModelOutcome)) {
	since := time.Now()
	return ctx, func(o agent.ModelOutcome) {
		took := time.Since(since)
		k := askedKey{m.providers.of(r.Model.Provider), m.models.of(modelName(&r.Model)), r.Purpose, outcomeOK}
		switch {
		case o.Cause != nil:
			k.outcome = outcomeCancelled
		case o.Err != nil:
			k.outcome = outcomeError
			m.faults.of(faultKey{k.provider, k.model, string(agent.CodeOf(o.Err))}).Inc()
		}
		asked := m.asked.of(k)
		asked.requests.Inc()
		asked.took.Observe(took.Seconds())
		if o.FirstDelta > 0 {
			asked.first.Observe(o.FirstDelta.Seconds())
		}
		if r.Epoch > 1 {
			m.retries.WithLabelValues(k.model).Inc()
		}
		m.bill(r.Turn, k.model, &o.Usage)
		if o.FirstOfTurn && o.FirstDelta > 0 && r.Turn != nil && !r.Turn.Since.IsZero() {
			waited := since.Add(o.FirstDelta).Sub(r.Turn.Since)
			m.first.WithLabelValues(m.agents.of(r.Turn.Agent)).Observe(max(waited, 0).Seconds()) // the clocks of two machines may differ
		}
	}
}

// modelName is the name by which the configuration and the ledger know a model.
func modelName(p *agent.PlanModel) string { return cmp.Or(p.Profile, p.Model) }

func (m *Metrics) bill(t *agent.Observed, model string, u *agent.Usage) {
	if t == nil || *u == (agent.Usage{}) {
		return
	}
	s := m.spent.of(spentKey{m.tenants.of(t.Tenant), m.agents.of(t.Agent), model})
	s.input.Add(sound(u.InputTokens))
	s.output.Add(sound(u.OutputTokens))
	s.cached.Add(sound(u.CachedTokens))
	s.reasoning.Add(sound(u.ReasoningTokens))
	s.cost.Add(sound(u.CostUSD))
}

// sound takes what a provider may have made up and a counter cannot add: less than nothing, nonsense, the absurdly large.
func sound[N int64 | float64](n N) float64 {
	if n > 0 && n <= 1e12 {
		return float64(n)
	}
	return 0
}

// Tool measures an attempt of a tool call.
func (m *Metrics) Tool(ctx context.Context, t agent.ToolObservation) (context.Context, func(agent.ToolOutcome)) {
	since, name := started(t.Started), t.Name
	return ctx, func(o agent.ToolOutcome) {
		s := m.invoked.of(m.invocation(name, &o))
		s.calls.Inc()
		if s.took != nil {
			s.took.Observe(time.Since(since).Seconds())
		}
	}
}

// invocation is what an attempt counts as. What was refused may never have been a tool.
func (m *Metrics) invocation(name string, o *agent.ToolOutcome) invokedKey {
	switch {
	case o.Refused:
		if !m.tools.has(name) {
			name = unknown
		}
		return invokedKey{name, outcomeRefused}
	case o.Err != nil:
		return invokedKey{m.tools.of(name), outcomeError}
	case o.Cached:
		return invokedKey{m.tools.of(name), outcomeCached}
	case o.Result != nil && o.Result.Failure != nil:
		return invokedKey{m.tools.of(name), outcomeFailed}
	default:
		return invokedKey{m.tools.of(name), outcomeSuccess}
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
	s := m.ended.of(endedKey{m.tenants.of(e.Turn.Tenant), m.agents.of(e.Turn.Agent), string(out.Status), string(out.StopReason)})
	s.turns.Inc()
	s.latency.Observe((time.Duration(out.ExecutionTimeMS) * time.Millisecond).Seconds())
	if !e.Turn.Since.IsZero() {
		s.wall.Observe(max(started(e.Ended).Sub(e.Turn.Since), 0).Seconds())
	}
}

// started is t, or now.
func started(t time.Time) time.Time {
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
