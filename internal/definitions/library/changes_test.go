package library_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/definitionstest"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
)

func TestConflictRetriesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := newLibrary(t)
		mustPut(t, l, annsKey("main"), mailGraph("a"))
		tries := 0
		var interfere func()
		interfere = func() {
			tries++
			store.BeforeCommit = nil
			mustPatch(t, l, annsKey("main"), string(addMailNode(fmt.Sprint("other_", tries))))
			store.BeforeCommit = interfere
		}
		store.BeforeCommit = interfere
		began := time.Now()
		_, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("never")})
		requireRefusal(t, err, agent.CodeRateLimited, "", "others changed it each time")
		require.NotContains(t, err.Error(), "base_version", "nobody named one")
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, time.Second, e.RetryAfter)
		require.Equal(t, 30, tries)
		require.Less(t, time.Since(began), 5*time.Second)
		store.BeforeCommit = nil
		require.NotContains(t, nodeIDs(t, mustRead(t, l, annsKey("main"))), "never")
	})
}

// countingStore counts the reads of workflows.
type countingStore struct {
	*definitionstest.LibraryStore

	reads int
}

func (c *countingStore) Workflow(ctx context.Context, k agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	c.reads++
	return c.LibraryStore.Workflow(ctx, k, version)
}

func TestStaleBaseIsNotRetried(t *testing.T) {
	store := &countingStore{LibraryStore: new(definitionstest.LibraryStore)}
	l, err := library.New(library.Config{Store: store})
	require.NoError(t, err)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	mustPut(t, l, annsKey("main"), mailGraph("b"))
	store.reads = 0
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("c"), BaseVersion: 1})
	requireRefusal(t, err, agent.CodeConflict, "base_version", "is 1, and the newest version is 2")
	require.Equal(t, 1, store.reads)
}

func TestConcurrentPatches(t *testing.T) {
	l, _ := newLibrary(t)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	var g errgroup.Group
	for i := range 16 {
		g.Go(func() error {
			_, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode(fmt.Sprint("n", i))})
			return err
		})
	}
	require.NoError(t, g.Wait())
	w := mustRead(t, l, annsKey("main"))
	require.EqualValues(t, 17, w.Version)
	require.Len(t, strings.Fields(nodeIDs(t, w)), 17)
}

// gatedStore holds the first lookups of an idempotency key until all of them have found nothing.
type gatedStore struct {
	*definitionstest.LibraryStore

	looked atomic.Int64
	first  int64
	gate   chan struct{}
}

func (s *gatedStore) PatchedBefore(ctx context.Context, tenant, key string) (agent.WorkflowPatchResult, string, bool, error) {
	r, hash, ok, err := s.LibraryStore.PatchedBefore(ctx, tenant, key)
	switch n := s.looked.Add(1); {
	case n == s.first:
		close(s.gate) // all lookups have found nothing
	case n < s.first:
		<-s.gate
	}
	return r, hash, ok, err
}

func TestConcurrentIdempotentRequests(t *testing.T) {
	const many = 20
	for name, ask := range map[string]func(*library.Library) (agent.WorkflowPatchResult, error){
		"the id is there already": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("b"), Idempotency: "k"})
		},
		"an old base": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("b"), BaseVersion: 1, Idempotency: "k"})
		},
		"unchanged": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{
				WorkflowKey: annsKey("main"), Operations: json.RawMessage(`[{"op":"replace","path":"/description","value":"x"}]`), Idempotency: "k",
			})
		},
		"a whole": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.Put(t.Context(), library.PutRequest{WorkflowKey: annsKey("main"), Definition: mailGraph("z"), Idempotency: "k"})
		},
		"a new one": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.Put(t.Context(), library.PutRequest{WorkflowKey: annsKey("new"), Definition: mailGraph("z"), OnlyNew: true, Idempotency: "k"})
		},
		"deleted": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: annsKey("main"), Idempotency: "k"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &gatedStore{LibraryStore: new(definitionstest.LibraryStore), first: many, gate: make(chan struct{})}
			l, err := library.New(library.Config{Store: store})
			require.NoError(t, err)
			mustPut(t, l, annsKey("main"), mailGraph("a"))
			var g errgroup.Group
			answers := make([]agent.WorkflowPatchResult, many)
			for i := range many {
				g.Go(func() (err error) {
					answers[i], err = ask(l)
					return err
				})
			}
			require.NoError(t, g.Wait())
			for _, a := range answers {
				require.Equal(t, answers[0], a)
			}
			require.False(t, answers[0].Unchanged)
			version, _, err := store.NewestVersion(t.Context(), answers[0].WorkflowKey)
			require.NoError(t, err)
			require.Equal(t, answers[0].Version, version, "one change was made")
		})
	}
}

