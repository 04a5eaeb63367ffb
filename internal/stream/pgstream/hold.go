package pgstream

import (
	"context"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

const sqlDisown = `SELECT turnstone_disown($1)`

// Hold stores what this process appended to a stream, and adds nothing more until [Log.LetGo]. A stream of another process is released by that
// process; if it does not answer within two seconds, Hold returns nil.
func (l *Log) Hold(ctx context.Context, streamID string) (*agent.HeldStream, error) {
	const op = "hold stream"
	if err := stream.CheckStream(streamID); err != nil {
		return nil, err
	}
	s := l.lookup(streamID)
	if s == nil {
		_, err := untilReleased(ctx, func(force bool) (bool, bool, error) {
			var free bool
			err := l.call(ctx, op, sqlDisown, []any{streamID}, &free)
			return free, free || force, err
		})
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	for mine := false; ; {
		last, changed := s.hold(&mine)
		switch {
		case mine && changed == nil:
			return &agent.HeldStream{StreamID: s.id, Owner: l.owner, Generation: s.generation, LastIndex: last}, nil
		case changed == nil:
			return nil, agent.Interrupted(ctx, op)
		}
		l.storeNow(s)
		if err := l.wait(bounded, op, changed); err != nil {
			if mine {
				l.letGo(s, nil)
			}
			return nil, err
		}
	}
}

// LetGo shows the events that have ended a held stream. Without events the stream is released, and the database knows whether it has ended.
func (l *Log) LetGo(kept *agent.HeldStream, events []agent.Event) {
	if kept == nil {
		return
	}
	if s := l.lookup(kept.StreamID); s != nil && s.generation == kept.Generation {
		l.letGo(s, events)
	}
}

func (l *Log) letGo(s *live, events []agent.Event) {
	last, over := s.letGo(asRead(events))
	if !over {
		l.storeNow(s)
		return
	}
	l.advance(s.id, last)
	if l.isWatched(s.id, time.Now()) {
		l.announcer.add(s.id, last)
	}
}

// asRead returns events as a reader of the database gets them: what is not UTF-8 is replaced.
func asRead(events []agent.Event) []agent.Event {
	read := slices.Clone(events)
	for i := range events {
		body, err := stream.Encode(&events[i])
		if err != nil {
			continue // not possible: the same event was encoded before
		}
		if e, err := stream.Decode(body); err == nil {
			read[i] = e
		}
	}
	return read
}

// hold keeps the stream unchanged for one caller at a time; mine reports whether it is the caller's. changed is closed when the stream changes. It is
// nil if everything up to the event last is stored, or if this process does not own the stream any more.
func (s *live) hold(mine *bool) (last int64, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case owned:
		s.state, *mine = held, true
	case held, releasing:
	case released, lost, ended:
		*mine = false
		return 0, nil
	}
	if *mine && s.dirtySince.IsZero() && s.sending == nil {
		return s.last, nil
	}
	s.urgent = true
	return 0, s.changed
}

// letGo ends the hold, and shows the events that have ended the stream, if there are any. over reports whether the stream has ended.
func (s *live) letGo(events []agent.Event) (last int64, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.state != held:
		return s.last, false
	case len(events) == 0:
		s.state, s.urgent = releasing, true
		s.touchLocked()
	default:
		for i := range events {
			e := &events[i]
			s.tail = append(s.tail, tailEvent{shared: e, index: e.Meta.EventIndex, time: e.Meta.Time, text: e.Text})
		}
		s.last = events[len(events)-1].Meta.EventIndex
		s.stored, s.state, s.usedAt = s.last, ended, time.Now()
	}
	s.wakeLocked()
	return s.last, s.state == ended
}
