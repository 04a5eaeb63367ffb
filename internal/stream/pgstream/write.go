package pgstream

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream"
)

const (
	// writeLook is how often the writer looks for what is due, while there is something to store.
	writeLook = 10 * time.Millisecond
	// Bounds of one statement of the writer. One stream may exceed them by a batch.
	maxWriteRows  = 5000
	maxWriteBytes = 16 << 20
	// Bounds of one row of several tokens.
	maxRowTokens = 1000
	maxRowBytes  = 64 << 10
)

// sqlStore stores what the owner of streams has gathered, for all of them at once. A stream that is locked is left for the next time, one that
// has been taken or closed is told so, as is one whose newest event is not the one that it should be: the database has crashed and lost what
// was not on disk. It does not wait for the disk unless indices are reserved ($1).
const sqlStore = `
WITH durability AS (
	SELECT set_config('synchronous_commit', CASE WHEN $1 THEN 'on' ELSE 'off' END, true)
), head AS (
	SELECT h.* FROM durability, unnest($2::text[], $3::bigint[], $4::bigint[], $20::bigint[], $5::bigint[], $6::boolean[], $7::boolean[])
		AS h (stream_id, generation, last_index, behind, reserved, release, watched)
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
SELECT h.stream_id, m.stream_id IS NOT NULL, coalesce(m.cancelled, s.cancelled, false), s.closed_at IS NOT NULL,
	s.generation IS DISTINCT FROM h.generation, h.release AND s.owner IS NULL, coalesce(s.last_index, 0)
FROM told, head h LEFT JOIN moved m USING (stream_id) LEFT JOIN streams s USING (stream_id)`

// chunk is what the writer stores of one stream with one statement. It stays as it is until the database has answered.
type chunk struct {
	s        *live
	behind   int64 // index of the event before the first row
	last     int64 // index of the newest event
	reserved int64
	extends  bool // reserved goes up
	release  bool
	bytes    int // as counted by the stream's bound
	rows     []row
	began    []storedProducer
}

// row is one row of the table events.
type row struct {
	index    int64 // of the last event in it
	producer string
	epoch    int64
	tokens   *string // as PostgreSQL writes an array
	body     []byte
}

// markDirty hands a stream to the writer.
func (l *Log) markDirty(s *live) {
	l.dirtyMu.Lock()
	_, known := l.dirty[s]
	if !known {
		l.dirty[s] = struct{}{}
	}
	first := !known && len(l.dirty) == 1
	l.dirtyMu.Unlock()
	if first {
		l.kickWriter()
	}
}

// kickWriter makes the writer look at once.
func (l *Log) kickWriter() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// write stores what this process's streams have gathered, until ctx ends. Then it gives all of them up.
func (l *Log) write(ctx context.Context) {
	look := time.NewTimer(time.Hour)
	defer look.Stop()
	failures := impatient()
	for {
		select {
		case <-l.kick:
		case <-look.C:
		case <-ctx.Done():
			l.releaseAll(context.WithoutCancel(ctx))
			return
		}
		if err := l.storeDue(ctx); err != nil && ctx.Err() == nil {
			l.cfg.Logger.Warn("store events; live viewers go on", zap.Error(err))
			pause(ctx, failures.NextBackOff())
		} else {
			failures.Reset()
		}
		l.dirtyMu.Lock()
		left := len(l.dirty)
		l.dirtyMu.Unlock()
		if left > 0 {
			look.Reset(writeLook)
		}
	}
}

// storeDue stores what is due, with as many statements as it takes.
func (l *Log) storeDue(ctx context.Context) error {
	for more := true; more; {
		var chunks []*chunk
		if chunks, more = l.gather(time.Now()); len(chunks) == 0 {
			return nil
		}
		if err := l.store(ctx, chunks); err != nil {
			return err
		}
	}
	return nil
}

// gather returns what is to be stored now: what somebody waits for, and what has waited long enough. more reports that one statement cannot
// hold it all.
func (l *Log) gather(now time.Time) (chunks []*chunk, more bool) {
	l.dirtyMu.Lock()
	dirty := make([]*live, 0, len(l.dirty))
	for s := range l.dirty {
		dirty = append(dirty, s)
	}
	l.dirtyMu.Unlock()
	rows, bytes := 0, 0
	for _, s := range dirty {
		if more = rows >= maxWriteRows || bytes >= maxWriteBytes; more {
			break
		}
		c, clean := s.chunk(now, l.interval(s.id, now))
		if clean {
			l.markClean(s)
		}
		if c != nil {
			chunks = append(chunks, c)
			rows, bytes = rows+len(c.rows), bytes+c.bytes
		}
	}
	slices.SortFunc(chunks, func(a, b *chunk) int { return cmp.Compare(a.s.id, b.s.id) })
	return chunks, more
}

func (l *Log) markClean(s *live) {
	l.dirtyMu.Lock()
	defer l.dirtyMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dirtySince.IsZero() {
		delete(l.dirty, s)
	}
}

