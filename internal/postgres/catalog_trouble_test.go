package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

const waitTimeout = 30 * time.Second

// neverPoll is a poll interval longer than any test, so that only notifications wake.
const neverPoll = time.Hour

// listen runs ListenCatalog until the test ends, before its pool closes. Each wake reads the catalog and sends its revision.
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

// await waits until a revision is received.
func await(t testing.TB, revisions <-chan int64, want int64) {
	t.Helper()
	timeout := time.After(waitTimeout)
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
	require.Eventually(b.t, func() bool { return b.count("(SELECT 1 "+catalogListeners+") l") == want }, waitTimeout, 5*time.Millisecond)
}

func TestListenersAreTold(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: neverPoll})
	first, second := b.listen(b.Store), b.listen(b.Store)
	await(t, first, 0) // after it has connected
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
	require.Empty(t, first, "a refused commit sends no notification")
}

// Notifications have the revision as payload, for other programs that listen.
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
		b.commit(change(`1`)) // polls and notifications arrive during the call
	}
	require.EqualValues(t, 1, calls.Load())
	close(proceed)
	require.Eventually(t, func() bool { return calls.Load() > 5 }, waitTimeout, time.Millisecond)
	cancel()
	<-done
}

func TestLostCatalogListenerIsReplaced(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: neverPoll})
	revisions := b.listen(b.Store)
	await(t, revisions, 0)
	for i := range int64(3) {
		b.awaitListeners(1)
		// Cut the connection, and commit while there is no listener.
		b.exec(`SELECT pg_terminate_backend(pid) ` + catalogListeners)
		b.commit(change(`1`))
		await(t, revisions, i+1)
	}
	b.awaitListeners(1)
	b.commit(change(`1`))
	await(t, revisions, 4)
}

// storeWithoutNotify returns a store whose commits send no notification.
func (b *bench) storeWithoutNotify() *postgres.Store {
	b.t.Helper()
	b.exec(`CREATE SCHEMA mute; CREATE FUNCTION mute.pg_notify(text, text) RETURNS void LANGUAGE sql AS ''`)
	cfg := b.pool.Config()
	cfg.ConnConfig.RuntimeParams["search_path"] = "mute, pg_catalog, public"
	pool, err := pgxpool.NewWithConfig(b.t.Context(), cfg)
	require.NoError(b.t, err)
	b.t.Cleanup(pool.Close)
	return postgres.NewStore(pool, postgres.Config{})
}

func TestPollFindsMissedCommits(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: 20 * time.Millisecond})
	muted := b.storeWithoutNotify()
	revisions := b.listen(b.Store)
	await(t, revisions, 0)
	for at := range int64(3) {
		_, err := muted.CommitCatalog(t.Context(), agent.CatalogCommit{At: at, Put: change(`1`).Put})
		require.NoError(t, err)
		await(t, revisions, at+1)
	}
}

func TestPollGoesOnWithoutAConnection(t *testing.T) {
	server := postgrestest.Server(t)
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

	b.Store = postgres.NewStore(pool, postgres.Config{CatalogPoll: neverPoll})
	revisions := b.listen(b.Store)
	require.NoError(t, server.Resume(t.Context()))
	await(t, revisions, 0)
	b.commit(change(`1`))
	await(t, revisions, 1)
}

