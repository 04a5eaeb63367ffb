package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schedules"
)

const (
	// limitPatience is how long a run waits for its limits to allow it. Then it is skipped.
	limitPatience = time.Hour
	// limitFirst and limitMax bound one such pause.
	limitFirst = time.Second
	limitMax   = 10 * time.Minute
	// submitTotal bounds all attempts to submit while a dependency of the runtime is away.
	submitTotal = time.Hour
	// awaitTimeout bounds one attempt to follow a turn, which ends by itself after 10 minutes.
	awaitTimeout = 15 * time.Minute
	// lookAgainFirst and lookAgainMax space the looks at a turn that waits for a person.
	lookAgainFirst = time.Minute
	lookAgainMax   = 10 * time.Minute
	// cancelPatience is how long a cancelled run waits for its turn to stop.
	cancelPatience = time.Minute
	// stopTotal bounds all attempts to cancel the turn of a run that was cancelled.
	stopTotal = 5 * time.Minute
	// noticeTimeout bounds one attempt to notify, noticeTotal all of them: the next run may be waiting for this one.
	noticeTimeout  = 90 * time.Second
	noticeTotal    = 10 * time.Minute
	noticeAttempts = 6
)

// scheduled is the nil-typed handle of the activities of ScheduledRun.
var scheduled *activities.Schedules //nolint:gochecknoglobals // always nil: it only names methods

// ScheduledRunInput names the schedule of a run. The schedule is read when the run begins.
type ScheduledRunInput struct {
	Tenant   string `json:"tenant"`
	Schedule string `json:"schedule"`
}

// ScheduledRunCarry is the state with which a run continues as new: its turn, which waits for a person.
type ScheduledRunCarry struct {
	TurnID    agent.TurnID    `json:"turn_id"`
	SessionID agent.SessionID `json:"session_id"`
	After     int64           `json:"after,omitempty"`
}

// ScheduledRunResult is how a run ended.
type ScheduledRunResult struct {
	RunID     string          `json:"run_id"`
	Schedule  string          `json:"schedule"`
	TurnID    agent.TurnID    `json:"turn_id"`
	SessionID agent.SessionID `json:"session_id"`
	Status    string          `json:"status"` // completed, failed, cancelled, skipped
	ResultRef string          `json:"result_ref"`
	Error     *agent.Failure  `json:"error"`
	Notified  int             `json:"notified"`
	Unsent    int             `json:"unsent"` // notices that could not be sent; the stored run has their errors
}

// ScheduledRun is one run of a schedule. It submits a turn in a session of its own, waits for it, stores the result and notifies. A run that fails
// completes with that status. A cancelled run cancels its turn and ends as cancelled. Only continue-as-new passes a carry.
func ScheduledRun(ctx workflow.Context, in ScheduledRunInput, carry *ScheduledRunCarry) (ScheduledRunResult, error) {
	info := workflow.GetInfo(ctx)
	r := &scheduledRun{ref: schedules.RunRef{
		Tenant: in.Tenant, Schedule: in.Schedule, RunID: info.FirstRunID, WorkflowID: info.WorkflowExecution.ID,
	}}
	free, _ := workflow.NewDisconnectedContext(ctx) // for work after a cancel
	if carry != nil {
		r.turn = schedules.SubmitResult{TurnID: carry.TurnID, SessionID: carry.SessionID}
		r.await = schedules.AwaitInput{TurnID: carry.TurnID, After: carry.After, Waiting: true}
	} else if err := r.submit(ctx); err != nil {
		return ScheduledRunResult{}, err
	}
	if r.turn.TurnID != "" {
		switch err := r.watch(ctx); {
		case workflow.IsContinueAsNewError(err):
			return ScheduledRunResult{}, err
		case temporal.IsCanceledError(err):
			r.cancelTurn(free)
		case err != nil:
			r.status, r.failure = string(agent.TurnFailed), internalFailure(err)
		}
	}
	out, err := r.finish(free)
	if err != nil {
		return ScheduledRunResult{}, err
	}
	if ctx.Err() != nil && out.Status == string(agent.TurnCancelled) {
		return out, ctx.Err() // Temporal shows the workflow as cancelled too
	}
	return out, nil
}