// chunk returns what is to be stored of a stream, nil if nothing is due. clean reports that there is nothing to store.
func (s *live) chunk(now time.Time, interval time.Duration) (c *chunk, clean bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.sending != nil: // it failed, and goes again as it was
		return s.sending, false
	case s.state == released, s.state == lost:
		s.dirtySince = time.Time{}
		return nil, true
	case s.dirtySince.IsZero():
		return nil, true
	case !s.urgent && now.Sub(s.dirtySince) < interval:
		return nil, false
	}
	c = &chunk{s: s, behind: s.stored, last: s.last, reserved: s.reserved, release: s.state == releasing, bytes: s.unstored}
	if s.last > s.reserved-reserveIndices/2 {
		c.reserved, c.extends = s.last+reserveIndices, true
	}
	if pending := s.last - s.stored; pending > 0 {
		c.rows = mergeRows(s.tail[max(0, len(s.tail)-int(min(pending, int64(len(s.tail))))):], s.stored)
	}
	for name, p := range s.producers {
		if p.dirty {
			c.began = append(c.began, storedProducer{Producer: name, Epoch: int64(p.epoch), WroteFrom: p.wroteFrom, Batches: p.batches.String()})
			p.dirty = false
		}
	}
	s.sending, s.urgent, s.dirtySince = c, false, time.Time{}
	return c, false
}

// mergeRows makes rows of the events behind an index: neighbouring tokens of one producer share one.
func mergeRows(events []agent.Event, after int64) []row {
	var rows []row
	for i := 0; i < len(events); {
		if events[i].Meta.EventIndex <= after {
			i++
			continue
		}
		j, size := i+1, len(events[i].Text)
		for j < len(events) && j-i < maxRowTokens && size+len(events[j].Text) <= maxRowBytes && sharesRow(&events[i], &events[j]) {
			size += len(events[j].Text)
			j++
		}
		rows = append(rows, newRow(events[i:j]))
		i = j
	}
	return rows
}

func sharesRow(a, b *agent.Event) bool {
	return a.Type == agent.EventToken && b.Type == agent.EventToken && a.Meta.Producer == b.Meta.Producer && a.Meta.Attempt == b.Meta.Attempt &&
		a.Meta.TurnID == b.Meta.TurnID && a.Meta.AgentInstanceID == b.Meta.AgentInstanceID
}

func newRow(events []agent.Event) row {
	e := events[0]
	r := row{index: events[len(events)-1].Meta.EventIndex, producer: e.Meta.Producer, epoch: e.Meta.Attempt}
	if len(events) > 1 {
		var text strings.Builder
		list := []byte{'{'}
		for i := range events {
			if i > 0 {
				list = append(list, ',')
			}
			list = strconv.AppendInt(list, int64(len(events[i].Text)), 10)
			list = append(list, ',')
			list = strconv.AppendInt(list, min(events[i].Meta.Time.Sub(e.Meta.Time).Microseconds(), math.MaxInt32), 10)
			text.WriteString(events[i].Text)
		}
		tokens := string(append(list, '}'))
		e.Text, r.tokens = text.String(), &tokens
	}
	body, err := stream.Encode(&e)
	if err != nil { // no: it was checked when it came in
		body = []byte("null")
	}
	r.body = body
	return r
}

// store sends chunks to the database and tells their streams what became of them.
func (l *Log) store(ctx context.Context, chunks []*chunk) error {
	answers, err := l.storeOnce(ctx, chunks)
	switch {
	case err != nil && (agent.CodeOf(err) == agent.CodeUnavailable || ctx.Err() != nil):
		return err
	case err != nil && len(chunks) > 1: // whose fault it is shows when they go one by one
		for _, c := range chunks {
			if err := l.store(ctx, []*chunk{c}); err != nil {
				return err
			}
		}
		return nil
	case err != nil:
		l.cfg.Logger.Error("events cannot be stored; their producers have to begin again", zap.String("stream", chunks[0].s.id), zap.Error(err))
		l.lose(chunks[0].s, true)
		return l.call(ctx, "give up a stream", sqlTake, []any{chunks[0].s.id}, nil)
	}
	for _, c := range chunks {
		l.applyAnswer(c, answers[c.s.id])
	}
	return nil
}

// storeAnswer is what the database says of a stream.
type storeAnswer struct {
	stored, cancelled, closed, taken bool
	released                         bool  // by an earlier try, whose answer was lost
	last                             int64 // index of the newest event that is stored
}

