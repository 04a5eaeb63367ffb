package pgstream

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// writeLook is how often the writer looks for what is due, while there is something to store.
	writeLook = 10 * time.Millisecond
	// Bounds of one statement of the writer. One stream may exceed them by a batch.
	maxWriteRows  = 5000
	maxWriteBytes = 16 << 20
)

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

// markDirty notes that something of a stream is not stored.
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

// storeNow makes the writer look at a stream at once.
func (l *Log) storeNow(s *live) {
	l.markDirty(s)
	l.kickWriter()
}

// write stores the pending events of this process's streams, until ctx ends. Then it releases all streams.
func (l *Log) write(ctx context.Context) {
	look := time.NewTimer(time.Hour)
	defer look.Stop()
	failures := outagePauses()
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

// storeDue stores everything that is due, with as many statements as needed.
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
	case s.taken:
		return nil, false
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
	return s.nextChunkLocked(), false
}

// nextChunkLocked returns all that is not stored of a stream, and notes that it is being sent.
func (s *live) nextChunkLocked() *chunk {
	c := &chunk{s: s, behind: s.stored, last: s.last, reserved: s.reserved, release: s.state == releasing, bytes: s.unstored}
	if s.last > s.reserved-reserveIndices/2 {
		c.reserved, c.extends = s.last+reserveIndices, true
	}
	if pending := s.last - s.stored; pending > 0 {
		c.rows = mergeRows(s.tail[max(0, len(s.tail)-int(min(pending, int64(len(s.tail))))):], s.stored)
	}
	for name, p := range s.producers {
		if p.dirty || c.release {
			c.began = append(c.began, storedProducer{Producer: name, Epoch: int64(p.epoch), WroteFrom: p.wroteFrom, Batches: p.batches.String()})
			p.dirty = false
		}
	}
	s.sending, s.urgent, s.dirtySince = c, false, time.Time{}
	return c
}

// store sends chunks to the database and applies the result to their streams.
func (l *Log) store(ctx context.Context, chunks []*chunk) error {
	answers, err := l.storeOnce(ctx, chunks)
	switch {
	case err != nil && (agent.CodeOf(err) == agent.CodeUnavailable || ctx.Err() != nil):
		return err
	case err != nil && len(chunks) > 1: // one by one, to find the stream at fault
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

// applyAnswer updates a stream by the database's result for its chunk.
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
	if s.sending != c { // the stream was lost meanwhile
		s.mu.Unlock()
		return
	}
	s.cancelled = s.cancelled || a.cancelled
	if !a.stored {
		s.urgent, s.dirtySince = true, time.Now()
		again := a.last == c.behind || a.last == c.last // its row was locked for a moment
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

// rewindLocked goes back to an index after which the database has lost the events, so that they are stored again. It reports whether memory still
// has them.
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