func TestListenEndsWithItsContext(t *testing.T) {
	b := newBench(t, postgres.Config{CatalogPoll: neverPoll})
	b.count("catalog_head") // opens a connection
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

// Of concurrent commits to the same revision one succeeds. Those that retry with the newest revision succeed in the end.
func TestCommitsRace(t *testing.T) {
	const committers = 20
	b := newBench(t, postgres.Config{})
	commit := func(who int, at int64) (int64, error) {
		return b.CommitCatalog(t.Context(), agent.CatalogCommit{
			At: at, By: fmt.Sprint(who), Put: []agent.Document{put(agentKey("same"), fmt.Sprint(who)), put(agentKey(fmt.Sprint(who)), `1`)},
		})
	}
	revisions := make([]int64, committers)
	var won int64
	for who, err := range atOnce(committers, func(who int) (err error) {
		revisions[who], err = commit(who, 0)
		return err
	}) {
		if won += revisions[who]; err != nil {
			requireCode(t, agent.CodeConflict, err)
		}
	}
	require.EqualValues(t, 1, won, "one, with revision 1")
	require.Len(t, b.load().Documents, 2)

	clear(revisions)
	require.NoError(t, errors.Join(atOnce(committers, func(who int) error {
		for revisions[who] == 0 {
			state, err := b.LoadCatalog(t.Context())
			if err != nil {
				return err
			}
			if same := state.Documents[len(state.Documents)-1]; same.Name != "same" || same.Revision != state.Revision {
				return fmt.Errorf("revision %d has %s of revision %d", state.Revision, same.Name, same.Revision)
			}
			if revisions[who], err = commit(100+who, state.Revision); err != nil && agent.CodeOf(err) != agent.CodeConflict {
				return err
			}
		}
		return nil
	})...))
	slices.Sort(revisions)
	for i, revision := range revisions {
		require.EqualValues(t, i+2, revision, "contiguous")
	}
	entries := b.history(agent.HistoryQuery{Name: "same"}).Entries
	require.Len(t, entries, committers+1)
	for i := range committers {
		require.Equal(t, entries[i+1].After, entries[i].Before, "each commit has read the one before it")
		require.False(t, entries[i].At.Before(entries[i+1].At))
	}
}

const (
	lockHeadRow     = `SELECT FROM catalog_head FOR UPDATE`
	lockDocumentRow = `SELECT FROM catalog_documents WHERE name = 'a' FOR UPDATE`
	lockArtifactRow = `SELECT FROM catalog_artifacts FOR UPDATE`
)

func TestKilledCommitLeavesNothing(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.commit(agent.CatalogCommit{
		Put: []agent.Document{put(agentKey("a"), `1`), put(agentKey("b"), `1`)}, Publish: []agent.Artifact{artifact("a", "11")},
	})
	b.commit(agent.CatalogCommit{Delete: []agent.DocumentKey{agentKey("b")}})
	before := b.load()
	next := agent.CatalogCommit{
		At: 2, Put: []agent.Document{put(agentKey("a"), `2`), put(agentKey("b"), `2`)}, Publish: []agent.Artifact{artifact("a", "22")},
	}
	for _, lock := range []string{lockHeadRow, lockDocumentRow, lockArtifactRow} {
		requireCode(t, agent.CodeUnavailable, b.killWhileBlocked(lock, func() error {
			_, err := b.CommitCatalog(t.Context(), next)
			return err
		}))
		require.Equal(t, before, b.load(), lock)
		require.Equal(t, 4, b.count("catalog_history"), lock)
	}
	require.EqualValues(t, 3, b.commit(next))
	require.EqualValues(t, 3, b.load().Documents[1].Revision)
}

func TestCancelledCommitReleasesTheHead(t *testing.T) {
	b := newBench(t, postgres.Config{MaxConns: 3})
	b.commit(change(`1`))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := b.holdLock(lockDocumentRow)
	failed := async(func() error {
		_, err := b.CommitCatalog(ctx, agent.CatalogCommit{At: 1, Put: change(`2`).Put})
		return err
	})
	b.awaitWaiting(1)
	cancel()
	requireCode(t, agent.CodeCancelled, <-failed)
	release()
	// The server had received everything, and may make the change before it notices that the client is gone.
	require.Eventually(t, func() bool {
		_, err := b.CommitCatalog(t.Context(), agent.CatalogCommit{At: b.load().Revision, Put: change(`2`).Put})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	for range 5 { // no call keeps a connection
		_, err := b.LoadCatalog(ctx)
		requireCode(t, agent.CodeCancelled, err)
		_, err = b.CatalogHistory(ctx, agent.HistoryQuery{})
		requireCode(t, agent.CodeCancelled, err)
		_, err = b.PruneCatalog(ctx, b.load().Documents[0].UpdatedAt)
		requireCode(t, agent.CodeCancelled, err)
	}
}

// LoadCatalog returns one revision, even if a commit ends between its reads of the head and of the documents.
func TestLoadSeesOneRevision(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.commit(change(`1`))
	b.countTrips() // prepares the statements on a connection of its own, because preparing would wait for the lock, too
	b.load()
	holder, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = holder.Exec(t.Context(), `LOCK TABLE catalog_documents`)
	require.NoError(t, err)
	var state agent.CatalogState
	loaded := async(func() (err error) {
		state, err = b.LoadCatalog(t.Context())
		return err
	})
	b.awaitWaiting(1)
	_, err = holder.Exec(t.Context(), `UPDATE catalog_documents SET revision = 2; UPDATE catalog_head SET revision = 2`)
	require.NoError(t, err)
	require.NoError(t, holder.Commit(t.Context()))
	require.NoError(t, <-loaded)
	require.EqualValues(t, 1, state.Revision)
	require.Equal(t, []string{"AgentInstance acme/a 1 1"}, outline(state.Documents))
	require.EqualValues(t, 2, b.load().Documents[0].Revision)
}

// PruneCatalog waits for a commit that puts a document with a tombstone, and then does not prune it.
func TestPruneWaitsForACommit(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.commit(change(`1`))
	b.commit(agent.CatalogCommit{Delete: []agent.DocumentKey{agentKey("a")}})
	deleted := b.since(0).Documents[0].UpdatedAt
	removed := 1
	release := b.holdLock(lockDocumentRow)
	committed := async(func() error {
		_, err := b.CommitCatalog(t.Context(), agent.CatalogCommit{At: 2, Put: change(`3`).Put})
		return err
	})
	b.awaitWaiting(1)
	pruned := async(func() (err error) {
		removed, err = b.PruneCatalog(t.Context(), deleted.AddDate(1, 0, 0))
		return err
	})
	b.awaitWaiting(2)
	release()
	require.NoError(t, <-committed)
	require.NoError(t, <-pruned)
	require.Zero(t, removed)
	require.Equal(t, []string{"AgentInstance acme/a 3 3"}, outline(b.load().Documents))
}

func TestCatalogRoundTrips(t *testing.T) {
	b := newBench(t, postgres.Config{})
	measure := b.countTrips()
	var c agent.CatalogCommit
	for i := range 1000 {
		c.Put = append(c.Put, put(agentKey(fmt.Sprint(i)), `1`))
		c.Publish = append(c.Publish, artifact(fmt.Sprint(i), "11"))
	}
	b.commit(agent.CatalogCommit{Put: []agent.Document{put(agentKey("x"), `1`), put(agentKey("y"), `1`)}})
	for i, gone := range []string{"x", "y"} { // at first the statements are prepared
		c.At, c.Delete = int64(i)+1, []agent.DocumentKey{agentKey(gone)}
		commit := measure(func() {
			_, err := b.CommitCatalog(t.Context(), c)
			require.NoError(t, err)
		})
		load := measure(func() { b.load() })
		since := measure(func() { b.since(c.At) })
		if gone == "y" {
			require.Equal(t, []int64{2, 1, 1}, []int64{commit, load, since}, "commit, load, since")
		}
	}
}
