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

// WithAttempt returns a context with the number of the current attempt at a step, for observers.
func WithAttempt(ctx context.Context, attempt int) context.Context {
	return context.WithValue(ctx, attemptKey{}, attempt)
}

// watch tells the observer that work on a turn begins, and adds the turn to the log entries of the context. The caller must call done with the
// error of the work. If the turn cannot be found, watch does nothing, because the work itself returns that error.
func (ts *Turns) watch(ctx context.Context, name string, id agent.TurnID, step int) (_ context.Context, done func(error)) {
	turn, err := ts.turn(ctx, id)
	if err != nil {
		return ctx, func(error) {}
	}
	return ts.watchTurn(ctx, agent.Work{Name: name, Turn: turn.observed, Step: step})
}

func (ts *Turns) watchTurn(ctx context.Context, w agent.Work) (_ context.Context, done func(error)) {
	w.Attempt, _ = ctx.Value(attemptKey{}).(int)
	ctx, done = ts.Observer.Work(ctx, w)
	return logs.With(ctx, logs.Turn(w.Turn.TurnID, w.Turn.Tenant, w.Turn.InstanceID), logs.Session(w.Turn.SessionID)), done
}

// log returns the logger with the turn, tenant and trace of a context.
func (ts *Turns) log(ctx context.Context) *zap.Logger { return logs.For(ctx, ts.Logger) }

// observedTurn returns what observers get to know of a turn.
func observedTurn(r *agent.TurnRecord, since time.Time) *agent.Observed {
	return &agent.Observed{
		TurnID: r.TurnID, Tenant: r.Tenant, SessionID: r.SessionID, UserID: r.UserID, Agent: r.Agent, InstanceID: r.InstanceID, PlanHash: r.PlanHash,
		WorkflowID: r.WorkflowID, Channel: r.Channel, Mode: cmp.Or(r.Mode, agent.ModeDurable), Parent: r.Parent, Trace: r.Trace, Since: since,
	}
}

// observedRequest measures one request to a provider for the observer.
type observedRequest struct {
	began       time.Time
	sent        bool          // whether its context was alive when it began
	firstDelta  time.Duration // until the first fragment of the reply; 0 before that
	firstOfTurn bool          // whether that fragment is the first that the turn shows
	bytes       int64         // the size of the reply so far, without tool calls
	answerBegun *atomic.Bool  // of the turn's facts
	done        func(agent.ModelOutcome)
}

// observe tells the observer that a request begins. The returned context is for the request.
func (r *modelRun) observe(
	ctx context.Context, m agent.PlanModel, epoch agent.Epoch, purpose string, req *agent.ModelRequest,
) (context.Context, *observedRequest) {
	o := observedRequest{began: time.Now(), sent: ctx.Err() == nil, answerBegun: r.turn.answerBegun}
	ctx, o.done = r.ts.Observer.Request(ctx, agent.ModelObservation{
		Turn: r.turn.observed, Model: m, Step: r.in.Step, Epoch: epoch, Purpose: purpose, Request: req,
	})
	return ctx, &o
}

// purpose returns the purpose of the run's requests, for observers.
func (r *modelRun) purpose() string {
	if r.isQuiet {
		return agent.PurposePrepare
	}
	return agent.PurposeReply
}

// watchDeltas returns a function that measures the fragments of a reply and passes them to next. isShown says whether viewers see them. A stream is
// read by one goroutine.
func (o *observedRequest) watchDeltas(next func(agent.Delta) error, isShown bool) func(agent.Delta) error {
	return func(d agent.Delta) error {
		if o.firstDelta == 0 {
			o.firstDelta = max(time.Since(o.began), 1)
			o.firstOfTurn = isShown && !o.answerBegun.Swap(true)
		}
		o.bytes += int64(len(d.Text) + len(d.Reasoning))
		return next(d)
	}
}

func (o *observedRequest) finish(reply *agent.ModelReply, usage agent.Usage, err, cause error) {
	o.done(agent.ModelOutcome{Reply: reply, Usage: usage, FirstDelta: o.firstDelta, FirstOfTurn: o.firstOfTurn, Err: err, Cause: cause})
}
