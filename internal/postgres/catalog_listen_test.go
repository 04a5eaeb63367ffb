package postgres_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

const patience = 30 * time.Second

// seldom is a poll that no test waits for, so that notifications have to work.
const seldom = time.Hour

// listen listens until the test ends, before its pool closes. Each wake reads the catalog and offers its revision.
func (b *bench) listen(s *postgres.Store) <-chan int64 {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	revisions, done := make(chan int64, 1000), make(chan struct{})
	var busy atomic.Bool
	go func() {
		defer close(done)
		s.ListenCatalog(ctx, func() {
			if busy.Swap(true) {
				b.t.Error("woken while it was still busy")
			}
			defer busy.Store(false)
			if state, err := s.CatalogSince(ctx, 0); err == nil {
				revisions <- state.Revision
			}
		})
	}()
	b.t.Cleanup(func() {
		cancel()
		<-done
	})
	return revisions
}

// await waits until a revision is seen.
func await(t testing.TB, revisions <-chan int64, want int64) {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case got := <-revisions:
			require.LessOrEqual(t, got, want)
			if got == want {
				return
			}
		case <-timeout:
			require.FailNow(t, "not woken", "for revision %d", want)
		}
	}
}

func change(body string) agent.CatalogCommit {
	return agent.CatalogCommit{Put: []agent.Document{put(agentKey("a"), body)}}
}

const catalogListeners = `FROM pg_stat_activity WHERE query = 'LISTEN turnstone_catalog' AND datname = current_database()`

func (b *bench) awaitListeners(want int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.count("(SELECT 1 "+catalogListeners+") l") == want }, patience, 5*time.Millisecond)
}

func TestListenersAreTold(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: seldom})
	first, second := b.listen(b.Store), b.listen(b.Store)
	await(t, first, 0) // once it is connected
	await(t, second, 0)
	for i := range int64(20) {
		started := time.Now()
		b.commit(change(`1`))
		await(t, first, i+1)
		await(t, second, i+1)
		require.Less(t, time.Since(started), time.Second)
	}
	_, err := b.CommitCatalog(t.Context(), agent.CatalogCommit{At: 7, Put: change(`1`).Put})
	requireCode(t, agent.CodeConflict, err)
	b.commit(change(`1`))
	await(t, first, 21)
	require.Empty(t, first, "a refused commit wakes nobody")
}

// The payload is the revision, for those who listen with other programs.
func TestNotificationNamesTheRevision(t *testing.T) {
	b := newBench(t, postgres.Config{})
	acquired, err := b.pool.Acquire(t.Context())
	require.NoError(t, err)
	conn := acquired.Hijack()
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	_, err = conn.Exec(t.Context(), `LISTEN turnstone_catalog`)
	require.NoError(t, err)
	b.commit(change(`1`))
	b.commit(change(`2`))
	for _, want := range []string{"1", "2"} {
		n, err := conn.WaitForNotification(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, n.Payload)
	}
}

func TestWakesDoNotOverlap(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls, inside atomic.Int64
	entered, proceed, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		b.ListenCatalog(ctx, func() {
			if inside.Add(1) > 1 {
				t.Error("two calls at once")
			}
			defer inside.Add(-1)
			if calls.Add(1) == 1 {
				close(entered)
				<-proceed
			}
		})
	}()
	<-entered
	for range 5 {
		b.commit(change(`1`)) // polls and notifications come while it is busy
	}
	require.EqualValues(t, 1, calls.Load())
	close(proceed)
	require.Eventually(t, func() bool { return calls.Load() > 5 }, patience, time.Millisecond)
	cancel()
	<-done
}

func TestLostCatalogListenerIsReplaced(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: seldom})
	revisions := b.listen(b.Store)
	await(t, revisions, 0)
	for i := range int64(3) {
		b.awaitListeners(1)
		// Cut it, and commit while nobody listens.
		_, err := b.pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) `+catalogListeners)
		require.NoError(t, err)
		b.commit(change(`1`))
		await(t, revisions, i+1)
	}
	b.awaitListeners(1)
	b.commit(change(`1`))
	await(t, revisions, 4)
}

// muted is a store whose commits notify nobody.
func (b *bench) muted() *postgres.Store {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), `CREATE SCHEMA mute; CREATE FUNCTION mute.pg_notify(text, text) RETURNS void LANGUAGE sql AS ''`)
	require.NoError(b.t, err)
	cfg := b.pool.Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = "mute, pg_catalog, public"
	pool, err := pgxpool.NewWithConfig(b.t.Context(), cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	return postgres.NewStore(pool, postgres.Config{})
}

func TestPollRepairsWhatWasMissed(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: 20 * time.Millisecond})
	muted := b.muted()
	revisions := b.listen(b.Store)
	await(t, revisions, 0)
	for at := range int64(3) {
		_, err := muted.CommitCatalog(t.Context(), agent.CatalogCommit{At: at, Put: change(`1`).Put})
		require.NoError(t, err)
		await(t, revisions, at+1)
	}
}

func TestPollGoesOnWithoutAConnection(t *testing.T) {
	server := pgtest.Server(t)
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: server.DSN()})
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	b := &bench{Store: postgres.NewStore(pool, postgres.Config{CatalogPoll: 10 * time.Millisecond}), t: t, pool: pool}
	require.NoError(t, server.Suspend(t.Context()))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wakes, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		b.ListenCatalog(ctx, func() {
			select {
			case wakes <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	for range 3 {
		<-wakes
	}
	cancel()
	<-done

	b.Store = postgres.NewStore(pool, postgres.Config{CatalogPoll: seldom})
	revisions := b.listen(b.Store)
	require.NoError(t, server.Resume(t.Context()))
	await(t, revisions, 0)
	b.commit(change(`1`))
	await(t, revisions, 1)
}

func TestListenEndsWithItsContext(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: seldom})
	b.count("catalog_head") // a connection is there
	before := goleak.IgnoreCurrent()
	ctx, cancel := context.WithCancel(t.Context())
	woken, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		b.ListenCatalog(ctx, func() { woken <- struct{}{} })
	}()
	<-woken
	b.awaitListeners(1)
	cancel()
	<-done
	b.awaitListeners(0)
	require.Zero(t, b.pool.Stat().AcquiredConns())
	require.NoError(t, goleak.Find(before))

	b.ListenCatalog(ctx, func() { t.Error("woken after the end") })
}
