package pgstream_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
)

// watch keeps what it is told.
type watch struct {
	mu        sync.Mutex
	appended  int
	lags      []time.Duration
	followers int
	most      int
	peers     int
}

func (w *watch) Appended(events int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.appended += events
}

func (w *watch) Delivered(lag time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lags = append(w.lags, lag)
}

func (w *watch) Followers(change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.followers += change
	w.most = max(w.most, w.followers)
}

func (w *watch) Peers(change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.peers += change
}

func (w *watch) seen() watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	return watch{appended: w.appended, lags: slices.Clone(w.lags), followers: w.followers, most: w.most, peers: w.peers}
}

// What was there before a follower came is no lag, and neither is the time that a slow one takes for itself.
func TestWatch(t *testing.T) {
	w := &watch{}
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{Watch: w})
	f := begin(t, log, "s1", "model/1")
	_, err := log.Append(t.Context(), f, 1, []agent.Event{{Type: agent.EventToken, Text: "a"}, {Type: agent.EventToken, Text: "b"}})
	require.NoError(t, err)
	old := `UPDATE events SET event = replace(event::text, left(event -> 'meta' ->> 'time', 4), '2001')::json WHERE stream_id = 's1'`
	exec(t, pool, old)

	n := 0
	for _, err := range log.Follow(t.Context(), "s1", 0) {
		require.NoError(t, err)
		switch n++; n {
		case 1:
			require.Equal(t, 1, w.seen().followers)
		case 2: // while the follower is busy
			appendText(t, log, f, 2, "c")
			exec(t, pool, old)
		case 3:
			require.NoError(t, log.Close(t.Context(), "s1", completed))
		}
	}
	got := w.seen()
	require.Equal(t, 4, got.appended)
	require.Equal(t, []int{0, 1}, []int{got.followers, got.most})
	require.Len(t, got.lags, 3, "one of each page")
	for _, lag := range got.lags {
		require.GreaterOrEqual(t, lag, time.Duration(0))
		require.Less(t, lag, time.Hour, "an event of 2001 is late by what it was waited for")
	}
}

// A log that cannot be read is late by as long as that.
func TestWatchMeasuresLag(t *testing.T) {
	w := &watch{}
	pool := newPool(t)
	log := open(t, pool, pgstream.Config{Watch: w})
	require.NoError(t, log.Close(t.Context(), "s1", completed))
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `LOCK TABLE events`)
	require.NoError(t, err)
	var (
		follower sync.WaitGroup
		failure  error
	)
	follower.Go(func() {
		for _, err := range log.Follow(t.Context(), "s1", 0) {
			failure = err
		}
	})
	require.Eventually(t, func() bool {
		var waits bool
		return tx.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)`).Scan(&waits) == nil && waits
	}, patience, 5*time.Millisecond)
	since := time.Now()
	var other int
	require.NoError(t, tx.QueryRow(t.Context(), `SELECT 1 FROM pg_sleep(0.05)`).Scan(&other))
	held := time.Since(since)
	require.NoError(t, tx.Rollback(t.Context()))
	follower.Wait()
	require.NoError(t, failure)
	require.Len(t, w.seen().lags, 1)
	require.GreaterOrEqual(t, w.seen().lags[0], held)
}
