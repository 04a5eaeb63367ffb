package pgstream

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
)

const (
	// quiet is how long the listening connection may say nothing before it is asked whether it is still there.
	quiet = 15 * time.Second
	// pollStreams is how many streams one poll query asks for.
	pollStreams = 1000
)

// listen makes the listening connection. It is made by the pool, and so as the pool's owner wants it, and taken out of it. While it stands, it
// holds a lock of the process's name, by which others see that this process is alive.
func listen(ctx context.Context, pool *pgxpool.Pool, process string) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	acquired, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	conn := acquired.Hijack()
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock_shared(hashtextextended($1, 21))", process); err != nil {
		return nil, errors.Join(err, hangUp(conn))
	}
	if _, err := conn.Exec(ctx, "LISTEN "+streamsChannel+"; LISTEN "+eventsChannel); err != nil {
		return nil, errors.Join(err, hangUp(conn))
	}
	return conn, nil
}

func hangUp(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return conn.Close(ctx)
}

// receive hands notifications to the hub until ctx ends, over a new connection whenever the last one broke.
func (l *Log) receive(ctx context.Context, conn *pgx.Conn) {
	patience := impatient()
	for {
		if conn != nil {
			patience.Reset()
			l.hub.resync() // for what was said while nobody listened
			l.listening.Store(true)
			err := l.drain(ctx, conn)
			l.listening.Store(false)
			if closeErr := hangUp(conn); closeErr != nil {
				l.cfg.Logger.Debug("close listening connection", zap.Error(closeErr))
			}
			if ctx.Err() != nil {
				return
			}
			l.cfg.Logger.Warn("listening connection lost; polling meanwhile", zap.Error(err))
		}
		if !pause(ctx, patience.NextBackOff()) {
			return
		}
		var err error
		if conn, err = listen(ctx, l.cfg.Pool, l.owner); err != nil {
			conn = nil
			l.cfg.Logger.Debug("listen again", zap.Error(err))
			continue
		}
		l.listenedAgain.Store(time.Now().UnixNano())
		l.cfg.Logger.Info("listening again")
	}
}

// Listening reports whether the listening connection stands. Without it followers poll.
func (l *Log) Listening() bool { return l.listening.Load() }

// drain handles notifications until the connection breaks.
func (l *Log) drain(ctx context.Context, conn *pgx.Conn) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, quiet)
		n, err := conn.WaitForNotification(bounded)
		cancel()
		switch {
		case err == nil:
			l.handleNotification(n)
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		default:
			bounded, cancel := context.WithTimeout(ctx, callTimeout)
			err := conn.Ping(bounded)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

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
		l.startRelease(rest)
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

// poll asks for the newest index of everything that is followed, in case a notification was missed.
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

// pause reports whether it waited to the end.
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
