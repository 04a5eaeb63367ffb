package pgstream

import (
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

// Append adds a batch, once; see turns.EventLog. A batch without events is a [Log.Touch]. The events are shown at once and stored a
// moment later; [Log.Sync] waits for that. While the database is away Append goes on, until a bound of what is not stored is reached.
//
// [agent.CodeUnavailable] means that the batch may or may not be in the log: send it again.
func (l *Log) Append(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error) {
	const op = "append events"
	if err := check(f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	if err := agent.Interrupted(ctx, op); err != nil {
		return agent.Appended{}, err
	}
	readable, size, err := stream.Readable(events)
	if err != nil {
		return agent.Appended{}, err
	}
	for deadline := time.Now().Add(storePatience); ; {
		s := l.lookup(f.StreamID)
		if l.isLost(f) { // even if this process has taken the stream back
			return agent.Appended{}, agent.ErrFenced
		}
		if s == nil {
			return l.appendShared(ctx, f, batch, events)
		}
		at, what, err := s.add(f, batch, readable, size, &l.unstored)
		switch {
		case what == done:
			if err == nil && len(events) > 0 {
				l.markDirty(s)
				l.advance(f.StreamID, at.LastIndex)
				l.cfg.Watch.Appended(len(events))
			}
			return at, err
		case what == full && time.Now().After(deadline):
			return at, agent.Errorf(agent.CodeUnavailable, op, "the database has not taken %d bytes of the stream, or %d of all streams",
				maxUnstored, maxUnstoredInAll)
		}
		if err := l.awaitRoom(ctx, op, s, deadline); err != nil {
			return at, err
		}
	}
}

// awaitRoom waits until the writer has stored something of a stream, or has given it up.
func (l *Log) awaitRoom(ctx context.Context, op string, s *live, deadline time.Time) error {
	s.mu.Lock()
	changed, state := s.changed, s.state
	s.mu.Unlock()
	if state == released || state == lost || state == ended {
		return agent.Interrupted(ctx, op)
	}
	bounded, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	l.storeNow(s)
	err := l.wait(bounded, op, changed)
	if err != nil && ctx.Err() == nil && bounded.Err() != nil {
		return nil // the caller returns the error
	}
	return err
}

// appendShared adds a batch to a stream that this process does not own.
func (l *Log) appendShared(ctx context.Context, f agent.Fence, batch int64, events []agent.Event) (agent.Appended, error) {
	if len(events) == 0 {
		return l.touchShared(ctx, f)
	}
	b, err := stream.NewBatch(events)
	if err != nil {
		return agent.Appended{}, err
	}
	type answer struct {
		outcome string
		at      agent.Appended
	}
	got, err := untilReleased(ctx, func(force bool) (answer, bool, error) {
		var a answer
		args := []any{f.StreamID, f.Producer, int64(f.Epoch), batch, b.JSON(), force}
		err := l.call(ctx, "append events", sqlAppend, args, &a.outcome, &a.at.LastIndex, &a.at.Cancelled)
		return a, err == nil && a.outcome != outcomeOwned, err
	})
	if err == nil {
		err = refusal(got.outcome)
	}
	if err != nil {
		return got.at, err
	}
	l.hub.advance(f.StreamID, got.at.LastIndex)
	l.announcer.add(f.StreamID, got.at.LastIndex)
	l.cfg.Watch.Appended(len(events))
	return got.at, nil
}

func (l *Log) touchShared(ctx context.Context, f agent.Fence) (agent.Appended, error) {
	var (
		outcome string
		at      agent.Appended
	)
	args := []any{f.StreamID, f.Producer, int64(f.Epoch)}
	if err := l.call(ctx, "touch stream", sqlTouch, args, &outcome, &at.LastIndex, &at.Cancelled); err != nil {
		return agent.Appended{}, err
	}
	l.hub.advance(f.StreamID, at.LastIndex)
	return at, refusal(outcome)
}

// Touch reports, without writing, whether the producer may go on.
func (l *Log) Touch(ctx context.Context, f agent.Fence) (agent.Appended, error) {
	return l.Append(ctx, f, 0, nil)
}

// Sync waits until the producer's epoch and all that it has appended are stored. [agent.ErrFenced] means that some of it never will be: the
// stream was taken by another process, which repeats the work.
func (l *Log) Sync(ctx context.Context, f agent.Fence) error {
	const op = "sync producer"
	if err := check(f.StreamID, f.Producer); err != nil {
		return err
	}
	s := l.lookup(f.StreamID)
	if l.isLost(f) {
		return agent.ErrFenced
	}
	if s == nil {
		return agent.Interrupted(ctx, op)
	}
	return l.awaitStored(ctx, op, s, f)
}

// awaitStored waits until everything that a producer has written is stored.
func (l *Log) awaitStored(ctx context.Context, op string, s *live, f agent.Fence) error {
	bounded, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	for {
		stored, changed, err := s.isStored(f)
		if stored || err != nil {
			return err
		}
		l.storeNow(s)
		if err := l.wait(bounded, op, changed); err != nil {
			return err
		}
	}
}
