package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Ending is the result of waiting for a turn: Output is set when the turn has ended, Pending when it waits for a person.
type Ending struct {
	Output  *agent.AgentStepOutput
	Pending []agent.Approval
	At      time.Time // when the turn ended
}

// await follows the event log until the turn ends or waits for a person. It never asks the workflow, whose answer may come late.
// If ctx ends first it returns ctx's cause, and errStarting if the start of the turn is not confirmed.
func (g *Gateway) await(ctx context.Context, caller identity, r agent.Receipt) (Ending, error) {
	if r.StartUnknown {
		return Ending{}, errStarting
	}
	var watch PauseWatch
	after := int64(0)
	if r.Joined {
		// The log begins with the past of the turn: only a pause that lasts counts.
		v, err := g.turn(ctx, caller, r.TurnID, "")
		if err != nil {
			return Ending{}, err
		}
		if v.Output != nil {
			return Ending{Output: v.Output, At: v.endedAt()}, nil
		}
		watch.Present = v.Tail.LastIndex
		if v.Tail.FirstIndex > 1 {
			after = v.Tail.FirstIndex - 1
		}
	}
	for e, err := range g.cfg.Turns.Follow(ctx, r.TurnID, after) {
		switch {
		case ctx.Err() != nil:
			return Ending{}, context.Cause(ctx)
		case err != nil:
			return Ending{}, err
		case e.Terminal():
			return g.ended(ctx, caller, &e)
		}
		if watch.See(&e) {
			return Ending{Pending: watch.Pending}, nil
		}
	}
	if ctx.Err() != nil {
		return Ending{}, context.Cause(ctx)
	}
	return Ending{}, agent.Errorf(agent.CodeUnavailable, "", "the events of turn %s ended before the turn", r.TurnID)
}

// ended returns the result that a terminal event carries, or the stored one when the event has none.
func (g *Gateway) ended(ctx context.Context, caller identity, e *agent.Event) (Ending, error) {
	if e.Result != nil {
		return Ending{Output: e.Result, At: e.Meta.Time}, nil
	}
	v, err := g.turn(ctx, caller, e.Meta.TurnID, "")
	if err != nil {
		return Ending{}, err
	}
	if v.Output == nil {
		return Ending{}, agent.Errorf(agent.CodeInternal, "", "turn %s ended without a result", e.Meta.TurnID)
	}
	return Ending{Output: v.Output, At: e.Meta.Time}, nil
}

// PauseWatch finds out from the events of a turn whether it waits for a person now. Its zero value is ready to use.
type PauseWatch struct {
	Present int64 // pauses up to this index are over
	Pending []agent.Approval

	waiting bool
}

// See takes the next event and reports whether the turn waits for a person.
func (w *PauseWatch) See(e *agent.Event) bool {
	switch e.Type {
	case agent.EventStatus:
		w.waiting = e.Status == agent.StatusWaiting
	case agent.EventApprovalRequested, agent.EventInputRequested:
		if e.Approval != nil {
			w.Pending = append(w.Pending, *e.Approval)
		}
	case agent.EventApprovalResolved, agent.EventInputResolved:
		if e.Approval != nil {
			w.Pending = slices.DeleteFunc(w.Pending, func(a agent.Approval) bool { return a.ApprovalID == e.Approval.ApprovalID })
		}
	default:
	}
	return w.waiting && len(w.Pending) > 0 && e.Meta.EventIndex >= w.Present
}

// Resumable checks what following a turn after an index will yield. over means that nothing will ever come; the error is [agent.ErrGap] if
// some of the events have expired.
func Resumable(v *TurnView, after int64) (over bool, err error) {
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

// TurnGoesOn reports whether an error only ends the waiting for a turn that goes on: the caller left, the wait was long enough, the gateway
// closes, the caller's credential is no longer valid, or the turn is still to be started.
func TurnGoesOn(err error) bool {
	return slices.ContainsFunc([]error{context.Canceled, context.DeadlineExceeded, errClosing, errCredentialEnded, errStarting},
		func(end error) bool { return errors.Is(err, end) })
}
