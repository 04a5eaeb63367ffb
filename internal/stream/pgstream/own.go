package pgstream

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

const (
	// releasePatience is how long an owner may take to release a stream before it is taken from it.
	releasePatience = 2 * time.Second
	// storePatience bounds the wait for events to be stored, and for room to show more.
	storePatience = 30 * time.Second
)

const (
	sqlOwn = `
		WITH new AS (
			INSERT INTO streams (stream_id, owner, generation, reserved) VALUES ($1, $2, 1, $3) ON CONFLICT DO NOTHING
			RETURNING generation, last_index, first_index, cancelled
		)
		SELECT 'ok' AS outcome, generation, last_index, 0::bigint AS base, first_index, cancelled, NULL::bigint AS lost_from, NULL::json AS producers
		FROM new
		UNION ALL
		SELECT outcome, generation, last_index, base, first_index, cancelled, lost_from, producers
		FROM turnstone_own($1, $2, $3, $4) WHERE NOT EXISTS (SELECT FROM new)`
	sqlTake = `SELECT turnstone_take($1)`
)

// claim is the result of turnstone_own.
type claim struct {
	outcome    string
	generation int64
	last       int64
	base       int64
	first      int64
	cancelled  bool
	lostFrom   int64
	producers  []storedProducer
}

type storedProducer struct {
	Producer  string `json:"producer"`
	Epoch     int64  `json:"epoch"`
	WroteFrom int64  `json:"wrote_from"`
	Batches   string `json:"batches"`
}

// firstGeneration is that of the first owner of a stream.
const firstGeneration = 1

// Claim returns the claim that makes this process the owner of a new stream; see turns.EventLog.
func (l *Log) Claim() agent.StreamClaim {
	if l.life.Err() != nil {
		return agent.StreamClaim{}
	}
	return agent.StreamClaim{Owner: l.owner, Reserve: reserveIndices}
}

// Claimed records that a stream was claimed. If another process has taken it meanwhile, the next write finds out.
func (l *Log) Claimed(streamID string) {
	s := newLive(streamID, &claim{generation: firstGeneration, first: 1})
	l.liveMu.Lock()
	defer l.liveMu.Unlock()
	if l.streams[streamID] == nil && l.claiming[streamID] == nil {
		l.streams[streamID] = s
	}
}

// Begin makes its caller the only valid instance of a producer; see turns.EventLog. This process becomes the owner of the stream. An owner
// elsewhere is asked to release it first, and loses it after two seconds.
func (l *Log) Begin(ctx context.Context, streamID, producer string) (agent.Fence, agent.Appended, error) {
	const op = "begin producer"
	if err := check(streamID, producer); err != nil {
		return agent.Fence{}, agent.Appended{}, err
	}
	if err := agent.Interrupted(ctx, op); err != nil {
		return agent.Fence{}, agent.Appended{}, err
	}
	for {
		s, at, err := l.acquireStream(ctx, streamID)
		if err != nil {
			return agent.Fence{}, at, err
		}
		if s.hasEnded() {
			at, err := l.Tail(ctx, streamID)
			return agent.Fence{}, agent.Appended{LastIndex: at.LastIndex, Cancelled: at.Cancelled}, cmp.Or(err, agent.ErrStreamClosed)
		}
		f, at, ok := s.begin(producer, l.isLost)
		if !ok { // it is being released, held or stored
			if err := l.awaitChange(ctx, op, s); err != nil {
				return agent.Fence{}, agent.Appended{}, err
			}
			continue
		}
		l.markDirty(s)
		l.hub.advance(streamID, at.LastIndex)
		if f.Epoch == 1 {
			return f, at, nil
		}
		// An earlier epoch may still be at work somewhere, and is fenced by what is stored. A newer one fences this one at its first batch.
		if err := l.awaitStored(ctx, op, s, f); err != nil && !errors.Is(err, agent.ErrFenced) {
			return f, at, err
		}
		return f, at, nil
	}
}

