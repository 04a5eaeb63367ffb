package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Ending is the result of waiting for a turn.
type Ending struct {
	Output  *agent.AgentStepOutput // nil if the turn waits for a person
	Pending []agent.Approval       // those that the turn waits for
	At      time.Time              // when the turn ended
}

// await follows the events of a turn until the turn ends or waits for a person. If ctx ends first it returns ctx's cause. If the start of the turn is
// unconfirmed it returns errStarting.
func (g *Gateway) await(ctx context.Context, caller identity, r agent.Receipt) (Ending, error) {
	if r.StartUnknown {
		return Ending{}, errStarting
	}
	var watch PauseWatch
	after := int64(0)
	if r.Joined {
		v, err := g.turn(ctx, caller, r.TurnID, "")
		if err != nil {
			return Ending{}, err
		}
		if v.Output != nil {
			return Ending{Output: v.Output, At: v.endedAt()}, nil
		}
		watch.Present = v.Tail.LastIndex // earlier pauses are over
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
			return g.ending(ctx, caller, &e)
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

// ending returns the output in a terminal event, or the stored output if the event has none.
func (g *Gateway) ending(ctx context.Context, caller identity, e *agent.Event) (Ending, error) {
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

// PauseWatch finds out from the events of a turn whether the turn waits for a person. Its zero value is ready to use.
type PauseWatch struct {
	Present int64            // pauses before this index are over
	Pending []agent.Approval // those that are not decided yet

	isWaiting bool
}

// See reports whether the turn waits for a person after the next event.
func (w *PauseWatch) See(e *agent.Event) bool {
	switch e.Type {
	case agent.EventStatus:
		w.isWaiting = e.Status == agent.StatusWaiting
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
	return w.isWaiting && len(w.Pending) > 0 && e.Meta.EventIndex >= w.Present
}

// Resumable reports whether all events of a turn are over after an index. Its error is [agent.ErrGap] if events after the index have expired.
func Resumable(v *TurnView, after int64) (isOver bool, err error) {
	t := v.Tail
	if t.Closed && after >= t.LastIndex {
		return true, nil
	}
	if t.FirstIndex > after+1 || (t.FirstIndex == 0 && t.LastIndex > after) {
		return false, agent.ErrGap
	}
	return false, nil
}

// errStarting means that a turn is accepted and will run, but its start is unconfirmed.
var errStarting = &agent.Error{
	Code: agent.CodeUnavailable, RetryAfter: time.Second,
	Err: errors.New("the turn is accepted, and nobody knows whether it has been started: it runs within seconds; ask for it by its id"),
}

// TurnGoesOn reports whether an error ended only the wait for a turn and not the turn: the caller has left, the wait took too long, the gateway shuts
// down, the credential is no longer valid, or the start of the turn is unconfirmed.
func TurnGoesOn(err error) bool {
	return slices.ContainsFunc([]error{context.Canceled, context.DeadlineExceeded, errClosing, errCredentialEnded, errStarting},
		func(cause error) bool { return errors.Is(err, cause) })
}
