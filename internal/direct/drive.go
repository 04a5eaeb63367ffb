package direct

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/telemetry/logs"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// running is a turn that this process drives.
type running struct {
	*Driver

	begun *turns.BeginTurnResult
	state turn.State
}

// drive carries out the core's actions until the turn is over, handed over or lost.
func (d *Driver) drive(begun *turns.BeginTurnResult) {
	t := running{
		Driver: d, begun: begun, state: turn.New(begun.CoreVersion, begun.Limits, begun.Rules).Preparing(begun.Prepare),
	}
	t.state.Model = begun.ModelName
	ctx, stop := context.WithCancelCause(d.work)
	defer stop(nil)
	d.leases.add(begun.Turn.TurnID, stop)
	defer d.leases.remove(begun.Turn.TurnID)
	defer t.storeWaitingSteps()
	started := time.Now()
	for {
		a := t.state.Next()
		over, err := t.do(ctx, a)
		switch {
		case over && err == nil:
			return
		case errors.Is(context.Cause(ctx), errLost):
			t.log().Warn("direct turn", zap.Error(errLost))
			return
		}
		if reason := t.fallback(ctx, err, time.Since(started)); reason != "" {
			t.handOver(reason, err)
			return
		}
	}
}

// storeWaitingSteps stores steps that still wait when this process stops driving the turn. The store refuses them if another process drives it.
func (t *running) storeWaitingSteps() {
	ctx, free := context.WithTimeout(context.WithoutCancel(t.work), retryFor)
	defer free()
	if err := t.Turns.Store.StoreLater(ctx, t.begun.Turn.TurnID); err != nil {
		t.log().Info("steps of a direct turn were not stored", zap.Error(err))
	}
}

// log returns a logger with the turn's ids.
func (t *running) log() *zap.Logger {
	ref := &t.begun.Turn
	return t.Logger.With(logs.Turn(ref.TurnID, ref.Tenant, ref.InstanceID), logs.Session(ref.SessionID))
}

// fallback returns the reason for handing the turn over after an action that ended with err, "" if it stays here.
func (t *running) fallback(ctx context.Context, err error, lasted time.Duration) agent.Fallback {
	next := t.state.Next()
	switch {
	case ctx.Err() != nil:
		return agent.FallbackStop
	case err != nil:
		return agent.FallbackTrouble
	case next.Kind == turn.Await:
		return agent.FallbackPerson
	case next.Kind == turn.Pause:
		return agent.FallbackProvider
	case next.Kind == turn.CallTools && slices.ContainsFunc(next.Calls, func(c turn.Call) bool { return c.Child }):
		return agent.FallbackAgent
	case t.MaxTime > 0 && lasted > t.MaxTime && next.Kind != turn.Finish:
		return agent.FallbackDuration
	default:
		return ""
	}
}

// do carries out an action, and changes the state if it succeeds.
func (t *running) do(ctx context.Context, a turn.Action) (over bool, err error) {
	started := time.Now()
	id := t.begun.Turn.TurnID
	switch a.Kind {
	case turn.Retrieve:
		var v agent.PrepareVerdict
		v, err = perform(ctx, func() (agent.PrepareVerdict, error) {
			return t.Turns.Retrieve(ctx, turns.RetrieveInput{TurnID: id, BudgetMS: t.state.BudgetMS(), PausedMS: t.state.PausedMS})
		})
		if err == nil {
			t.state = t.state.Spend(time.Since(started).Milliseconds()).AfterPrepare(v)
		}
	case turn.CallModel:
		var v agent.ModelVerdict
		v, err = perform(ctx, func() (agent.ModelVerdict, error) {
			return t.Turns.CallModel(ctx, turns.CallModelInput{TurnID: id, Step: a.Step, BudgetMS: t.state.BudgetMS(), PausedMS: t.state.PausedMS})
		})
		if err == nil {
			t.state = t.state.Spend(time.Since(started).Milliseconds()).AfterModel(v)
		}
	case turn.CallTools:
		var verdicts []agent.ToolVerdict
		if verdicts, err = t.callTools(ctx, a); err == nil {
			t.state = t.state.Spend(time.Since(started).Milliseconds()).AfterTools(verdicts)
		}
	case turn.Finish: // even if the process stops or the lease is lost: the session's next turn waits for it
		ctx, free := context.WithTimeout(context.WithoutCancel(ctx), retryFor)
		defer free()
		in := turns.StoreTurnInput{
			TurnID: id, Status: a.Status, Stop: a.Stop, Failure: a.Failure, Usage: t.state.Usage, Model: t.state.Model,
			ElapsedMS: t.state.ElapsedMS, Closing: a.Closing, Step: a.Step,
		}
		_, err = perform(ctx, func() (turns.StoreTurnResult, error) { return t.Turns.StoreTurn(ctx, in) })
		return true, err
	case turn.Await, turn.Pause:
	}
	return false, err
}