// Reset voids what earlier epochs of a producer have written; see turns.EventLog.
func (l *Log) Reset(ctx context.Context, f agent.Fence) (agent.Appended, error) {
	const op = "reset producer"
	if err := check(f.StreamID, f.Producer); err != nil {
		return agent.Appended{}, err
	}
	for {
		s, at, err := l.acquireStream(ctx, f.StreamID)
		if err != nil {
			return at, err
		}
		if l.isLost(f) {
			return agent.Appended{}, agent.ErrFenced
		}
		at, what, err := s.reset(f)
		if what == done {
			if err == nil {
				l.markDirty(s)
				l.advance(f.StreamID, at.LastIndex)
			}
			return at, err
		}
		if err := l.awaitChange(ctx, op, s); err != nil {
			return at, err
		}
	}
}

func (l *Log) awaitChange(ctx context.Context, op string, s *live) error {
	s.mu.Lock()
	changed, state, next, reserved := s.changed, s.state, s.next, s.reserved
	s.mu.Unlock()
	if state == released || state == lost || state == ended || state == owned && next <= reserved {
		return agent.Interrupted(ctx, op)
	}
	l.kickWriter()
	return l.wait(ctx, op, changed)
}

// acquireStream returns a stream that this process owns. It asks the database for it if need be.
func (l *Log) acquireStream(ctx context.Context, id string) (*live, agent.Appended, error) {
	for {
		if s := l.lookup(id); s != nil {
			return s, agent.Appended{}, nil
		}
		l.liveMu.Lock()
		claiming, busy := l.claiming[id]
		if !busy && l.streams[id] == nil {
			claiming = make(chan struct{})
			l.claiming[id] = claiming
		}
		l.liveMu.Unlock()
		if busy { // somebody else here asks for it
			if err := l.wait(ctx, "own stream", claiming); err != nil {
				return nil, agent.Appended{}, err
			}
			continue
		}
		if claiming == nil {
			continue
		}
		return l.claim(ctx, id, claiming)
	}
}

// claim asks the database for a stream until its owner elsewhere has released it.
func (l *Log) claim(ctx context.Context, id string, claiming chan struct{}) (*live, agent.Appended, error) {
	var s *live
	defer func() {
		l.liveMu.Lock()
		defer l.liveMu.Unlock()
		if s != nil {
			l.streams[id] = s
		}
		delete(l.claiming, id)
		close(claiming)
	}()
	if l.life.Err() != nil {
		return nil, agent.Appended{}, stopped("own stream")
	}
	c, err := untilReleased(ctx, func(force bool) (*claim, bool, error) {
		c, err := l.claimOnce(ctx, id, force)
		return c, err == nil && c.outcome != outcomeOwned, err
	})
	switch {
	case err != nil:
		return nil, agent.Appended{}, err
	case c.outcome != outcomeOK:
		return nil, agent.Appended{LastIndex: c.last, Cancelled: c.cancelled}, refusal(c.outcome)
	}
	s = newLive(id, c)
	return s, agent.Appended{}, nil
}

// Outcomes of the SQL functions.
const (
	outcomeOK    = "ok"
	outcomeOwned = "owned"
)

func (l *Log) claimOnce(ctx context.Context, id string, force bool) (*claim, error) {
	var c claim
	err := l.call(ctx, "own stream", sqlOwn, []any{id, l.owner, reserveIndices, force},
		&c.outcome, (*zeronull.Int8)(&c.generation), &c.last, (*zeronull.Int8)(&c.base), (*zeronull.Int8)(&c.first), &c.cancelled,
		(*zeronull.Int8)(&c.lostFrom), &c.producers)
	if err == nil && c.outcome == outcomeOK && force {
		l.cfg.Logger.Warn("took a stream from an owner that does not answer", zap.String("stream", id), zap.Int64("generation", c.generation))
	}
	return &c, err
}

// untilReleased calls ask until it returns a final answer. After two seconds it calls it with force.
func untilReleased[T any](ctx context.Context, ask func(force bool) (T, bool, error)) (T, error) {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = 5*time.Millisecond, 100*time.Millisecond
	for since := time.Now(); ; {
		force := time.Since(since) > releasePatience
		answer, over, err := ask(force)
		if over || err != nil {
			return answer, err
		}
		if !pause(ctx, pauses.NextBackOff()) {
			return answer, agent.Interrupted(ctx, "await release of a stream")
		}
	}
}

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
