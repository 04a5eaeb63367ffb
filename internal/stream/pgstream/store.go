package pgstream

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
)

// sqlStore stores new events of several streams in one statement and returns the streams that it stored. It leaves out a stream if its row is
// locked, if another process owns it, if it is closed, or if its last_index is not the one before the new events. The last case follows a crash
// of the database, which can lose the newest commits. The commit waits for the disk only if it reserves indices or has more to commit ($1).
//
// The LIMIT takes all. It makes the planner expect one stream, so that streams are found by their key also with a plan that was made while
// the table was small.
const sqlStore = `
WITH durability AS (
	SELECT CASE WHEN NOT $1 THEN set_config('synchronous_commit', 'off', true) END
), head AS (
	SELECT h.* FROM durability, unnest($2::text[], $3::bigint[], $4::bigint[], $20::bigint[], $5::bigint[], $6::boolean[], $7::boolean[])
		AS h (stream_id, generation, last_index, behind, reserved, release, watched)
	LIMIT cardinality($2)
), held AS (
	SELECT s.stream_id FROM streams s JOIN head h USING (stream_id)
	WHERE s.generation = h.generation AND s.owner = $19 AND s.closed_at IS NULL AND s.last_index IN (h.behind, h.last_index)
	ORDER BY s.stream_id FOR NO KEY UPDATE OF s SKIP LOCKED
), moved AS (
	UPDATE streams s
	SET last_index = h.last_index, reserved = CASE WHEN h.release THEN h.last_index ELSE h.reserved END,
		owner = CASE WHEN h.release THEN NULL ELSE s.owner END
	FROM head h JOIN held USING (stream_id) WHERE s.stream_id = h.stream_id
	RETURNING s.stream_id, s.cancelled
), stored AS (
	INSERT INTO events (stream_id, event_index, size, producer, epoch, tokens, event)
	SELECT e.stream_id, e.event_index, octet_length(e.event), e.producer, e.epoch, e.tokens::integer[], e.event::json
	FROM unnest($8::text[], $9::bigint[], $10::text[], $11::bigint[], $12::text[], $13::text[])
		AS e (stream_id, event_index, producer, epoch, tokens, event)
	JOIN held USING (stream_id)
	ON CONFLICT DO NOTHING
), began AS (
	INSERT INTO stream_producers (stream_id, producer, epoch, wrote_from, batches)
	SELECT p.stream_id, p.producer, p.epoch, p.wrote_from, p.batches::int8multirange
	FROM unnest($14::text[], $15::text[], $16::bigint[], $17::bigint[], $18::text[]) AS p (stream_id, producer, epoch, wrote_from, batches)
	JOIN held USING (stream_id)
	ON CONFLICT (stream_id, producer) DO UPDATE
	SET epoch = excluded.epoch, wrote_from = excluded.wrote_from, batches = excluded.batches
	WHERE stream_producers.epoch <= excluded.epoch
), told AS (
	SELECT count(pg_notify('turnstone_events', h.stream_id || ':' || h.last_index)) FROM head h JOIN moved USING (stream_id) WHERE h.watched
)
SELECT m.stream_id, true, m.cancelled, false, false, false, 0 FROM told, moved m`

// sqlSkipped returns the reason why sqlStore skipped streams.
const sqlSkipped = `
SELECT h.stream_id, false, coalesce(s.cancelled, false), s.closed_at IS NOT NULL, s.generation IS DISTINCT FROM h.generation,
	h.release AND s.owner IS NULL, coalesce(s.last_index, 0)
FROM unnest($1::text[], $2::bigint[], $3::boolean[]) AS h (stream_id, generation, release) LEFT JOIN streams s USING (stream_id)`

// storeAnswer is the outcome of storing the events of one stream.
type storeAnswer struct {
	stored, cancelled, closed, taken bool
	released                         bool  // by an earlier try, whose answer was lost
	last                             int64 // index of the newest event that is stored
}

// storeOnce sends chunks to the database.
func (l *Log) storeOnce(ctx context.Context, chunks []*chunk) (map[string]storeAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answers := make(map[string]storeAnswer, len(chunks))
	extends := slices.ContainsFunc(chunks, func(c *chunk) bool { return c.extends })
	if err := l.readAnswers(ctx, answers, sqlStore, l.storeArgs(extends, chunks)...); err != nil {
		return nil, err
	}
	var (
		ids         []string
		generations []int64
		releases    []bool
	)
	for _, c := range chunks {
		if _, ok := answers[c.s.id]; !ok {
			ids, generations, releases = append(ids, c.s.id), append(generations, c.s.generation), append(releases, c.release)
		}
	}
	if len(ids) == 0 {
		return answers, nil
	}
	return answers, l.readAnswers(ctx, answers, sqlSkipped, ids, generations, releases)
}

func (l *Log) readAnswers(ctx context.Context, answers map[string]storeAnswer, sql string, args ...any) error {
	rows, err := l.cfg.Pool.Query(ctx, sql, args...)
	if err == nil {
		err = scanAnswers(rows, answers)
	}
	if err != nil {
		return fail(ctx, "store events", err)
	}
	return nil
}

// scanAnswers adds the rows of sqlStore or sqlSkipped to the answers, by stream.
func scanAnswers(rows pgx.Rows, answers map[string]storeAnswer) error {
	var (
		id string
		a  storeAnswer
	)
	_, err := pgx.ForEachRow(rows, []any{&id, &a.stored, &a.cancelled, &a.closed, &a.taken, &a.released, &a.last}, func() error {
		answers[id] = a
		return nil
	})
	return err
}

// storeArgs returns the arguments of sqlStore: whether the commit waits for the disk, and columns of streams, of events and of producers.
func (l *Log) storeArgs(toDisk bool, chunks []*chunk) []any {
	var (
		now                                         = time.Now()
		ids                                         []string
		generations, lasts, behind, reserves        []int64
		releases, watched                           []bool
		eventStreams, eventProducers, bodies        []string
		indices, epochs                             []int64
		tokens                                      []*string
		producerStreams, producers, producerBatches []string
		producerEpochs                              []int64
		wroteFrom                                   []zeronull.Int8
	)
	for _, c := range chunks {
		ids, generations, lasts = append(ids, c.s.id), append(generations, c.s.generation), append(lasts, c.last)
		behind = append(behind, c.behind)
		reserves, releases, watched = append(reserves, c.reserved), append(releases, c.release), append(watched, c.release || l.isWatched(c.s.id, now))
		for i := range c.rows {
			r := &c.rows[i]
			eventStreams, indices, eventProducers = append(eventStreams, c.s.id), append(indices, r.index), append(eventProducers, r.producer)
			epochs, tokens, bodies = append(epochs, r.epoch), append(tokens, r.tokens), append(bodies, string(r.body))
		}
		for i := range c.began {
			p := &c.began[i]
			producerStreams, producers, producerEpochs = append(producerStreams, c.s.id), append(producers, p.Producer), append(producerEpochs, p.Epoch)
			wroteFrom, producerBatches = append(wroteFrom, zeronull.Int8(p.WroteFrom)), append(producerBatches, p.Batches)
		}
	}
	return []any{
		toDisk, ids, generations, lasts, reserves, releases, watched, eventStreams, indices, eventProducers, epochs, tokens, bodies,
		producerStreams, producers, producerEpochs, wroteFrom, producerBatches, l.owner, behind,
	}
}
