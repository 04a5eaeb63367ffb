package stream

import (
	"context"
	"iter"

	"github.com/turnstone-run/turnstone/agent"
)

// memoryPageSize bounds what a slow follower keeps alive of a stream that has expired meanwhile.
const memoryPageSize = 256

// memoryWatch is where the followers of one stream wait, whether or not the stream exists. It lives as long as they do.
type memoryWatch struct {
	changed chan struct{} // closed, and replaced, by each write
	refs    int
}

// Follow yields the events after an index; see turns.EventLog.
func (l *MemoryLog) Follow(ctx context.Context, streamID string, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		if err := l.follow(ctx, streamID, after, yield); err != nil {
			yield(agent.Event{}, err)
		}
	}
}

// follow returns nil when the stream has ended or the consumer has had enough.
func (l *MemoryLog) follow(ctx context.Context, id string, after int64, yield func(agent.Event, error) bool) error {
	if err := CheckStream(id); err != nil {
		return err
	}
	if after < 0 {
		return agent.Invalid("after", "is negative")
	}
	w := l.watch(id)
	defer l.unwatch(id, w)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := l.read(id, w, after)
		if err != nil {
			return err
		}
		for i := range r.events {
			if err := ctx.Err(); err != nil {
				return err
			}
			e, err := Decode(r.events[i].body)
			if err != nil {
				return err
			}
			e.Meta = r.events[i].complete(id)
			if !yield(e, nil) {
				return nil
			}
			after++
		}
		switch {
		case len(r.events) > 0:
		case r.closed:
			return nil
		default:
			agent.Waiting(ctx)
			select {
			case <-r.changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// complete adds what every entry of a stream has in common.
func (e *memoryEvent) complete(id string) agent.EventMeta {
	m := e.meta
	m.StreamID = id
	if m.TurnID == "" {
		m.TurnID = agent.TurnID(id)
	}
	return m
}

type memoryPage struct {
	events  []memoryEvent // at most a page
	closed  bool
	changed <-chan struct{} // closed when there is more than was read
}

func (l *MemoryLog) read(id string, w *memoryWatch, after int64) (memoryPage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.streams[id]
	if !ok {
		return memoryPage{changed: w.changed}, nil
	}
	l.closed.Get(id) // used just now
	switch {
	case after >= s.last:
		return memoryPage{closed: s.isClosed(), changed: w.changed}, nil
	case after+1 < s.first():
		return memoryPage{}, agent.ErrGap
	}
	events := s.events[after+1-s.first():]
	return memoryPage{events: events[:min(len(events), memoryPageSize)], closed: s.isClosed(), changed: w.changed}, nil
}

func (l *MemoryLog) watch(id string) *memoryWatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.watched[id]
	if !ok {
		w = &memoryWatch{changed: make(chan struct{})}
		l.watched[id] = w
	}
	w.refs++
	return w
}

func (l *MemoryLog) unwatch(id string, w *memoryWatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.refs--; w.refs == 0 {
		delete(l.watched, id)
	}
}

// wake lets the followers of a stream read again.
func (l *MemoryLog) wake(id string) {
	if w, ok := l.watched[id]; ok {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}
