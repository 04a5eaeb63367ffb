package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/telemetry/metrics"
)

var _ pgstream.Watch = (*metrics.Metrics)(nil)

func open(t testing.TB, values int) (*metrics.Metrics, *prometheus.Registry) {
	t.Helper()
	to := prometheus.NewPedanticRegistry()
	m, err := metrics.New(metrics.Config{Registerer: to, MaxValues: values})
	require.NoError(t, err)
	return m, to
}

// requireSeries checks the series of metrics, in the form of formatSeries.
func requireSeries(t testing.TB, from prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	require.Equal(t, strings.TrimSpace(want), formatSeries(t, from, names...))
}

// formatSeries returns the series of metrics, one on each line. A histogram has its count and sum.
func formatSeries(t testing.TB, from prometheus.Gatherer, names ...string) string {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	var lines []string
	for _, name := range names {
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.GetMetric() {
				lines = append(lines, name+labels(m)+" "+value(m))
			}
		}
	}
	return strings.Join(lines, "\n")
}

func labels(m *dto.Metric) string {
	var parts []string
	for _, l := range m.GetLabel() {
		parts = append(parts, l.GetName()+"="+l.GetValue())
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func value(m *dto.Metric) string {
	switch {
	case m.GetHistogram() != nil:
		return fmt.Sprintf("%d/%.4g", m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum())
	case m.GetCounter() != nil:
		return fmt.Sprint(m.GetCounter().GetValue())
	default:
		return fmt.Sprint(m.GetGauge().GetValue())
	}
}

func observed() *agent.Observed {
	return &agent.Observed{TurnID: "t1", Tenant: "acme", Agent: "analyst", Since: time.Now().Add(-time.Minute)}
}

func TestNewRefuses(t *testing.T) {
	_, err := metrics.New(metrics.Config{})
	require.ErrorContains(t, err, "Registerer")
	_, err = metrics.New(metrics.Config{Registerer: prometheus.NewRegistry(), MaxValues: -1})
	require.ErrorContains(t, err, "metrics.max_label_values")
	to := prometheus.NewRegistry()
	_, err = metrics.New(metrics.Config{Registerer: to})
	require.NoError(t, err)
	_, err = metrics.New(metrics.Config{Registerer: to})
	require.ErrorContains(t, err, "duplicate")
}

func TestEnded(t *testing.T) {
	m, to := open(t, 0)
	turn, end := observed(), time.Now()
	turn.Since = end.Add(-time.Hour)
	m.Ended(t.Context(), agent.TurnEnded{Turn: turn, Ended: end, Output: &agent.AgentStepOutput{
		Status: agent.TurnCompleted, StopReason: agent.StopEndTurn, ExecutionTimeMS: 2500,
	}})
	turn.Since = time.Time{}
	m.Ended(t.Context(), agent.TurnEnded{Turn: turn, Ended: end, Output: &agent.AgentStepOutput{
		Status: agent.TurnFailed, StopReason: agent.StopModelError, ExecutionTimeMS: 500,
	}})
	m.Ended(t.Context(), agent.TurnEnded{Turn: turn})
	m.Ended(t.Context(), agent.TurnEnded{})
	requireSeries(t, to, `
agent_turns_total{agent=analyst,status=completed,stop_reason=end_turn,tenant=acme} 1
agent_turns_total{agent=analyst,status=failed,stop_reason=model_error,tenant=acme} 1
agent_latency_seconds{agent=analyst,status=completed} 1/2.5
agent_latency_seconds{agent=analyst,status=failed} 1/0.5
agent_turn_seconds{status=completed} 1/3600
agent_turn_seconds{status=failed} 0/0`, "agent_turns_total", "agent_latency_seconds", "agent_turn_seconds")
}

func TestRequest(t *testing.T) {
	m, to := open(t, 0)
	ask := func(o agent.ModelObservation, out agent.ModelOutcome) {
		o.Model = agent.PlanModel{Profile: "small", Provider: "openai", Model: "gpt"}
		ctx, done := m.Request(t.Context(), o)
		require.Equal(t, t.Context(), ctx)
		done(out)
	}
	usage := agent.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 3, ReasoningTokens: 2, CostUSD: 0.5}
	ask(agent.ModelObservation{Turn: observed(), Epoch: 1, Purpose: agent.PurposeReply},
		agent.ModelOutcome{Usage: usage, FirstDelta: 2 * time.Second, FirstOfTurn: true})
	ask(agent.ModelObservation{Turn: observed(), Epoch: 2, Purpose: agent.PurposeReply},
		agent.ModelOutcome{Usage: usage, Err: agent.Errorf(agent.CodeRateLimited, "ask", "slow down")})
	ask(agent.ModelObservation{Turn: observed(), Epoch: -1, Purpose: agent.PurposeMiddleware},
		agent.ModelOutcome{Err: context.Canceled, Cause: context.Canceled})
	ask(agent.ModelObservation{Purpose: agent.PurposePrepare}, agent.ModelOutcome{
		Err: errors.New("odd"), Usage: agent.Usage{InputTokens: -5, CostUSD: 1e300}, FirstDelta: time.Second, FirstOfTurn: true,
	})
	ask(agent.ModelObservation{Turn: observed(), Purpose: agent.PurposePrepare},
		agent.ModelOutcome{Usage: agent.Usage{InputTokens: -5, OutputTokens: 1 << 60, CostUSD: 1e300}})
	requireSeries(t, to, `
model_requests_total{model=small,outcome=cancelled,provider=openai,purpose=middleware} 1
model_requests_total{model=small,outcome=error,provider=openai,purpose=prepare} 1
model_requests_total{model=small,outcome=error,provider=openai,purpose=reply} 1
model_requests_total{model=small,outcome=ok,provider=openai,purpose=prepare} 1
model_requests_total{model=small,outcome=ok,provider=openai,purpose=reply} 1
model_errors_total{code=internal,model=small,provider=openai} 1
model_errors_total{code=rate_limited,model=small,provider=openai} 1
model_retries_total{model=small} 1
model_first_token_seconds{model=small} 2/3
usage_tokens_total{agent=analyst,kind=cached,model=small,tenant=acme} 6
usage_tokens_total{agent=analyst,kind=input,model=small,tenant=acme} 20
usage_tokens_total{agent=analyst,kind=output,model=small,tenant=acme} 10
usage_tokens_total{agent=analyst,kind=reasoning,model=small,tenant=acme} 4
usage_cost_usd_total{agent=analyst,model=small,tenant=acme} 1`,
		"model_requests_total", "model_errors_total", "model_retries_total", "model_first_token_seconds", "usage_tokens_total", "usage_cost_usd_total")
	require.Contains(t, formatSeries(t, to, "model_request_seconds"), "model_request_seconds{model=small} 5/")
	require.Regexp(t, `^agent_first_token_seconds\{agent=analyst\} 1/62`, formatSeries(t, to, "agent_first_token_seconds"), "since the turn was first seen")
}

func TestTool(t *testing.T) {
	m, to := open(t, 0)
	call := func(name string, o agent.ToolOutcome) {
		_, done := m.Tool(t.Context(), agent.ToolObservation{Turn: observed(), Name: name, Started: time.Now().Add(-2 * time.Second)})
		done(o)
	}
	call("made_up", agent.ToolOutcome{Refused: true})
	call("lookup", agent.ToolOutcome{Refused: true}) // the tool has not run before
	call("lookup", agent.ToolOutcome{Result: &agent.ToolResult{}})
	call("lookup", agent.ToolOutcome{Result: &agent.ToolResult{Failure: &agent.Failure{Type: "invalid"}}})
	call("lookup", agent.ToolOutcome{Result: &agent.ToolResult{}, Cached: true})
	call("lookup", agent.ToolOutcome{Err: errors.New("unreachable")})
	call("lookup", agent.ToolOutcome{Refused: true, Result: &agent.ToolResult{Failure: &agent.Failure{Type: "denied"}}})
	requireSeries(t, to, `
tool_invocations_total{outcome=cached,tool=lookup} 1
tool_invocations_total{outcome=error,tool=lookup} 1
tool_invocations_total{outcome=failed,tool=lookup} 1
tool_invocations_total{outcome=refused,tool=lookup} 1
tool_invocations_total{outcome=refused,tool=unknown} 2
tool_invocations_total{outcome=success,tool=lookup} 1`, "tool_invocations_total")
	require.Regexp(t, `^tool_latency_seconds\{tool=lookup\} 3/6`, formatSeries(t, to, "tool_latency_seconds"), "calls that ran")
}

func TestDecidedAndWork(t *testing.T) {
	m, to := open(t, 0)
	asked := time.Now().Add(-time.Hour)
	m.Decided(t.Context(), observed(), &agent.Approval{Decision: agent.DecisionApprove, By: "ops", CreatedAt: &asked})
	m.Decided(t.Context(), nil, &agent.Approval{Decision: agent.DecisionReject, By: agent.ExpiredBy})
	for _, err := range []error{nil, errors.New("odd"), context.Canceled, agent.Errorf(agent.CodeCancelled, "x", "gone")} {
		_, done := m.Work(t.Context(), agent.Work{Name: "CallModel", Turn: observed(), Started: time.Now().Add(-time.Second)})
		done(err)
	}
	m.Appended(3)
	m.Followers(1)
	m.Followers(1)
	m.Followers(-1)
	m.Delivered(250 * time.Millisecond)
	m.Peers(1)
	m.DirectTurns(1)
	m.DirectTurns(1)
	m.DirectTurns(-1)
	m.DirectFallback(agent.FallbackLimit)
	requireSeries(t, to, `
approvals_decided_total{decision=approve} 1
approvals_decided_total{decision=expired} 1
approval_wait_seconds{} 1/3600
direct_fallbacks_total{reason=limit} 1
direct_turns{} 1
event_log_events_total{} 3
event_log_followers{} 1
event_log_lag_seconds{} 1/0.25
event_log_peers{} 1`, "approvals_decided_total", "approval_wait_seconds", "direct_fallbacks_total", "direct_turns", "event_log_events_total", "event_log_followers", "event_log_lag_seconds", "event_log_peers")
	require.Regexp(t, `activity_seconds\{activity=CallModel,outcome=cancelled\} 2/.*
activity_seconds\{activity=CallModel,outcome=error\} 1/.*
activity_seconds\{activity=CallModel,outcome=ok\} 1/1`, formatSeries(t, to, "activity_seconds"))
	require.Empty(t, m.Carry(t.Context()))
	require.Empty(t, m.Delegate(t.Context(), nil, ""))
}

// With ten thousand tenants, agents, models and tools, the number of series is bounded and the sums are right.
func TestSeriesAreBounded(t *testing.T) {
	const values, turns, goroutines = 20, 10_000, 8
	m, to := open(t, values)
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := range turns {
				turn := &agent.Observed{Tenant: fmt.Sprint("t", i), Agent: fmt.Sprint("a", i%997)}
				_, done := m.Request(t.Context(), agent.ModelObservation{
					Turn: turn, Model: agent.PlanModel{Provider: fmt.Sprint("p", i), Profile: fmt.Sprint("m", i)}, Purpose: agent.PurposeReply,
				})
				done(agent.ModelOutcome{Usage: agent.Usage{InputTokens: 1}})
				_, ran := m.Tool(t.Context(), agent.ToolObservation{Turn: turn, Name: fmt.Sprint("tool", i)})
				ran(agent.ToolOutcome{Refused: i%2 == 0})
				m.Ended(t.Context(), agent.TurnEnded{Turn: turn, Output: &agent.AgentStepOutput{Status: agent.TurnCompleted, StopReason: agent.StopEndTurn}})
			}
		})
	}
	all.Wait()
	n, err := testutil.GatherAndCount(to, "agent_turns_total", "model_requests_total", "usage_tokens_total", "tool_invocations_total")
	require.NoError(t, err)
	require.Less(t, n, 4*4*10*values, "series")
	for _, name := range []string{"agent_turns_total", "model_requests_total", "tool_invocations_total"} {
		require.InDelta(t, goroutines*turns, sum(t, to, name), 0, name)
	}
	n, err = testutil.GatherAndCount(to, "tool_invocations_total")
	require.NoError(t, err)
	require.LessOrEqual(t, n, 2*(values+2))
	require.Positive(t, sum(t, to, "telemetry_label_overflow_total"))
}

func sum(t testing.TB, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	total := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				total += m.GetCounter().GetValue()
			}
		}
	}
	return total
}
