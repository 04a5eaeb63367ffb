package pgstream

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/pglisten"
)

// pollStreams is how many streams one poll query asks for.
const pollStreams = 1000

// newListener returns the listener of a log. Its connection holds a lock with the process's name, by which other processes see that this one is
// alive.
func (l *Log) newListener() *pglisten.Listener {
	again := false
	return &pglisten.Listener{
		Pool: l.cfg.Pool, Channels: []string{streamsChannel, eventsChannel}, Notify: l.handleNotification, Logger: l.cfg.Logger,
		Prepare: func(ctx context.Context, conn *pgx.Conn) error {
			_, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared(hashtextextended($1, 21))", l.owner)
			return err
		},
		Begin: func() {
			l.hub.resync() // notifications may have been missed
			if again {
				l.listenedAgain.Store(time.Now().UnixNano())
			}
			again = true
			l.listening.Store(true)
		},
		End: func() { l.listening.Store(false) },
	}
}

// Listening reports whether the listening connection is open. Without it followers poll.
func (l *Log) Listening() bool { return l.listening.Load() }

// handleNotification acts on a notification.
func (l *Log) handleNotification(n *pgconn.Notification) {
	if n.Channel == eventsChannel {
		if stream, index, ok := parseNotification(n.Payload); ok {
			l.hub.advance(stream, index)
		}
		return
	}
	said, rest, _ := strings.Cut(n.Payload, " ")
	switch said {
	case askRelease:
		if s := l.lookup(rest); s != nil {
			l.startRelease(s)
		}
	case sayWatch:
		if process, stream, ok := strings.Cut(rest, " "); ok && process != l.owner {
			l.noteWatcher(process, stream)
		}
	}
}

// parseNotification reads <stream_id>:<index>; a stream id may hold colons.
func parseNotification(payload string) (stream string, index int64, ok bool) {
	i := strings.LastIndexByte(payload, ':')
	if i <= 0 {
		return "", 0, false
	}
	index, err := strconv.ParseInt(payload[i+1:], 10, 64)
	return payload[:i], index, err == nil && index > 0
}

// poll asks for the newest index of every followed stream, in case a notification was missed.
func (l *Log) poll(ctx context.Context) {
	for pause(ctx, jitter(l.cfg.Poll)) {
		for ids := range slices.Chunk(l.hub.streams(), pollStreams) {
			l.announcer.watch(l.foreign(ids)...)
			if err := l.pollOnce(ctx, ids); err != nil {
				l.cfg.Logger.Debug("poll for events", zap.Error(err))
				break
			}
		}
	}
}

func (l *Log) pollOnce(ctx context.Context, ids []string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	rows, err := l.cfg.Pool.Query(ctx, sqlNewest, ids)
	if err != nil {
		return err
	}
	var (
		id     string
		newest int64
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &newest}, func() error {
		l.hub.advance(id, newest)
		return nil
	})
	return err
}

// pause waits for d, and reports whether ctx was still alive then.
func pause(ctx context.Context, d time.Duration) bool {
	if d == backoff.Stop {
		d = time.Second
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jitter returns d ± 20 %, so that processes started together do not poll together.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}
