package postgres

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/turnstone-run/turnstone/internal/pglisten"
)

const catalogChannel = "turnstone_catalog"

// ListenCatalog calls wake whenever the catalog may have changed: after a notification, after each connection, the first one
// included, and when neither happened for [Config.CatalogPoll], also while there is no connection. It makes one call at a time;
// however many notifications come during a call, one more call follows. It returns when ctx ends, its connection closed.
func (s *Store) ListenCatalog(ctx context.Context, wake func()) {
	changed := make(chan struct{}, 1)
	signal := func() {
		select {
		case changed <- struct{}{}:
		default: // a signal waits already
		}
	}
	l := pglisten.Listener{
		Pool: s.pool, Channels: []string{catalogChannel}, Logger: s.cfg.Logger,
		Begin: signal, Notify: func(*pgconn.Notification) { signal() },
	}
	var listening sync.WaitGroup
	listening.Go(func() { l.Run(ctx, nil) })
	defer listening.Wait()
	timer := time.NewTimer(jitter(s.cfg.CatalogPoll))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C:
		}
		if ctx.Err() != nil {
			return
		}
		wake()
		timer.Reset(jitter(s.cfg.CatalogPoll))
	}
}

// jitter returns d ± 20 %, so that processes started together do not poll together.
func jitter(d time.Duration) time.Duration {
	return d - d/5 + rand.N(2*d/5+1)
}
