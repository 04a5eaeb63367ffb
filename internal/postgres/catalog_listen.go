package postgres

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
)

const (
	catalogChannel = "turnstone_catalog"

	// quiet is how long a listening connection may say nothing before it is asked whether it is still there.
	quiet = 15 * time.Second
	// listenTimeout bounds the making of a listening connection, and its answer when it is asked.
	listenTimeout = 10 * time.Second
	hangUpTimeout = time.Second
)

// ListenCatalog calls wake whenever the catalog may have changed: after a notification, after each connection, the first one
// included, and when neither happened for [Config.CatalogPoll], also while there is no connection. It makes one call at a time;
// what is heard during a call, however much, is one more. It returns when ctx ends, its connection closed.
//
// The connection comes from the pool but does not count as one of it.
func (s *Store) ListenCatalog(ctx context.Context, wake func()) {
	l := &listener{pool: s.pool, logger: s.cfg.Logger, quiet: quiet, timeout: listenTimeout, heard: make(chan struct{}, 1)}
	l.run(ctx, s.cfg.CatalogPoll, wake)
}

// listener keeps a connection that listens to the catalog's channel.
type listener struct {
	pool    *pgxpool.Pool
	logger  *zap.Logger
	quiet   time.Duration
	timeout time.Duration
	heard   chan struct{} // holds one signal
}

func (l *listener) run(ctx context.Context, poll time.Duration, wake func()) {
	var receiver sync.WaitGroup
	receiver.Go(func() { l.receive(ctx) })
	defer receiver.Wait()
	timer := time.NewTimer(jitter(poll))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.heard:
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		wake()
		timer.Reset(jitter(poll))
	}
}

// receive signals what is heard until ctx ends, over a new connection whenever the last one broke.
func (l *listener) receive(ctx context.Context) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval = 50 * time.Millisecond
	retry.MaxInterval = 2 * time.Second
	for {
		conn, err := l.connect(ctx)
		if err == nil {
			retry.Reset()
			l.signal() // for what was said while nobody listened
			err = l.drain(ctx, conn)
			if closeErr := hangUp(conn); closeErr != nil {
				l.logger.Debug("close the catalog's listening connection", zap.Error(closeErr))
			}
			if ctx.Err() == nil {
				l.logger.Warn("the catalog's listening connection is lost; polling meanwhile", zap.Error(err))
			}
		} else {
			l.logger.Debug("listen to the catalog", zap.Error(err))
		}
		select {
		case <-time.After(retry.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}

// connect has the pool make the connection, and so as the pool's owner wants it, and takes it out of the pool.
func (l *listener) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	acquired, err := l.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	conn := acquired.Hijack()
	if _, err := conn.Exec(ctx, "LISTEN "+catalogChannel); err != nil {
		return nil, errors.Join(err, hangUp(conn))
	}
	return conn, nil
}

func hangUp(conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(context.Background(), hangUpTimeout)
	defer cancel()
	return conn.Close(ctx)
}

// drain signals notifications until the connection breaks.
func (l *listener) drain(ctx context.Context, conn *pgx.Conn) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, l.quiet)
		_, err := conn.WaitForNotification(bounded)
		cancel()
		switch {
		case err == nil:
			l.signal()
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		default:
			bounded, cancel := context.WithTimeout(ctx, l.timeout)
			err := conn.Ping(bounded)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

func (l *listener) signal() {
	select {
	case l.heard <- struct{}{}:
	default: // there is one to look at
	}
}

// jitter returns d ± 20 %, so that processes started together do not poll together.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}
