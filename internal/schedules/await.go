package schedules

import (
	"context"
	"errors"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// waitingLook is how long Await follows a turn that waits for a person. Such a turn may wait for days, and an activity should not be held as long.
const waitingLook = 2 * time.Second

// AwaitInput names the turn to wait for.
type AwaitInput struct {
	TurnID  agent.TurnID `json:"turn_id"`
	After   int64        `json:"after,omitempty"`   // the index of the last event that was seen
	Waiting bool         `json:"waiting,omitempty"` // the turn waited for a person then
	MaxMS   int64        `json:"most_ms,omitempty"` // the longest wait; 0: as configured
}

// AwaitResult reports whether the turn has ended.
type AwaitResult struct {
	Over    bool           `json:"over"`
	After   int64          `json:"after,omitempty"`
	Waiting bool           `json:"waiting,omitempty"` // for a person, which may take days
	Refusal *agent.Failure `json:"refusal,omitempty"` // the turn was refused before it began, so it has no stored result
}

// Await follows a turn's events until it ends, waits for a person, the time is over, or stopping is closed because the worker stops.
func (r *Runs) Await(ctx context.Context, in AwaitInput, stopping <-chan struct{}) (AwaitResult, error) {
	t, err := r.Store.Turn(ctx, in.TurnID)
	if err == nil && t.Output != nil {
		return AwaitResult{Over: true}, nil
	}
	isStored := err == nil
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound { // not found: the turn has just started, and its events tell more
		return AwaitResult{}, err
	}
	maxWait := r.Watch
	if in.MaxMS > 0 {
		maxWait = min(maxWait, time.Duration(in.MaxMS)*time.Millisecond)
	}
	watch, stop := context.WithTimeout(ctx, maxWait)
	defer stop()
	go func() {
		select {
		case <-stopping: // another worker continues
			stop()
		case <-watch.Done():
		}
	}()
	onEvent := func() {}
	if in.Waiting {
		look := time.AfterFunc(waitingLook, stop)
		defer look.Stop()
		onEvent = func() { look.Stop() }
	}
	return r.follow(ctx, watch, in, isStored, onEvent)
}

// follow follows the events of a turn until watch ends. It calls onEvent for each event.
func (r *Runs) follow(ctx, watch context.Context, in AwaitInput, isStored bool, onEvent func()) (AwaitResult, error) {
	out := AwaitResult{After: in.After, Waiting: in.Waiting}
	for e, err := range r.Inbox.Follow(watch, in.TurnID, in.After) {
		switch {
		case ctx.Err() != nil:
			return AwaitResult{}, ctx.Err()
		case watch.Err() != nil && err != nil:
			return out, nil
		case errors.Is(err, agent.ErrGap): // the first events were removed: the store will have the result
			return AwaitResult{After: in.After, Waiting: true}, nil
		case err != nil:
			return AwaitResult{}, err
		}
		onEvent()
		out.After = e.Meta.EventIndex
		switch {
		case e.Type != agent.EventStatus:
		case e.Terminal():
			out.Over, out.Waiting = true, false
			if !isStored && e.Result != nil {
				out.Refusal = shortened(e.Result.Error)
			}
			return out, nil
		default:
			if out.Waiting = e.Status == agent.StatusWaiting; out.Waiting {
				return out, nil
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return AwaitResult{}, ctx.Err()
	case watch.Err() == nil: // the log ended without a terminal event: Temporal asks again after a pause
		return AwaitResult{}, agent.Errorf(agent.CodeUnavailable, "await turn", "the events of turn %s broke off", in.TurnID)
	}
	return out, nil
}

// Cancel asks the turn of a run to stop. A turn that has ended, or does not exist, is no error.
func (r *Runs) Cancel(ctx context.Context, id agent.TurnID) error {
	err := r.Inbox.Cancel(ctx, id, agent.CancelRequest{Reason: "the run of its schedule was cancelled", By: "schedule"})
	if code := agent.CodeOf(err); code == agent.CodeConflict || code == agent.CodeNotFound {
		return nil
	}
	return err
}