// scheduledRun is a run in the memory of its workflow.
type scheduledRun struct {
	ref     schedules.RunRef
	turn    schedules.SubmitResult
	await   schedules.AwaitInput
	status  string         // the run's, if it differs from the turn's
	failure *agent.Failure // as above
}

// submit submits the run's turn. It waits while the limits leave no room. If they can never allow the turn, the run ends.
func (r *scheduledRun) submit(ctx workflow.Context) error {
	until := workflow.Now(ctx).Add(limitPatience)
	for {
		r.show(ctx, "is submitted")
		r.turn = schedules.SubmitResult{}
		err := workflow.ExecuteActivity(submitOptions(ctx, r.ref.Schedule), scheduled.SubmitScheduledRun, r.ref).Get(ctx, &r.turn)
		switch {
		case temporal.IsCanceledError(err):
			r.status = string(agent.TurnCancelled)
			return nil
		case err != nil:
			r.status, r.failure = string(agent.TurnFailed), internalFailure(err)
			return nil
		case r.turn.Gone:
			return refusalError(r.turn.Refusal)
		case r.turn.TurnID != "":
			r.await = schedules.AwaitInput{TurnID: r.turn.TurnID}
			return nil
		case r.turn.RetryAfterMS <= 0:
			r.status, r.failure = string(agent.TurnFailed), r.turn.Refusal
			return nil
		}
		pause := min(max(time.Duration(r.turn.RetryAfterMS)*time.Millisecond, limitFirst), limitMax)
		if workflow.Now(ctx).Add(pause).After(until) {
			r.status, r.failure = agent.ScheduleSkipped, r.turn.Refusal
			return nil
		}
		r.show(ctx, "waits for its limits to leave room")
		if err := sleep(ctx, pause, "limits"); err != nil {
			r.status = string(agent.TurnCancelled)
			return nil //nolint:nilerr // a cancel is an end of the run and no error
		}
	}
}

// watch waits for the end of the turn. While the turn waits for a person, only a timer runs.
func (r *scheduledRun) watch(ctx workflow.Context) error {
	pause := lookAgainFirst
	for {
		r.show(ctx, "waits for its turn")
		out, err := r.followTurn(ctx)
		if err != nil || out.Over {
			return err
		}
		if !out.Waiting {
			pause = lookAgainFirst
			continue
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			next := &ScheduledRunCarry{TurnID: r.turn.TurnID, SessionID: r.turn.SessionID, After: r.await.After}
			return workflow.NewContinueAsNewError(ctx, ScheduledRunType, ScheduledRunInput{Tenant: r.ref.Tenant, Schedule: r.ref.Schedule}, next)
		}
		r.show(ctx, "waits for its turn, which waits for a person")
		if err := sleep(ctx, pause, "a person decides"); err != nil {
			return err
		}
		pause = min(2*pause, lookAgainMax)
	}
}

// followTurn follows the turn for a while.
func (r *scheduledRun) followTurn(ctx workflow.Context) (schedules.AwaitResult, error) {
	var out schedules.AwaitResult
	err := workflow.ExecuteActivity(awaitOptions(ctx), scheduled.AwaitScheduledRun, r.await).Get(ctx, &out)
	if err == nil {
		r.await.After, r.await.Waiting = out.After, out.Waiting
		if out.Refusal != nil {
			r.failure = out.Refusal
		}
	}
	return out, err
}

