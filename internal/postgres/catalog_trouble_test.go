package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// Of many who change the same revision one wins; who tries again from the newest one gets through in the end.
func TestCommitsRace(t *testing.T) {
	const committers = 20
	b := newBench(t, postgres.Config{})
	commit := func(who int, at int64) (int64, error) {
		return b.CommitCatalog(t.Context(), agent.CatalogCommit{
			At: at, By: fmt.Sprint(who), Put: []agent.Document{put(agentKey("same"), fmt.Sprint(who)), put(agentKey(fmt.Sprint(who)), `1`)},
		})
	}
	var won atomic.Int64
	var group sync.WaitGroup
	for who := range committers {
		group.Go(func() {
			revision, err := commit(who, 0)
			if err == nil {
				won.Add(1)
				if revision != 1 {
					t.Errorf("revision %d", revision)
				}
			} else if agent.CodeOf(err) != agent.CodeConflict {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.EqualValues(t, 1, won.Load())
	require.Len(t, b.load().Documents, 2)

	revisions := make([]int64, committers)
	for who := range committers {
		group.Go(func() {
			for revisions[who] == 0 {
				state, err := b.LoadCatalog(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if same := state.Documents[len(state.Documents)-1]; same.Name != "same" || same.Revision != state.Revision {
					t.Errorf("revision %d has %s of revision %d", state.Revision, same.Name, same.Revision)
				}
				if revisions[who], err = commit(100+who, state.Revision); err != nil && agent.CodeOf(err) != agent.CodeConflict {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	slices.Sort(revisions)
	for i, revision := range revisions {
		require.EqualValues(t, i+2, revision, "contiguous")
	}
	entries := b.history(agent.HistoryQuery{Name: "same"}).Entries
	require.Len(t, entries, committers+1)
	for i := range committers {
		require.Equal(t, entries[i+1].After, entries[i].Before, "each saw what the one before it left")
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
	release := b.blocked(lockDocumentRow)
	failed := make(chan error, 1)
	go func() {
		_, err := b.CommitCatalog(ctx, agent.CatalogCommit{At: 1, Put: change(`2`).Put})
		failed <- err
	}()
	b.awaitWaiting(1)
	cancel()
	requireCode(t, agent.CodeCancelled, <-failed)
	release()
	// The server had it all by then, and may make the change before it learns that its client is gone.
	require.Eventually(t, func() bool {
		_, err := b.CommitCatalog(t.Context(), agent.CatalogCommit{At: b.load().Revision, Put: change(`2`).Put})
		return err == nil
	}, 10*time.Second, 10*time.Millisecond)
	for range 5 { // nothing keeps a connection
		_, err := b.LoadCatalog(ctx)
		requireCode(t, agent.CodeCancelled, err)
		_, err = b.CatalogHistory(ctx, agent.HistoryQuery{})
		requireCode(t, agent.CodeCancelled, err)
		_, err = b.PruneCatalog(ctx, b.load().Documents[0].UpdatedAt)
		requireCode(t, agent.CodeCancelled, err)
	}
}

// What a reader gets is of one revision, also when a commit ends between its reading of the head and of the documents.
func TestLoadSeesOneRevision(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.commit(change(`1`))
	b.countTrips() // a connection of its own, on which the statements are prepared now: preparing them would wait for the lock as well
	b.load()
	holder, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = holder.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = holder.Exec(t.Context(), `LOCK TABLE catalog_documents`)
	require.NoError(t, err)
	loaded := make(chan agent.CatalogState, 1)
	go func() {
		state, err := b.LoadCatalog(t.Context())
		if err != nil {
			t.Error(err)
		}
		loaded <- state
	}()
	b.awaitWaiting(1)
	_, err = holder.Exec(t.Context(), `UPDATE catalog_documents SET revision = 2; UPDATE catalog_head SET revision = 2`)
	require.NoError(t, err)
	require.NoError(t, holder.Commit(t.Context()))
	state := <-loaded
	require.EqualValues(t, 1, state.Revision)
	require.Equal(t, []string{"AgentInstance acme/a 1 1"}, outline(state.Documents))
	require.EqualValues(t, 2, b.load().Documents[0].Revision)
}

// A tombstone that is about to be pruned, and a commit that puts the document again.
func TestPruneWaitsForACommit(t *testing.T) {
	b := newBench(t, postgres.Config{})
	b.commit(change(`1`))
	b.commit(agent.CatalogCommit{Delete: []agent.DocumentKey{agentKey("a")}})
	committed, pruned := make(chan error, 1), make(chan int, 1)
	release := b.blocked(lockDocumentRow)
	go func() {
		_, err := b.CommitCatalog(t.Context(), agent.CatalogCommit{At: 2, Put: change(`3`).Put})
		committed <- err
	}()
	b.awaitWaiting(1)
	go func() {
		removed, err := b.PruneCatalog(t.Context(), b.since(0).Documents[0].UpdatedAt.AddDate(1, 0, 0))
		if err != nil {
			t.Error(err)
		}
		pruned <- removed
	}()
	b.awaitWaiting(2)
	release()
	require.NoError(t, <-committed)
	require.Zero(t, <-pruned)
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