// applyAnswer updates a stream by what the database said of its chunk.
func (l *Log) applyAnswer(c *chunk, a storeAnswer) {
	s := c.s
	if !a.stored && !a.taken {
		a.stored = a.released && !a.closed
	}
	if !a.stored && (a.closed || a.taken) {
		l.lose(s, !a.closed)
		return
	}
	s.mu.Lock()
	s.cancelled = s.cancelled || a.cancelled
	if !a.stored {
		s.urgent, s.dirtySince = true, time.Now()
		again := a.last == c.behind || a.last == c.last // somebody has locked it for a moment
		gone := !again && !s.rewindLocked(a.last)
		s.mu.Unlock()
		if gone {
			l.lose(s, true)
			return
		}
		l.markDirty(s)
		return
	}
	for i := range c.began {
		p := s.producers[c.began[i].Producer]
		p.stored = agent.Epoch(c.began[i].Epoch)
	}
	s.sending = nil
	s.stored, s.reserved = c.last, c.reserved
	s.unstored -= c.bytes
	l.unstored.Add(-int64(c.bytes))
	over := c.release
	if over {
		s.state = released
	}
	s.trimLocked()
	s.wakeLocked()
	s.mu.Unlock()
	if over {
		l.forget(s)
	}
}

// rewindLocked goes back to an index behind which the database has lost everything, so that it is stored again. It reports whether memory
// still has what is lost.
func (s *live) rewindLocked(index int64) bool {
	if index < s.floor {
		return false
	}
	s.sending, s.stored = nil, index
	for _, p := range s.producers {
		p.dirty = true
	}
	return true
}

// forget lets go of a stream that is not this process's any more. Its followers read the database from here on.
func (l *Log) forget(s *live) {
	l.liveMu.Lock()
	if l.streams[s.id] == s {
		delete(l.streams, s.id)
	}
	l.liveMu.Unlock()
	l.dirtyMu.Lock()
	delete(l.dirty, s)
	l.dirtyMu.Unlock()
	if l.hub.refresh(s.id) {
		l.announcer.watch(s.id)
	}
}

// lose ends the ownership of a stream that was taken or closed. Its producers are fenced: what they have shown may be void.
func (l *Log) lose(s *live, fence bool) {
	s.mu.Lock()
	if s.state != lost {
		l.unstored.Add(-int64(s.unstored))
	}
	s.state, s.sending, s.unstored = lost, nil, 0
	fences := make([]agent.Fence, 0, len(s.producers))
	for name, p := range s.producers {
		fences = append(fences, agent.Fence{StreamID: s.id, Producer: name, Epoch: p.epoch})
	}
	s.wakeLocked()
	s.mu.Unlock()
	if fence {
		l.lostMu.Lock()
		for _, f := range fences {
			l.lostFences.Add(f, struct{}{})
		}
		l.lostMu.Unlock()
	}
	l.forget(s)
}

// isLost reports whether a fence was given by an owner that has lost the stream.
func (l *Log) isLost(f agent.Fence) bool {
	l.lostMu.Lock()
	defer l.lostMu.Unlock()
	return l.lostFences.Contains(f)
}

func (l *Log) storeOnce(ctx context.Context, chunks []*chunk) (map[string]storeAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := l.cfg.Pool.Query(ctx, sqlStore, l.storeArgs(chunks)...)
	if err != nil {
		return nil, fail(ctx, "store events", err)
	}
	answers := make(map[string]storeAnswer, len(chunks))
	var (
		id string
		a  storeAnswer
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &a.stored, &a.cancelled, &a.closed, &a.taken, &a.released, &a.last}, func() error {
		answers[id] = a
		return nil
	})
	if err != nil {
		return nil, fail(ctx, "store events", err)
	}
	return answers, nil
}

// storeArgs returns the arguments of sqlStore: columns of streams, of events and of producers.
func (l *Log) storeArgs(chunks []*chunk) []any {
	var (
		now                                         = time.Now()
		extends                                     bool
		ids                                         []string
		generations, lasts, behind, reserves        []int64
		releases, watched                           []bool
		eventStreams, eventProducers, bodies        []string
		indices, epochs                             []int64
		tokens                                      []*string
		producerStreams, producers, producerBatches []string
		producerEpochs                              []int64
		wroteFrom                                   []*int64
	)
	for _, c := range chunks {
		extends = extends || c.extends
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
			from := &p.WroteFrom
			if p.WroteFrom == 0 {
				from = nil
			}
			wroteFrom, producerBatches = append(wroteFrom, from), append(producerBatches, p.Batches)
		}
	}
	return []any{
		extends, ids, generations, lasts, reserves, releases, watched, eventStreams, indices, eventProducers, epochs, tokens, bodies,
		producerStreams, producers, producerEpochs, wroteFrom, producerBatches, l.owner, behind,
	}
}

// releaseAll gives every stream up, when the log stops.
func (l *Log) releaseAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	streams := l.owned()
	for _, s := range streams {
		if s.release() {
			l.forget(s)
			continue
		}
		l.markDirty(s)
	}
	var err error
	for len(l.owned()) > 0 && ctx.Err() == nil { // what was on its way goes first
		if err = l.storeDue(ctx); err != nil {
			break
		}
		pause(ctx, writeLook)
	}
	if left := len(l.owned()); left > 0 {
		l.cfg.Logger.Warn("store events at the end; what was not stored is lost", zap.Int("streams", left), zap.Error(err))
	}
}
