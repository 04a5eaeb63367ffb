package runs

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// glance is how long a turn that waits for a person is looked at: it may do so for days, and nothing is to be held for it meanwhile.
const glance = 2 * time.Second

// AwaitInput names the turn that is waited for.
type AwaitInput struct {
	TurnID  agent.TurnID `json:"turn_id"`
	After   int64        `json:"after,omitempty"`   // the index of the last event that was seen
	Waiting bool         `json:"waiting,omitempty"` // it waited for a person then
	MostMS  int64        `json:"most_ms,omitempty"` // wait no longer; 0: as configured
}

// AwaitResult says whether the turn has ended.
type AwaitResult struct {
	Over    bool           `json:"over"`
	After   int64          `json:"after,omitempty"`
	Waiting bool           `json:"waiting,omitempty"` // for a person, which may take days
	Refusal *agent.Failure `json:"refusal,omitempty"` // it was refused before it began: there is no result of it
}

// AwaitScheduledRun follows a turn's events until it ends, waits for a person, or the time is over.
func (a *Activities) AwaitScheduledRun(ctx context.Context, in AwaitInput) (AwaitResult, error) {
	defer activities.Heartbeat(ctx)()
	t, err := a.Store.Turn(ctx, in.TurnID)
	if err == nil && t.Output != nil {
		return AwaitResult{Over: true}, nil
	}
	known := err == nil
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound { // started a moment ago: its events say more
		return AwaitResult{}, activities.TemporalError(err)
	}
	most := a.Watch
	if in.MostMS > 0 {
		most = min(most, time.Duration(in.MostMS)*time.Millisecond)
	}
	watch, stop := context.WithTimeout(ctx, most)
	defer stop()
	if in.Waiting {
		look := time.AfterFunc(glance, stop)
		defer look.Stop()
		return a.follow(ctx, watch, in, known, func() { look.Stop() })
	}
	return a.follow(ctx, watch, in, known, func() {})
}

// follow follows the events until watch ends, too. heard is called with each.
func (a *Activities) follow(ctx, watch context.Context, in AwaitInput, known bool, heard func()) (AwaitResult, error) {
	watch, stopped := untilStopped(watch)
	defer stopped()
	out := AwaitResult{After: in.After, Waiting: in.Waiting}
	for e, err := range a.Inbox.Follow(watch, in.TurnID, in.After) {
		switch {
		case ctx.Err() != nil:
			return AwaitResult{}, ctx.Err()
		case watch.Err() != nil && err != nil:
			return out, nil
		case errors.Is(err, agent.ErrGap): // its first events are gone: the store will say that it has ended
			return AwaitResult{After: in.After, Waiting: true}, nil
		case err != nil:
			return AwaitResult{}, activities.TemporalError(err)
		}
		heard()
		out.After = e.Meta.EventIndex
		switch {
		case e.Type != agent.EventStatus:
		case e.Terminal():
			out.Over, out.Waiting = true, false
			if !known && e.Result != nil && e.Result.Error != nil {
				out.Refusal = e.Result.Error
				out.Refusal.Message, out.Refusal.Faults = clip(out.Refusal.Message, maxFailure), nil
			}
			return out, nil
		case e.Status == agent.StatusWaiting:
			out.Waiting = true
			return out, nil
		default:
			out.Waiting = false
		}
	}
	switch {
	case ctx.Err() != nil:
		return AwaitResult{}, ctx.Err()
	case watch.Err() == nil: // it said no last word: the log will be asked again, after a pause
		return AwaitResult{}, activities.TemporalError(agent.Errorf(agent.CodeUnavailable, "await turn", "the events of turn %s broke off", in.TurnID))
	}
	return out, nil
}

// untilStopped ends the waiting when the worker stops: another one goes on with it.
func untilStopped(ctx context.Context) (watch context.Context, done func()) {
	watch, stop := context.WithCancel(ctx)
	if !activity.IsActivity(ctx) {
		return watch, stop
	}
	stops := activity.GetWorkerStopChannel(ctx)
	go func() {
		select {
		case <-stops:
			stop()
		case <-watch.Done():
		}
	}()
	return watch, stop
}

// CancelScheduledRun asks the turn of a run to stop. One that is over needs no word.
func (a *Activities) CancelScheduledRun(ctx context.Context, id agent.TurnID) error {
	err := a.Inbox.Cancel(ctx, id, agent.CancelRequest{Reason: "the run of its schedule was cancelled", By: "schedule"})
	if code := agent.CodeOf(err); code == agent.CodeConflict || code == agent.CodeNotFound {
		return nil
	}
	return activities.TemporalError(err)
}
