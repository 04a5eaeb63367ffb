package pgstream

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

const (
	// What a follower holds at most: a page, and the event that exceeds it.
	pageEvents = 500
	pageBytes  = stream.MaxBatchBytes

	// outage is how long a follower waits for the database to come back. The producer of the stream waits as well, and the
	// turn outlives three minutes.
	outage = 10 * time.Minute
)

// Follow yields the events after an index; see turns.EventLog. It waits out an absent database for ten minutes before it
// ends with [agent.CodeUnavailable], with which it also ends when the log is stopped.
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
	sub := l.hub.subscribe(id, nil)
	defer l.unmirror(id)
	defer sub.cancel()
	watched := false // the owner was asked to notify this process
	l.cfg.Watch.Followers(1)
	defer l.cfg.Watch.Followers(-1)
	asked := time.Now() // since when the follower wants more
	for {
		p, err := l.read(ctx, sub, after)
		if err != nil {
			return err
		}
		if len(p.events) > 0 {
			l.cfg.Watch.Delivered(min(p.age, time.Since(asked)))
		}
		for _, e := range p.events {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !yield(e, nil) {
				return nil
			}
			after = e.Meta.EventIndex
		}
		if len(p.events) > 0 {
			asked = time.Now()
		}
		if after < p.last {
			continue
		}
		if p.closed {
			return nil
		}
		if p.stored && l.lookup(id) == nil && !l.followOwner(id, p.owner, after) && !watched {
			l.announcer.watch(id)
			watched = true
		}
		if err := l.await(ctx, sub, after, p.stored && len(p.events) == 0); err != nil {
			return err
		}
	}
}

// await returns nil when there may be events after an index. idle says that the database has just returned none, although some are known: they are
// not stored yet, or never will be.
func (l *Log) await(ctx context.Context, sub *subscription, after int64, idle bool) error {
	for ; !sub.due(after); idle = false {
		agent.Waiting(ctx)
		select {
		case <-sub.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-l.life.Done():
			return stopped("follow stream")
		}
	}
	if idle {
		pause(ctx, watchedFlush)
	}
	return nil
}

// page is a piece of a stream and where the stream stood when it was read.
type page struct {
	events []agent.Event
	last   int64
	closed bool
	age    time.Duration // of the first event when the page came: both by the clock of the database
	stored bool          // it was read from the database
	owner  string        // then: whose the stream is, empty if nobody's
}

// read reads a page: from memory, if this process owns the stream or its owner hands it over, else from the database, again and again while it
// is away.
func (l *Log) read(ctx context.Context, sub *subscription, after int64) (page, error) {
	id := sub.stream
	if l.life.Err() != nil {
		return page{}, stopped("follow stream")
	}
	if s := l.lookup(id); s != nil && ctx.Err() == nil {
		if p, ok := s.page(after, sub.page[:0]); ok {
			sub.page = p.events
			return p, nil
		}
	} else if m := l.mirrors.lookup(id); m != nil && ctx.Err() == nil {
		if p, ok := m.page(after, sub.newest()); ok {
			return p, nil
		}
	}
	agent.Waiting(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.life, func() { cancel(errStopped) })()
	p, err := backoff.Retry(ctx, func() (page, error) {
		p, err := l.readOnce(ctx, id, after)
		if err != nil && (ctx.Err() != nil || agent.CodeOf(err) != agent.CodeUnavailable) {
			return page{}, backoff.Permanent(err)
		}
		return p, err
	}, backoff.WithBackOff(outagePauses()), backoff.WithMaxElapsedTime(outage))
	switch {
	case err == nil:
		return p, nil
	case context.Cause(ctx) == errStopped: //nolint:errorlint // the cause itself, wrapped by nobody
		return page{}, stopped("follow stream")
	case ctx.Err() != nil:
		return page{}, ctx.Err()
	default:
		return page{}, err
	}
}

// outagePauses returns growing pauses from 50 ms to 2 s: a viewer waits.
func outagePauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 50 * time.Millisecond
	b.MaxInterval = 2 * time.Second
	return b
}

func (l *Log) readOnce(ctx context.Context, id string, after int64) (page, error) {
	const op = "follow stream"
	if err := l.readers.Acquire(ctx, 1); err != nil {
		return page{}, fail(ctx, op, err)
	}
	defer l.readers.Release(1)
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := l.cfg.Pool.Query(bounded, sqlPage, id, after, pageEvents, pageBytes)
	if err != nil {
		return page{}, fail(ctx, op, err)
	}
	var (
		p      = page{stored: true}
		first  int64
		now    time.Time
		index  *int64
		tokens []int32
		body   []byte
	)
	if _, err := pgx.ForEachRow(rows, []any{&first, &p.last, &p.closed, &p.owner, &now, &index, &tokens, &body}, func() error {
		if index == nil {
			return nil
		}
		events, err := decode(body, *index, tokens)
		for i := range events {
			if events[i].Meta.EventIndex > after {
				p.events = append(p.events, events[i:]...)
				break
			}
		}
		return err
	}); err != nil {
		return page{}, fail(ctx, op, err)
	}
	if after >= p.last {
		return p, nil
	}
	if after+1 < first {
		return page{}, agent.ErrGap
	}
	if len(p.events) == 0 {
		return page{}, agent.Errorf(agent.CodeInternal, op, "no event between %d and %d", after, p.last)
	}
	p.age = max(now.Sub(p.events[0].Meta.Time), 0)
	return p, nil
}

// decode reads the events of a row, of which the last has an index: several, if tokens has pairs of the bytes of a text and the microseconds
// that it came after the first.
func decode(body []byte, index int64, tokens []int32) ([]agent.Event, error) {
	e, err := stream.Decode(body)
	if err != nil {
		return nil, err
	}
	if len(tokens) < 2 {
		return []agent.Event{e}, nil
	}
	events := make([]agent.Event, 0, len(tokens)/2)
	text, first := e.Text, e.Meta.Time
	for pair := range slices.Chunk(tokens, 2) {
		if len(pair) < 2 || pair[0] < 0 || int(pair[0]) > len(text) {
			return nil, agent.Errorf(agent.CodeInternal, "follow stream", "the tokens before event %d are longer than their text", index)
		}
		e.Text, text = text[:pair[0]], text[pair[0]:]
		e.Meta.Time = first.Add(time.Duration(pair[1]) * time.Microsecond)
		e.Meta.EventIndex = index - int64(len(tokens)/2-1-len(events))
		events = append(events, e)
	}
	return events, nil
}
