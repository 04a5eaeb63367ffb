package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// ending is how waiting for a turn came out: Output is set when the turn has ended, Pending when it waits for a person.
type ending struct {
	Output  *agent.AgentStepOutput
	Pending []agent.Approval
	at      time.Time // when it ended
}

// await follows the event log until the turn ends or meets a human pause. It never asks the workflow, whose answer may come late.
// A ctx that ends first gives ctx's cause, a turn of which nobody knows whether it was started errStarting.
func (g *Gateway) await(ctx context.Context, caller identity, r agent.Receipt) (ending, error) {
	if r.StartUnknown {
		return ending{}, errStarting
	}
	var watch pauseWatch
	after := int64(0)
	if r.Joined {
		// The log begins with the past of the turn: only a pause that lasts counts.
		v, err := g.turn(ctx, caller, r.TurnID, "")
		if err != nil {
			return ending{}, err
		}
		if v.Output != nil {
			return ending{Output: v.Output, at: v.endedAt()}, nil
		}
		watch.present = v.Tail.LastIndex
		if v.Tail.FirstIndex > 1 {
			after = v.Tail.FirstIndex - 1
		}
	}
	for e, err := range g.cfg.Runtime.Follow(ctx, r.TurnID, after) {
		switch {
		case ctx.Err() != nil:
			return ending{}, context.Cause(ctx)
		case err != nil:
			return ending{}, err
		case e.Terminal():
			return g.ended(ctx, caller, &e)
		}
		if watch.see(&e) {
			return ending{Pending: watch.pending}, nil
		}
	}
	if ctx.Err() != nil {
		return ending{}, context.Cause(ctx)
	}
	return ending{}, agent.Errorf(agent.CodeUnavailable, "", "the events of turn %s ended before the turn", r.TurnID)
}

// ended returns the result that a terminal event carries, or the stored one when the event has none.
func (g *Gateway) ended(ctx context.Context, caller identity, e *agent.Event) (ending, error) {
	if e.Result != nil {
		return ending{Output: e.Result, at: e.Meta.Time}, nil
	}
	v, err := g.turn(ctx, caller, e.Meta.TurnID, "")
	if err != nil {
		return ending{}, err
	}
	if v.Output == nil {
		return ending{}, agent.Errorf(agent.CodeInternal, "", "turn %s ended without a result", e.Meta.TurnID)
	}
	return ending{Output: v.Output, at: e.Meta.Time}, nil
}

// pauseWatch tells from a turn's events whether it waits for a person now.
type pauseWatch struct {
	present int64 // events up to this index are the past
	waiting bool
	pending []agent.Approval
}

// see takes the next event and reports whether the turn waits for a person.
func (w *pauseWatch) see(e *agent.Event) bool {
	switch e.Type {
	case agent.EventStatus:
		w.waiting = e.Status == agent.StatusWaiting
	case agent.EventApprovalRequested, agent.EventInputRequested:
		if e.Approval != nil {
			w.pending = append(w.pending, *e.Approval)
		}
	case agent.EventApprovalResolved, agent.EventInputResolved:
		if e.Approval != nil {
			w.resolve(e.Approval.ApprovalID)
		}
	default:
	}
	return w.waiting && len(w.pending) > 0 && e.Meta.EventIndex >= w.present
}

func (w *pauseWatch) resolve(id string) {
	kept := w.pending[:0]
	for _, a := range w.pending {
		if a.ApprovalID != id {
			kept = append(kept, a)
		}
	}
	w.pending = kept
}

// resumable checks before the first byte what a resume at an offset will find: over is true when nothing will ever come,
// [agent.ErrGap] when something is gone already.
func resumable(v *TurnView, after int64) (over bool, err error) {
	t := v.Tail
	if t.Closed && after >= t.LastIndex {
		return true, nil
	}
	if t.FirstIndex > after+1 || (t.FirstIndex == 0 && t.LastIndex > after) {
		return false, agent.ErrGap
	}
	return false, nil
}

// errStarting is why a request does not wait for its turn: the turn is accepted and will run, but may not have been started yet.
var errStarting = &agent.Error{
	Code: agent.CodeUnavailable, RetryAfter: time.Second,
	Err: errors.New("the turn is accepted, and nobody knows whether it has been started: it runs within seconds; ask for it by its id"),
}

// isOver reports whether an error is only the end of the waiting: the caller left, the wait was long enough, the gateway closes, the
// caller's credential does not hold any more, or the turn is still to be started. The turn goes on in every case.
func isOver(err error) bool {
	return slices.ContainsFunc([]error{context.Canceled, context.DeadlineExceeded, errClosing, errCredentialEnded, errStarting},
		func(end error) bool { return errors.Is(err, end) })
}