// callTools runs the calls of a step concurrently.
func (t *running) callTools(ctx context.Context, a turn.Action) ([]agent.ToolVerdict, error) {
	verdicts := make([]agent.ToolVerdict, len(a.Calls))
	g, ctx := errgroup.WithContext(ctx)
	for i, c := range a.Calls {
		in := turns.CallToolInput{
			TurnID: t.begun.Turn.TurnID, Step: a.Step, CallID: c.ID, Decided: c.Rule != "", Refused: c.Refused, BudgetMS: t.state.BudgetMS(), Later: true,
		}
		g.Go(func() (err error) {
			verdicts[i], err = perform(ctx, func() (agent.ToolVerdict, error) { return t.Turns.CallTool(ctx, in) })
			return err
		})
	}
	return verdicts, g.Wait()
}

// perform repeats a call for a bounded time, unless its error is final.
func perform[T any](ctx context.Context, call func() (T, error)) (T, error) {
	return backoff.Retry(ctx, func() (T, error) {
		v, err := call()
		if isFinal(err) {
			return v, backoff.Permanent(err)
		}
		return v, err
	}, backoff.WithMaxElapsedTime(retryFor))
}

// isFinal reports whether trying again cannot help. A fenced turn is driven elsewhere.
func isFinal(err error) bool {
	return errors.Is(err, agent.ErrFenced) || errors.Is(err, agent.ErrStreamClosed) ||
		err != nil && !agent.CodeOf(err).Retryable() && !errors.Is(err, context.Canceled)
}

// handOver starts the turn's workflow with the current state. If that fails, upkeep starts it once the lease has expired.
func (t *running) handOver(reason agent.Fallback, cause error) {
	id := t.begun.Turn.TurnID
	ctx, free := context.WithTimeout(context.WithoutCancel(t.work), retryFor)
	defer free()
	t.log().Info("a direct turn becomes durable", zap.String("reason", string(reason)), zap.NamedError("cause", cause))
	carry := &workflows.Carry{
		Turn: t.begun.Turn, State: t.state, ContinueAsNew: t.begun.ContinueAsNew, Index: t.begun.SearchAttributes,
		StatusAttributes: t.begun.StatusAttributes, FailsWorkflow: t.begun.FailsWorkflow,
	}
	announced := false
	_, err := perform(ctx, func() (struct{}, error) {
		held, err := t.Turns.Store.Renew(ctx, []agent.TurnID{id}, time.Now().Add(turns.DirectLease))
		if err != nil {
			return struct{}{}, err
		}
		if len(held) == 0 {
			return struct{}{}, backoff.Permanent(errLost)
		}
		if !announced { // before the workflow writes events
			if err := t.Turns.AnnounceFallback(ctx, t.begun.Turn, reason); err != nil {
				t.log().Warn("announce that a direct turn becomes durable", zap.Error(err))
			}
			announced = true
		}
		if err := t.Turns.Store.StoreLater(ctx, id); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, t.startWorkflow(ctx, &t.begun.Turn, carry, reason)
	})
	if err != nil {
		t.log().Error("hand a direct turn over", zap.Error(err))
	}
}