func TestConcurrentRequestsUnderOneKey(t *testing.T) {
	store := &gatedStore{LibraryStore: new(definitionstest.LibraryStore), first: 2, gate: make(chan struct{})}
	l, err := library.New(library.Config{Store: store})
	require.NoError(t, err)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	var g errgroup.Group
	failures := make([]error, 2)
	for i := range failures {
		g.Go(func() error {
			_, failures[i] = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{
				WorkflowKey: annsKey("main"), Operations: addMailNode("b"), Description: fmt.Sprint(i), Idempotency: "k",
			})
			return nil
		})
	}
	require.NoError(t, g.Wait())
	if failures[0] == nil {
		failures[0], failures[1] = failures[1], failures[0]
	}
	require.NoError(t, failures[1])
	requireRefusal(t, failures[0], agent.CodeConflict, "idempotency_key", "another request")
}

func TestPutOnlyNew(t *testing.T) {
	l, store := newLibrary(t)
	ask := library.PutRequest{WorkflowKey: annsKey("main"), Definition: mailGraph("a"), OnlyNew: true}
	store.BeforeCommit = func() {
		store.BeforeCommit = nil
		mustPut(t, l, annsKey("main"), mailGraph("b"))
	}
	_, err := l.Put(t.Context(), ask)
	requireRefusal(t, err, agent.CodeConflict, "workflow_tag", "there is version 1 of main already")
	require.Equal(t, "b", nodeIDs(t, mustRead(t, l, annsKey("main"))))
	ask.Definition = mailGraph("b")
	_, err = l.Put(t.Context(), ask)
	requireRefusal(t, err, agent.CodeConflict, "workflow_tag", "already")
	_, err = l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: annsKey("main")})
	require.NoError(t, err)
	r, err := l.Put(t.Context(), ask)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Version, "a deleted definition counts as new")

	ask.Tag, ask.Idempotency = "other", "k"
	first, err := l.Put(t.Context(), ask)
	require.NoError(t, err)
	again, err := l.Put(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, first, again)
	ask.OnlyNew = false
	_, err = l.Put(t.Context(), ask)
	requireRefusal(t, err, agent.CodeConflict, "idempotency_key", "another request")
}

func TestDelete(t *testing.T) {
	l, _ := newLibrary(t)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	r, err := l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: agent.WorkflowKey{Tag: "main"}, By: "ann", Idempotency: "k"})
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Version)
	again, err := l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: agent.WorkflowKey{Tag: "main"}, By: "ann", Idempotency: "k"})
	require.NoError(t, err)
	require.Equal(t, r, again)
	_, err = l.Workflow(t.Context(), annsKey("main"), 0)
	requireRefusal(t, err, agent.CodeNotFound, "workflow_tag", "there are none")
	_, err = l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: annsKey("main")})
	requireRefusal(t, err, agent.CodeNotFound, "workflow_tag", "there is no workflow main of owner ann")
	old, err := l.Workflow(t.Context(), annsKey("main"), 1)
	require.NoError(t, err)
	require.Equal(t, "a", nodeIDs(t, old))
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("b")})
	requireRefusal(t, err, agent.CodeNotFound, "workflow_tag", "there is no workflow main")

	made := mustPut(t, l, annsKey("main"), mailGraph("b"))
	require.EqualValues(t, 3, made.Version, "the version numbers continue")
	_, err = l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: annsKey("main"), BaseVersion: 2})
	requireRefusal(t, err, agent.CodeConflict, "base_version", "is 2, and the newest version is 3")
	_, err = l.Delete(t.Context(), library.DeleteRequest{})
	requireRefusal(t, err, agent.CodeInvalid, "workflow_tag", "is required")
}

