// Package pglisten keeps a PostgreSQL connection that listens for notifications, and replaces it when it breaks.
package pglisten

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
)

const (
	defaultQuiet = 15 * time.Second
	callTimeout  = 10 * time.Second // of connecting, and of checking a connection
	closeTimeout = time.Second
)

// Listener listens to channels of a database. It calls its functions one at a time.
type Listener struct {
	Pool     *pgxpool.Pool                          // makes the connections, which do not count towards its size
	Channels []string                               // names that need no quotes
	Prepare  func(context.Context, *pgx.Conn) error // called for a connection before it listens; may be nil
	Notify   func(*pgconn.Notification)             // called for each notification
	Begin    func()                                 // called when a connection listens; earlier notifications were missed; may be nil
	End      func()                                 // called when the connection is lost; may be nil
	Logger   *zap.Logger

	Quiet time.Duration // time without a notification after which a connection is checked; 0: 15 s
}

// Connect returns a listening connection, for [Listener.Run].
func (l *Listener) Connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pooled, err := l.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	conn := pooled.Hijack()
	if l.Prepare != nil {
		err = l.Prepare(ctx, conn)
	}
	for _, channel := range l.Channels {
		if err == nil {
			_, err = conn.Exec(ctx, "LISTEN "+channel)
		}
	}
	if err != nil {
		return nil, errors.Join(err, Close(conn))
	}
	return conn, nil
}

// Close closes a connection within a second.
func Close(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return conn.Close(ctx)
}

// Run listens until ctx ends: first on conn, unless it is nil, and on a new connection whenever the last one was lost.
func (l *Listener) Run(ctx context.Context, conn *pgx.Conn) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval = 50 * time.Millisecond
	retry.MaxInterval = 2 * time.Second
	for {
		var err error
		if conn == nil {
			conn, err = l.Connect(ctx)
		}
		if err == nil {
			retry.Reset()
			l.use(ctx, conn)
			conn = nil
		} else {
			l.Logger.Debug("listen for notifications", zap.Strings("channels", l.Channels), zap.Error(err))
		}
		select {
		case <-time.After(retry.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}

// use listens on a connection until it is lost or ctx ends, and closes it.
func (l *Listener) use(ctx context.Context, conn *pgx.Conn) {
	if l.Begin != nil {
		l.Begin()
	}
	err := l.receive(ctx, conn)
	if l.End != nil {
		l.End()
	}
	if closeErr := Close(conn); closeErr != nil {
		l.Logger.Debug("close listening connection", zap.Strings("channels", l.Channels), zap.Error(closeErr))
	}
	if ctx.Err() == nil {
		l.Logger.Warn("listening connection lost; polling meanwhile", zap.Strings("channels", l.Channels), zap.Error(err))
	}
}

// receive passes notifications to Notify until the connection is lost or ctx ends.
func (l *Listener) receive(ctx context.Context, conn *pgx.Conn) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, cmp.Or(l.Quiet, defaultQuiet))
		n, err := conn.WaitForNotification(bounded)
		cancel()
		switch {
		case err == nil:
			l.Notify(n)
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
