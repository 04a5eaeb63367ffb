package pgstream

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
)

const (
	// marksEvery is how often an owner looks whether its streams were cancelled, closed or taken.
	marksEvery = 400 * time.Millisecond
	// idleAfter is how long a stream stays with an owner whose producers are silent. Producers at work touch it every 250 ms.
	idleAfter = time.Second
	// watchedFlush is how long events of a stream wait that other processes follow.
	watchedFlush = 20 * time.Millisecond
	// watchersFor is how long a process counts as a follower of a stream after it announced that. It repeats it with every poll.
	watchersFor = 10 * time.Second
	// maxWatched bounds the streams that are known to be followed elsewhere. Followers of further streams notice events with their next poll.
	maxWatched = 100_000
)

const sqlMarks = `
	SELECT h.stream_id, coalesce(s.cancelled, false), s.closed_at IS NOT NULL, s.generation IS DISTINCT FROM h.generation
	FROM unnest($1::text[], $2::bigint[], $3::boolean[]) AS h (stream_id, generation, cancelled) LEFT JOIN streams s USING (stream_id)
	WHERE s.cancelled > h.cancelled OR s.closed_at IS NOT NULL OR s.generation IS DISTINCT FROM h.generation`

// keepOwned reads the marks of the streams that this process owns and releases idle ones, until ctx ends.
func (l *Log) keepOwned(ctx context.Context) {
	for pause(ctx, marksEvery) {
		streams := l.owned()
		if err := l.readMarks(ctx, slices.DeleteFunc(slices.Clone(streams), (*live).hasEnded)); err != nil && ctx.Err() == nil {
			l.cfg.Logger.Debug("look for cancelled streams", zap.Error(err))
		}
		now := time.Now()
		for _, s := range streams {
			switch {
			case !s.isIdle(now):
			case s.hasEnded():
				l.forget(s)
			default:
				l.startRelease(s)
			}
		}
		l.forgetWatchers(now)
	}
}

// owned lists the streams that this process owns, or has ended a moment ago.
func (l *Log) owned() []*live {
	l.liveMu.RLock()
	defer l.liveMu.RUnlock()
	return slices.Collect(maps.Values(l.streams))
}

// readMarks notes which streams were cancelled, closed or taken.
func (l *Log) readMarks(ctx context.Context, streams []*live) error {
	for part := range slices.Chunk(streams, pollStreams) {
		var (
			ids         = make([]string, len(part))
			generations = make([]int64, len(part))
			cancelled   = make([]bool, len(part))
			byID        = make(map[string]*live, len(part))
		)
		for i, s := range part {
			ids[i], generations[i], cancelled[i] = s.id, s.generation, s.isCancelled()
			byID[s.id] = s
		}
		if err := l.readMarksOnce(ctx, byID, ids, generations, cancelled); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) readMarksOnce(ctx context.Context, streams map[string]*live, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := l.cfg.Pool.Query(ctx, sqlMarks, args...)
	if err != nil {
		return fail(ctx, "look for marks", err)
	}
	var (
		id                       string
		cancelled, closed, taken bool
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &cancelled, &closed, &taken}, func() error {
		s := streams[id]
		if cancelled {
			s.cancel()
		}
		if (closed || taken) && !s.isReleasing() {
			l.lose(s, !closed)
		}
		return nil
	})
	return err
}

func (s *live) cancel() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = s.cancelled || s.state != ended
}

func (s *live) isCancelled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cancelled
}

// isReleasing reports whether the stream is being released, or was.
func (s *live) isReleasing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state != owned
}

// isIdle reports whether no producer here has written for a while, and nobody is about to end the stream.
func (s *live) isIdle(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.state == owned || s.state == ended) && now.Sub(s.usedAt) > idleAfter
}

func (s *live) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state == ended
}

// startRelease makes the writer store what is left of a stream and give it up.
func (l *Log) startRelease(s *live) {
	s.release()
	l.storeNow(s)
}

// noteWatcher records that another process follows a stream in the database, and notifies it of what is stored already.
func (l *Log) noteWatcher(process, id string) {
	l.watchersMu.Lock()
	if known := l.watchers[id]; known != nil {
		known[process] = time.Now()
	} else if len(l.watchers) < maxWatched {
		l.watchers[id] = map[string]time.Time{process: time.Now()}
	}
	l.watchersMu.Unlock()
	if s := l.lookup(id); s != nil {
		s.mu.Lock()
		stored := s.stored
		s.mu.Unlock()
		l.announcer.add(id, stored)
	}
}

// isWatched reports whether another process follows a stream, or may have announced it while this process did not listen.
func (l *Log) isWatched(id string, now time.Time) bool {
	if !l.Listening() {
		return true
	}
	if again := l.listenedAgain.Load(); again > 0 && now.Sub(time.Unix(0, again)) < l.watchPatience() {
		return true
	}
	l.watchersMu.Lock()
	defer l.watchersMu.Unlock()
	for _, at := range l.watchers[id] {
		if now.Sub(at) < l.watchPatience() {
			return true
		}
	}
	return false
}

// forgetWatcher removes a process that now follows a stream through the relay.
func (l *Log) forgetWatcher(process, id string) {
	l.watchersMu.Lock()
	defer l.watchersMu.Unlock()
	if delete(l.watchers[id], process); len(l.watchers[id]) == 0 {
		delete(l.watchers, id)
	}
}

func (l *Log) forgetWatchers(now time.Time) {
	l.watchersMu.Lock()
	defer l.watchersMu.Unlock()
	for id, processes := range l.watchers {
		maps.DeleteFunc(processes, func(_ string, at time.Time) bool { return now.Sub(at) > l.watchPatience() })
		if len(processes) == 0 {
			delete(l.watchers, id)
		}
	}
}

// watchPatience is how long a process counts as a follower without announcing it again.
func (l *Log) watchPatience() time.Duration { return max(watchersFor, 3*l.cfg.Poll) }

// interval is how long events of a stream may wait to be stored.
func (l *Log) interval(id string, now time.Time) time.Duration {
	if l.isWatched(id, now) {
		return min(watchedFlush, l.cfg.Flush)
	}
	return l.cfg.Flush
}

// foreign returns the followed streams that are read from the database: this process does not own them, and no relay delivers them.
func (l *Log) foreign(ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		m := l.mirrors.lookup(id)
		return l.lookup(id) != nil || m != nil && !m.isOver()
	})
}
