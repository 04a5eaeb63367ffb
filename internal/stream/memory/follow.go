package memory

import (
	"context"
	"iter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

// page bounds what a slow follower keeps alive of a stream that has expired meanwhile.
const page = 256

// watch is where the followers of one stream wait, whether or not the stream exists. It lives as long as they do.
type watch struct {
	changed chan struct{} // closed, and replaced, by each write
	refs    int
}

// Follow yields the events after an index; see turns.EventLog.
func (l *Log) Follow(ctx context.Context, streamID string, after int64) iter.Seq2[agent.Event, error] {
	return func(yield func(agent.Event, error) bool) {
		if err := l.follow(ctx, streamID, after, yield); err != nil {
			yield(agent.Event{}, err)
		}
	}
}

// follow returns nil when the stream has ended or the consumer has had enough.
func (l *Log) follow(ctx context.Context, id string, after int64, yield func(agent.Event, error) bool) error {
	if err := stream.CheckStream(id); err != nil {
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
			e, err := stream.Decode(r.events[i].body)
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
func (e *entry) complete(id string) agent.EventMeta {
	m := e.meta
	m.StreamID = id
	if m.TurnID == "" {
		m.TurnID = agent.TurnID(id)
	}
	return m
}

type reading struct {
	events  []entry // at most a page
	closed  bool
	changed <-chan struct{} // closed when there is more than was read
}

func (l *Log) read(id string, w *watch, after int64) (reading, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.streams[id]
	if !ok {
		return reading{changed: w.changed}, nil
	}
	l.closed.Get(id) // used just now
	switch {
	case after >= s.last:
		return reading{closed: s.isClosed(), changed: w.changed}, nil
	case after+1 < s.first():
		return reading{}, agent.ErrGap
	}
	events := s.events[after+1-s.first():]
	return reading{events: events[:min(len(events), page)], closed: s.isClosed(), changed: w.changed}, nil
}

func (l *Log) watch(id string) *watch {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.watched[id]
	if !ok {
		w = &watch{changed: make(chan struct{})}
		l.watched[id] = w
	}
	w.refs++
	return w
}

func (l *Log) unwatch(id string, w *watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.refs--; w.refs == 0 {
		delete(l.watched, id)
	}
}

// wake lets the followers of a stream read again.
func (l *Log) wake(id string) {
	if w, ok := l.watched[id]; ok {
		close(w.changed)
		w.changed = make(chan struct{})
	}
}