// cancelTurn cancels the turn of a cancelled run, and waits a moment until it ends.
func (r *scheduledRun) cancelTurn(ctx workflow.Context) {
	r.status, r.failure = string(agent.TurnCancelled), nil
	if err := workflow.ExecuteActivity(stopOptions(ctx), scheduled.CancelScheduledRun, r.turn.TurnID).Get(ctx, nil); err != nil {
		workflow.GetLogger(ctx).Warn("cancel turn of a scheduled run", "turn", r.turn.TurnID, "error", err)
		return
	}
	until := workflow.Now(ctx).Add(cancelPatience)
	r.await.Waiting = false
	for left := cancelPatience; left > time.Second; left = until.Sub(workflow.Now(ctx)) {
		r.await.MaxMS = left.Milliseconds()
		if out, err := r.followTurn(ctx); err != nil || out.Over {
			return
		}
		if err := sleep(ctx, time.Second, "the turn stops"); err != nil {
			return
		}
	}
}

// finish stores the end of the run and retries without limit, because nothing else has it. Then it notifies.
func (r *scheduledRun) finish(ctx workflow.Context) (ScheduledRunResult, error) {
	r.show(ctx, "is stored")
	out := ScheduledRunResult{RunID: r.ref.RunID, Schedule: r.ref.Schedule, TurnID: r.turn.TurnID, SessionID: r.turn.SessionID}
	in := schedules.FinishInput{RunRef: r.ref, TurnID: r.turn.TurnID, Status: r.status, Failure: r.failure, At: workflow.Now(ctx)}
	var finished schedules.FinishResult
	if err := runQuick(ctx, "store", scheduled.FinishScheduledRun, &finished, in); err != nil {
		return out, err
	}
	out.Status, out.ResultRef, out.Error = finished.Status, finished.ResultRef, finished.Error
	notices := make([]workflow.Future, len(finished.Notify))
	for i, position := range finished.Notify {
		ctx := noticeOptions(ctx, fmt.Sprintf("notify[%d]", position))
		notices[i] = workflow.ExecuteActivity(ctx, scheduled.NotifyScheduledRun, schedules.NotifyInput{RunRef: r.ref, Position: position})
	}
	for i := range notices {
		var notice schedules.NotifyResult
		if err := notices[i].Get(ctx, &notice); err != nil || !notice.Sent {
			out.Unsent++ // the activity stored the error
			continue
		}
		out.Notified++
	}
	r.show(ctx, "is "+out.Status)
	return out, nil
}

// show writes to the Web UI what the run is doing. It costs no history.
func (r *scheduledRun) show(ctx workflow.Context, what string) {
	text := "Run of `" + r.ref.Schedule + "` " + what
	if r.turn.TurnID != "" {
		text += "\n\nturn `" + r.turn.TurnID.WorkflowID() + "`"
	}
	workflow.SetCurrentDetails(ctx, text)
}

func sleep(ctx workflow.Context, d time.Duration, summary string) error {
	return workflow.NewTimerWithOptions(ctx, d, workflow.TimerOptions{Summary: summary}).Get(ctx, nil)
}

// submitOptions returns the options of submitting. A cancelled run waits for the attempt, which knows whether there is a turn to cancel.
func submitOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: storeTimeout, ScheduleToCloseTimeout: submitTotal, RetryPolicy: retryWithoutLimit(), Summary: summary, WaitForCancellation: true,
	})
}

// stopOptions returns the options of cancelling a turn. They are bounded, because the person who cancels waits for the end.
func stopOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: storeTimeout, ScheduleToCloseTimeout: stopTotal, RetryPolicy: retryWithoutLimit(), Summary: "cancel turn",
	})
}

func awaitOptions(ctx workflow.Context) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: awaitTimeout, HeartbeatTimeout: heartbeatTimeout, RetryPolicy: retryWithoutLimit(), Summary: "await turn",
	})
}

func noticeOptions(ctx workflow.Context, summary string) workflow.Context {
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: noticeTimeout, ScheduleToCloseTimeout: noticeTotal, Summary: summary,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: 2 * time.Second, BackoffCoefficient: 3, MaximumInterval: time.Minute, MaximumAttempts: noticeAttempts,
		},
	})
}

// ScheduledRunID returns the workflow id of the runs of a schedule. Temporal appends the time of each run.
func ScheduledRunID(tenant, schedule string) string { return "scheduled/" + tenant + "/" + schedule }
