package pgstream

import (
	"context"
	"time"

	"go.uber.org/zap"
)

const (
	// sweepStreams and sweepEvents bound one transaction of Expire.
	sweepStreams = 100
	sweepEvents  = 5000
	// maxSweepPause is the longest time between two looks for expired streams.
	maxSweepPause = time.Hour
)

const (
	// From here on followers see a gap, before anything is deleted.
	sqlExpire = `
		WITH due AS (
			SELECT stream_id FROM streams
			WHERE closed_at < $1 AND NOT swept AND first_index <= last_index
			ORDER BY closed_at LIMIT $2 FOR UPDATE SKIP LOCKED
		)
		UPDATE streams s SET first_index = last_index + 1 FROM due WHERE s.stream_id = due.stream_id`

	// Streams whose events are gone with this piece are marked by sqlSwept afterwards.
	sqlSweep = `
		WITH due AS (
			SELECT stream_id FROM streams
			WHERE closed_at < $1 AND NOT swept AND first_index > last_index
			ORDER BY closed_at LIMIT $2 FOR UPDATE SKIP LOCKED
		), piece AS (
			SELECT e.stream_id, e.event_index FROM due JOIN events e USING (stream_id) LIMIT $3
		), deleted AS (
			DELETE FROM events e USING piece WHERE e.stream_id = piece.stream_id AND e.event_index = piece.event_index
			RETURNING coalesce(cardinality(e.tokens) / 2, 1) AS events
		)
		SELECT coalesce(sum(events), 0) FROM deleted`

	sqlSwept = `
		WITH due AS (
			SELECT stream_id FROM streams s
			WHERE closed_at < $1 AND NOT swept AND first_index > last_index
			  AND NOT EXISTS (SELECT FROM events e WHERE e.stream_id = s.stream_id)
			ORDER BY closed_at LIMIT $2 FOR UPDATE SKIP LOCKED
		), forgotten AS (
			DELETE FROM stream_producers p USING due WHERE p.stream_id = due.stream_id
		)
		UPDATE streams s SET swept = true FROM due WHERE s.stream_id = due.stream_id`
)

// Expire deletes the events of streams closed before a time, in many small transactions, and returns their number. One row of each stream
// stays: Follow then returns [agent.ErrGap], and Begin that the stream is closed. Several processes may call it at once.
func (l *Log) Expire(ctx context.Context, before time.Time) (int64, error) {
	var deleted int64
	for _, s := range l.owned() {
		if s.hasEnded() { // memory has what is about to go
			l.forget(s)
		}
	}
	for {
		due, err := l.exec(ctx, "expire events", sqlExpire, before, sweepStreams)
		if err != nil {
			return deleted, err
		}
		var events int64
		if err := l.call(ctx, "expire events", sqlSweep, []any{before, sweepStreams, sweepEvents}, &events); err != nil {
			return deleted, err
		}
		deleted += events
		swept, err := l.exec(ctx, "expire events", sqlSwept, before, sweepStreams)
		if err != nil {
			return deleted, err
		}
		if due == 0 && events == 0 && swept == 0 {
			return deleted, nil
		}
	}
}

func (l *Log) exec(ctx context.Context, op, sql string, args ...any) (int64, error) {
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tag, err := l.cfg.Pool.Exec(bounded, sql, args...)
	if err != nil {
		return 0, fail(ctx, op, err)
	}
	return tag.RowsAffected(), nil
}

// sweep expires by the configured retention until ctx ends.
func (l *Log) sweep(ctx context.Context) {
	for pause(ctx, jitter(min(l.cfg.Retention, maxSweepPause))) {
		n, err := l.Expire(ctx, time.Now().Add(-l.cfg.Retention))
		switch {
		case ctx.Err() != nil:
		case err != nil:
			l.cfg.Logger.Warn("expire events", zap.Error(err))
		case n > 0:
			l.cfg.Logger.Info("expired events", zap.Int64("events", n))
		}
	}
}
