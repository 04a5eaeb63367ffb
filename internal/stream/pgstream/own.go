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
