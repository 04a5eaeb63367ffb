package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// ErasureType is the name of the workflow that takes one user's data away. Never change it.
const ErasureType = "Erasure"

const (
	// stopPatience is how long the user's turns have to stop. What runs on is terminated, and goes as it is.
	stopPatience = time.Minute
	// stopLook spaces the looks at turns that stop.
	stopLook = 2 * time.Second
	// eraseTimeout bounds one attempt of an activity that erases; it stops by itself after 30 s, at the end of a piece of work that may take minutes.
	eraseTimeout = 30 * time.Minute
	// eraseTotal bounds all attempts, while what the runtime depends on is away. Then the erasure has failed, and says so.
	eraseTotal = 24 * time.Hour
	// eraseRounds bounds how often everything is looked for anew, because the user goes on meanwhile.
	eraseRounds = 5
	// settlePause and settleRounds bound the wait for content that somebody has just put, and may refer to or not.
	settlePause  = 20 * time.Second
	settleRounds = 15
)

// erasureActs names the activities of Erasure.
var erasureActs *activities.Erasure //nolint:gochecknoglobals // always nil: it only names methods

// ErasureInput names an erasure; whose data it is only the store knows.
type ErasureInput = erasure.Ref

// ErasureResult is how it ended.
type ErasureResult = erasure.FinishResult

// ErasureCarry is what a run that continues-as-new tells the next one.
type ErasureCarry struct {
	Round int `json:"round"` // it has begun
}

// Erasure removes a user's data, in rounds, until new queries find nothing. Each round stops the user's turns, then deletes their histories in
// Temporal, then rows, then content that nothing else refers to. Every step may be repeated; the store keeps the counts. A cancelled run ends as
// failed, and what it has deleted stays deleted.
func Erasure(ctx workflow.Context, in ErasureInput, carry *ErasureCarry) (ErasureResult, error) {
	e := &erasureRun{in: in}
	if carry != nil {
		e.round = carry.Round
	}
	out, err := e.run(ctx)
	if err == nil || workflow.IsContinueAsNewError(err) {
		return out, err
	}
	free, _ := workflow.NewDisconnectedContext(ctx) // also after a cancel
	why := erasure.FailInput{Ref: in, Why: internalFailure(err).Message}
	if temporal.IsCanceledError(err) {
		why.Why = "it was cancelled"
	}
	if failed := workflow.ExecuteActivity(storeOptions(free, "fail"), erasureActs.FailErasure, why).Get(free, nil); failed != nil {
		workflow.GetLogger(ctx).Error("note that an erasure failed", "erasure", in.ErasureID, "error", failed)
	}
	return ErasureResult{Status: erasure.StatusFailed}, err
}

// erasureRun is an erasure in the memory of its workflow.
type erasureRun struct {
	in    ErasureInput
	round int
}

func (e *erasureRun) run(ctx workflow.Context) (out ErasureResult, err error) {
	var begun erasure.BeginResult
	if err := e.do(ctx, "look", erasureActs.BeginErasure, &begun); err != nil {
		return out, err
	}
	if !begun.DryRun && !begun.Status.Final() {
		for left := int64(1); left > 0 && e.round < eraseRounds; e.round++ {
			if left, err = e.take(ctx); err != nil {
				return out, err
			}
		}
	}
	return out, e.do(ctx, "report", erasureActs.FinishErasure, &out)
}

// take is a round: what was found goes, and then is looked for anew.
func (e *erasureRun) take(ctx workflow.Context) (left int64, err error) {
	if err := e.stop(ctx); err != nil {
		return 0, err
	}
	if err := e.all(ctx, "executions", erasureActs.EraseExecutions); err != nil {
		return 0, err
	}
	if err := e.all(ctx, "rows", erasureActs.EraseRows); err != nil {
		return 0, err
	}
	if err := e.all(ctx, "schedules", erasureActs.EraseSchedules); err != nil {
		return 0, err
	}
	if err := e.content(ctx); err != nil {
		return 0, err
	}
	var found erasure.CheckResult
	err = e.do(ctx, "check", erasureActs.CheckErasure, &found)
	return found.Remaining, err
}

// stop asks the user's turns to stop, and gives them time to.
func (e *erasureRun) stop(ctx workflow.Context) error {
	until := workflow.Now(ctx).Add(stopPatience)
	for {
		var live erasure.StopResult
		if err := e.do(ctx, "stop turns", erasureActs.StopTurnsToErase, &live); err != nil {
			return err
		}
		if live.Live == 0 || !workflow.Now(ctx).Before(until) {
			return nil
		}
		if err := sleep(ctx, stopLook, "turns stop"); err != nil {
			return err
		}
	}
}

// all does one kind of work until there is none left.
func (e *erasureRun) all(ctx workflow.Context, what string, work any) error {
	for {
		var done erasure.Progress
		if err := e.do(ctx, what, work, &done); err != nil {
			return err
		}
		if !done.More {
			return nil
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return workflow.NewContinueAsNewError(ctx, ErasureType, e.in, &ErasureCarry{Round: e.round})
		}
	}
}

// content removes what nobody else refers to, and waits for what somebody has just put.
func (e *erasureRun) content(ctx workflow.Context) error {
	for range settleRounds {
		var done erasure.Progress
		if err := e.do(ctx, "content", erasureActs.EraseContent, &done); err != nil {
			return err
		}
		switch {
		case done.More:
		case done.Pending == 0:
			return nil
		default:
			if err := sleep(ctx, settlePause, "content settles"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *erasureRun) do(ctx workflow.Context, what string, work, out any) error {
	workflow.SetCurrentDetails(ctx, "Erasure `"+e.in.ErasureID+"`: "+what)
	return workflow.ExecuteActivity(eraseOptions(ctx, what), work, e.in).Get(ctx, out)
}

func eraseOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: eraseTimeout, ScheduleToCloseTimeout: eraseTotal, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: retryWithoutLimit(),
		Summary: summary,
	})
}

// ErasureID is the workflow id of an erasure.
func ErasureID(tenant, id string) string { return erasure.WorkflowID(tenant, id) }
