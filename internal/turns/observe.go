package turns

import (
	"cmp"
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
)

type attemptKey struct{}

// WithAttempt returns a context with the number of a step's attempt, for observers.
func WithAttempt(ctx context.Context, attempt int) context.Context {
	return context.WithValue(ctx, attemptKey{}, attempt)
}

// watch tells the observer that work on a turn begins, and adds the turn to the log entries of the context. Call done with the work's error.
// If the turn cannot be found, watch does nothing: the work itself returns the error.
func (ts *Turns) watch(ctx context.Context, name string, id agent.TurnID, step int) (context.Context, func(error)) {
	turn, err := ts.turn(ctx, id)
	if err != nil {
		return ctx, func(error) {}
	}
	return ts.watchTurn(ctx, agent.Work{Name: name, Turn: turn.seen, Step: step})
}

func (ts *Turns) watchTurn(ctx context.Context, w agent.Work) (context.Context, func(error)) {
	w.Attempt, _ = ctx.Value(attemptKey{}).(int)
	ctx, done := ts.Observer.Work(ctx, w)
	return logs.With(ctx, logs.Turn(w.Turn.TurnID, w.Turn.Tenant, w.Turn.InstanceID), logs.Session(w.Turn.SessionID)), done
}

// log returns the logger with turn, tenant and trace of a context.
func (ts *Turns) log(ctx context.Context) *zap.Logger { return logs.For(ctx, ts.Logger) }

// seenOf returns the facts of a turn that an observer gets.
func seenOf(r *agent.TurnRecord, since time.Time) *agent.Observed {
	return &agent.Observed{
		TurnID: r.TurnID, Tenant: r.Tenant, SessionID: r.SessionID, UserID: r.UserID, Agent: r.Agent, InstanceID: r.InstanceID, PlanHash: r.PlanHash,
		WorkflowID: r.WorkflowID, Channel: r.Channel, Mode: cmp.Or(r.Mode, agent.ModeDurable), Parent: r.Parent, Trace: r.Trace, Since: since,
	}
}

// observedRequest is one request to a provider, as an observer sees it.
type observedRequest struct {
	began  time.Time
	sent   bool // its context had not ended before
	first  time.Duration
	bytes  int64 // of the reply so far, without tool calls
	ofTurn bool
	spoken *atomic.Bool
	done   func(agent.ModelOutcome)
}

// observe tells the observer of a request; the context returned is the request's.
func (r *modelRun) observe(
	ctx context.Context, m agent.PlanModel, epoch agent.Epoch, purpose string, req *agent.ModelRequest,
) (context.Context, *observedRequest) {
	o := observedRequest{began: time.Now(), sent: ctx.Err() == nil, spoken: r.turn.spoken}
	ctx, o.done = r.ts.Observer.Request(ctx, agent.ModelObservation{
		Turn: r.turn.seen, Model: m, Step: r.in.Step, Epoch: epoch, Purpose: purpose, Request: req,
	})
	return ctx, &o
}

// purpose returns the purpose of a run's requests.
func (r *modelRun) purpose() string {
	if r.quiet {
		return agent.PurposePrepare
	}
	return agent.PurposeReply
}

// watchDeltas wraps next: it notes when the first fragment came and counts bytes. One goroutine reads a stream.
func (o *observedRequest) watchDeltas(next func(agent.Delta) error, shown bool) func(agent.Delta) error {
	return func(d agent.Delta) error {
		if o.first == 0 {
			o.first = max(time.Since(o.began), 1)
			o.ofTurn = shown && !o.spoken.Swap(true)
		}
		o.bytes += int64(len(d.Text) + len(d.Reasoning))
		return next(d)
	}
}

func (o *observedRequest) finish(reply *agent.ModelReply, usage agent.Usage, err, cause error) {
	o.done(agent.ModelOutcome{Reply: reply, Usage: usage, FirstDelta: o.first, FirstOfTurn: o.ofTurn, Err: err, Cause: cause})
}
