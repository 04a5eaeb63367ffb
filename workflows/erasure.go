package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// ErasureType is the name of the workflow that removes a user's data. Never change it.
const ErasureType = "Erasure"

const (
	// stopPatience is how long the user's turns have to stop. Those that still run then are terminated, and their data is removed as it is.
	stopPatience = time.Minute
	// stopLook is the pause between two looks at turns that were asked to stop.
	stopLook = 2 * time.Second
	// eraseTimeout bounds one attempt of an activity that erases. It begins nothing new after 30 s, but what it has begun may take minutes.
	eraseTimeout = 30 * time.Minute
	// eraseTotal bounds all attempts while the store or Temporal cannot be reached. Then the erasure has failed.
	eraseTotal = 24 * time.Hour
	// eraseRounds bounds the rounds. Another one is needed if the user has added data meanwhile.
	eraseRounds = 5
	// settlePause and settleRounds bound the wait for new content, whose references may not be stored yet.
	settlePause  = 20 * time.Second
	settleRounds = 15
)

// erasureActs names the activities of Erasure.
var erasureActs *activities.Erasure //nolint:gochecknoglobals // always nil: it only names methods

// ErasureInput names an erasure. Only the store has the user whose data it removes.
type ErasureInput = erasure.Ref

// ErasureResult is how an erasure ended.
type ErasureResult = erasure.FinishResult

// ErasureCarry is the state that a run passes on when it continues as new.
type ErasureCarry struct {
	Round int `json:"round"` // the round that is under way
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
	free, _ := workflow.NewDisconnectedContext(ctx) // the failure is recorded after a cancel too
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
	if err := e.runActivity(ctx, "look", erasureActs.BeginErasure, &begun); err != nil {
		return out, err
	}
	if !begun.DryRun && !begun.Status.Final() {
		for left := int64(1); left > 0 && e.round < eraseRounds; e.round++ {
			if left, err = e.runRound(ctx); err != nil {
				return out, err
			}
		}
	}
	return out, e.runActivity(ctx, "report", erasureActs.FinishErasure, &out)
}

// runRound removes what the user has and returns how much is left.
func (e *erasureRun) runRound(ctx workflow.Context) (left int64, err error) {
	if err := e.stopTurns(ctx); err != nil {
		return 0, err
	}
	if err := e.repeat(ctx, "executions", erasureActs.EraseExecutions); err != nil {
		return 0, err
	}
	if err := e.repeat(ctx, "rows", erasureActs.EraseRows); err != nil {
		return 0, err
	}
	if err := e.repeat(ctx, "schedules", erasureActs.EraseSchedules); err != nil {
		return 0, err
	}
	if err := e.eraseContent(ctx); err != nil {
		return 0, err
	}
	var found erasure.CheckResult
	err = e.runActivity(ctx, "check", erasureActs.CheckErasure, &found)
	return found.Remaining, err
}

// stopTurns asks the user's turns to stop and waits until they have, for stopPatience at most.
func (e *erasureRun) stopTurns(ctx workflow.Context) error {
	until := workflow.Now(ctx).Add(stopPatience)
	for {
		var live erasure.StopResult
		if err := e.runActivity(ctx, "stop turns", erasureActs.StopTurnsToErase, &live); err != nil {
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

// repeat runs an activity until it finds nothing to erase.
func (e *erasureRun) repeat(ctx workflow.Context, what string, activity any) error {
	for {
		var done erasure.Progress
		if err := e.runActivity(ctx, what, activity, &done); err != nil {
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

// eraseContent removes content without a reference, and waits for content that is too new to tell.
func (e *erasureRun) eraseContent(ctx workflow.Context) error {
	for range settleRounds {
		var done erasure.Progress
		if err := e.runActivity(ctx, "content", erasureActs.EraseContent, &done); err != nil {
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

// runActivity runs an activity of the erasure and shows what it does in the Web UI.
func (e *erasureRun) runActivity(ctx workflow.Context, what string, activity, out any) error {
	workflow.SetCurrentDetails(ctx, "Erasure `"+e.in.ErasureID+"`: "+what)
	return workflow.ExecuteActivity(eraseOptions(ctx, what), activity, e.in).Get(ctx, out)
}

func eraseOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: eraseTimeout, ScheduleToCloseTimeout: eraseTotal, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: retryWithoutLimit(),
		Summary: summary,
	})
}

// ErasureID is the workflow id of an erasure.
func ErasureID(tenant, id string) string { return erasure.WorkflowID(tenant, id) }