// schedules records its calls.
type schedules struct {
	told, asked []agent.StoredWorkflow
	err         error
	refusal     error
}

func (s *schedules) Check(_ context.Context, w agent.StoredWorkflow) error {
	s.asked = append(s.asked, w)
	return s.refusal
}

func (s *schedules) Sync(ctx context.Context, w agent.StoredWorkflow) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.told = append(s.told, w)
	return s.err
}

func TestSchedulesAreSynced(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	told := new(schedules)
	l, err := library.New(library.Config{Store: new(definitionstest.LibraryStore), Schedules: told, Logger: zap.New(core)})
	require.NoError(t, err)
	mustPut(t, l, annsKey("main"), json.RawMessage(`{"nodes":[`+mailNode("a")+`],"schedules":[{"id":"s","interval_sec":60}]}`))
	require.Len(t, told.told, 1)
	require.Equal(t, mustRead(t, l, annsKey("main")), told.told[0])
	require.WithinDuration(t, time.Now(), told.told[0].UpdatedAt, time.Minute)
	mustPut(t, l, annsKey("main"), json.RawMessage(`{"nodes":[`+mailNode("a")+`],"schedules":[{"id":"s","interval_sec":60}]}`))
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("b"), DryRun: true})
	require.NoError(t, err)
	require.Len(t, told.told, 1, "nothing changed")
	require.Zero(t, logs.Len())

	told.err = errors.New("no server")
	r := mustPatch(t, l, annsKey("main"), string(addMailNode("b")))
	require.EqualValues(t, 2, r.Version, "the change is stored")
	require.Equal(t, 1, logs.FilterMessageSnippet("schedules").Len())
	_, err = l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: annsKey("main")})
	require.NoError(t, err)
	require.True(t, told.told[2].Deleted)
}

func TestPatchEndsWithItsContext(t *testing.T) {
	l, store := newLibrary(t)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	ctx, cancel := context.WithCancel(t.Context())
	store.BeforeCommit = func() {
		store.BeforeCommit = nil
		mustPatch(t, l, annsKey("main"), string(addMailNode("other")))
		cancel()
	}
	_, err := l.PatchWorkflow(ctx, agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("b")})
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	require.Equal(t, "a other", nodeIDs(t, mustRead(t, l, annsKey("main"))))
}

func TestRefusedSchedulesAreNotStored(t *testing.T) {
	asked := new(schedules)
	l, err := library.New(library.Config{Store: new(definitionstest.LibraryStore), Schedules: asked})
	require.NoError(t, err)
	mustPut(t, l, annsKey("main"), mailGraph("a"))
	second := mustPatch(t, l, annsKey("main"), string(addMailNode("b")))
	asked.refusal = agent.Invalid("schedules[0].time_zone", "Temporal refuses it")
	_, err = l.Put(t.Context(), library.PutRequest{WorkflowKey: annsKey("main"), Definition: mailGraph("c"), Idempotency: "k"})
	requireRefusal(t, err, agent.CodeInvalid, "schedules[0].time_zone", "Temporal refuses it")
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Operations: addMailNode("c")})
	requireRefusal(t, err, agent.CodeInvalid, "schedules[0].time_zone", "Temporal refuses it")
	_, err = l.Revert(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: annsKey("main"), Revert: second.PatchID})
	requireRefusal(t, err, agent.CodeInvalid, "schedules[0].time_zone", "Temporal refuses it")
	require.EqualValues(t, 2, mustRead(t, l, annsKey("main")).Version)
	require.EqualValues(t, 3, asked.asked[len(asked.asked)-1].Version)
	require.Len(t, asked.told, 2)

	asked.refusal = errors.New("no server")
	_, err = l.Put(t.Context(), library.PutRequest{WorkflowKey: annsKey("main"), Definition: mailGraph("c"), Idempotency: "k"})
	require.NoError(t, err, "it is stored, and its schedules are reconciled later")
	require.EqualValues(t, 3, mustRead(t, l, annsKey("main")).Version)
}
