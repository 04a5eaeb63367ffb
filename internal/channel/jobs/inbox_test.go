package jobs_test

import (
	"context"
	"iter"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// inbox is an [agent.Inbox] in memory. The first word of a message says what its turn does:
//
//	fail     fails
//	hold     runs until the test finishes it
//	ask      waits for a person until the test finishes it
//	slow     completes after some milliseconds
//	behind   has no event until the test finishes it
//	other    completes at once
type inbox struct {
	mu        sync.Mutex
	turns     map[agent.TurnID]*turn
	refuse    func(e *agent.Envelope) error // returns the error of Submit; nil: nothing is refused
	submits   int
	followErr error // the error of Follow
}

type turn struct {
	envelope agent.Envelope
	events   []agent.Event
	more     chan struct{} // closed when there are more
}

func newInbox() *inbox { return &inbox{turns: map[agent.TurnID]*turn{}} }

func (b *inbox) Submit(ctx context.Context, e agent.Envelope) (agent.Receipt, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.submits++
	if err := ctx.Err(); err != nil {
		return agent.Receipt{}, err
	}
	if b.refuse != nil {
		if err := b.refuse(&e); err != nil {
			return agent.Receipt{}, err
		}
	}
	id := e.Request.TurnID
	r := agent.Receipt{TurnID: id, SessionID: e.Request.SessionID, StreamID: string(id)}
	if _, ok := b.turns[id]; ok {
		r.Joined = true
		return r, nil
	}
	t := &turn{envelope: e, more: make(chan struct{})}
	b.turns[id] = t
	switch kind, _, _ := strings.Cut(e.Request.Message, " "); kind {
	case "behind":
	case "slow":
		t.emit(agent.StatusRunning)
		time.AfterFunc(time.Duration(rand.N(30))*time.Millisecond, func() { b.change(t.end) })
	case "hold":
		t.emit(agent.StatusRunning)
	case "ask":
		t.emit(agent.StatusRunning)
		t.emit(agent.StatusWaiting)
	default:
		t.emit(agent.StatusRunning)
		t.end()
	}
	return r, nil
}

func (t *turn) emit(s agent.EventStatusValue) {
	e := agent.Event{
		Meta: agent.EventMeta{EventIndex: int64(len(t.events) + 1), TurnID: t.envelope.Request.TurnID, Time: time.Now()}, Type: agent.EventStatus, Status: s,
	}
	if e.Terminal() {
		status := agent.TurnStatus(strings.ToLower(string(s)))
		e.Result = &agent.AgentStepOutput{
			TurnID: t.envelope.Request.TurnID, Status: status, Output: "answer to " + t.envelope.Request.Message, StopReason: agent.StopEndTurn,
			ResultRef: "artifact://" + string(t.envelope.Request.TurnID),
		}
		if status == agent.TurnFailed {
			e.Result.StopReason, e.Result.Error = agent.StopWallTime, &agent.Failure{Type: "wall_time_limit", Message: "out of time"}
		}
	}
	t.events = append(t.events, e)
	close(t.more)
	t.more = make(chan struct{})
}

func (t *turn) end() {
	if strings.HasPrefix(t.envelope.Request.Message, "fail") {
		t.emit(agent.StatusFailed)
		return
	}
	t.emit(agent.StatusCompleted)
}

// finish ends a turn that waits for the test.
func (b *inbox) finish(id agent.TurnID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns[id].emit(agent.StatusRunning)
	b.turns[id].end()
}

// emit adds a status event to a turn.
func (b *inbox) emit(id agent.TurnID, s agent.EventStatusValue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turns[id].emit(s)
}

func (b *inbox) Follow(ctx context.Context, id agent.TurnID, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		for {
			b.mu.Lock()
			t, err := b.turns[id], b.followErr
			if err == nil && t == nil {
				err = agent.Errorf(agent.CodeNotFound, "", "no turn %q", id)
			}
			if err != nil {
				b.mu.Unlock()
				yield(agent.Event{}, err)
				return
			}
			events, more := t.events[min(int(after), len(t.events)):], t.more
			b.mu.Unlock()
			for i := range events {
				after++
				if !yield(events[i], nil) || events[i].Terminal() {
					return
				}
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(agent.Event{}, ctx.Err())
				return
			}
		}
	}
}

func (b *inbox) Decide(context.Context, agent.TurnID, agent.Decision) error      { return nil }
func (b *inbox) Cancel(context.Context, agent.TurnID, agent.CancelRequest) error { return nil }

// turnCount returns how many turns there are.
func (b *inbox) turnCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.turns)
}

func (b *inbox) envelope(id agent.TurnID) (agent.Envelope, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	t, ok := b.turns[id]
	if !ok {
		return agent.Envelope{}, false
	}
	return t.envelope, true
}

// submitCount returns how often Submit was called.
func (b *inbox) submitCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.submits
}

// change runs a function that changes the inbox, under its lock.
func (b *inbox) change(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	do()
}
