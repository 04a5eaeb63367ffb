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

func TestWhoeverIsSlowerEachTimeIsToldToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, store := shelf(t)
		put(t, l, anns("main"), graphOf("a"))
		tries := 0
		var interfere func()
		interfere = func() {
			tries++
			store.BeforeCommit = nil
			patched(t, l, anns("main"), string(addition(fmt.Sprint("other_", tries))))
			store.BeforeCommit = interfere
		}
		store.BeforeCommit = interfere
		began := time.Now()
		_, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("never")})
		refused(t, err, agent.CodeRateLimited, "", "others changed it each time")
		require.NotContains(t, err.Error(), "base_version", "nobody named one")
		var e *agent.Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, time.Second, e.RetryAfter)
		require.Equal(t, 30, tries)
		require.Less(t, time.Since(began), 5*time.Second)
		store.BeforeCommit = nil
		require.NotContains(t, names(t, newest(t, l, anns("main"))), "never")
	})
}

// counted counts how often the newest version is read.
type counted struct {
	*definitionstest.LibraryStore

	reads int
}

func (c *counted) Workflow(ctx context.Context, k agent.WorkflowKey, version int64) (agent.StoredWorkflow, error) {
	c.reads++
	return c.LibraryStore.Workflow(ctx, k, version)
}

func TestAStaleBaseIsRefusedAtOnce(t *testing.T) {
	store := &counted{LibraryStore: new(definitionstest.LibraryStore)}
	l, err := library.New(library.Config{Store: store})
	require.NoError(t, err)
	put(t, l, anns("main"), graphOf("a"))
	put(t, l, anns("main"), graphOf("b"))
	store.reads = 0
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("c"), BaseVersion: 1})
	refused(t, err, agent.CodeConflict, "base_version", "is 1, and the newest version is 2")
	require.Equal(t, 1, store.reads)
}

func TestManyAtOnce(t *testing.T) {
	l, _ := shelf(t)
	put(t, l, anns("main"), graphOf("a"))
	var g errgroup.Group
	for i := range 16 {
		g.Go(func() error {
			_, err := l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition(fmt.Sprint("n", i))})
			return err
		})
	}
	require.NoError(t, g.Wait())
	w := newest(t, l, anns("main"))
	require.EqualValues(t, 17, w.Version)
	require.Len(t, strings.Fields(names(t, w)), 17)
}

// late is a store whose first look for an earlier request finds nothing, as long as a change is under way.
type late struct {
	*definitionstest.LibraryStore

	looked atomic.Int64
	first  int64
	gate   chan struct{}
}

func (s *late) PatchedBefore(ctx context.Context, tenant, key string) (agent.WorkflowPatchResult, string, bool, error) {
	r, hash, ok, err := s.LibraryStore.PatchedBefore(ctx, tenant, key)
	switch n := s.looked.Add(1); {
	case n == s.first:
		close(s.gate) // all have looked, and nothing was there
	case n < s.first:
		<-s.gate
	}
	return r, hash, ok, err
}

func TestTheSameRequestManyTimesAtOnceIsAnsweredTheSame(t *testing.T) {
	const many = 20
	for name, ask := range map[string]func(*library.Library) (agent.WorkflowPatchResult, error){
		"the id is there already": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("b"), Idempotency: "k"})
		},
		"an old base": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("b"), BaseVersion: 1, Idempotency: "k"})
		},
		"unchanged": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{
				WorkflowKey: anns("main"), Operations: json.RawMessage(`[{"op":"replace","path":"/description","value":"x"}]`), Idempotency: "k",
			})
		},
		"a whole": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.Put(t.Context(), library.PutRequest{WorkflowKey: anns("main"), Definition: graphOf("z"), Idempotency: "k"})
		},
		"a new one": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.Put(t.Context(), library.PutRequest{WorkflowKey: anns("new"), Definition: graphOf("z"), OnlyNew: true, Idempotency: "k"})
		},
		"deleted": func(l *library.Library) (agent.WorkflowPatchResult, error) {
			return l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: anns("main"), Idempotency: "k"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			store := &late{LibraryStore: new(definitionstest.LibraryStore), first: many, gate: make(chan struct{})}
			l, err := library.New(library.Config{Store: store})
			require.NoError(t, err)
			put(t, l, anns("main"), graphOf("a"))
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
			require.Equal(t, answers[0].Version, version, "it was done once")
		})
	}
}

func TestAnotherRequestUnderTheKeyAtOnceIsAConflict(t *testing.T) {
	store := &late{LibraryStore: new(definitionstest.LibraryStore), first: 2, gate: make(chan struct{})}
	l, err := library.New(library.Config{Store: store})
	require.NoError(t, err)
	put(t, l, anns("main"), graphOf("a"))
	var g errgroup.Group
	failures := make([]error, 2)
	for i := range failures {
		g.Go(func() error {
			_, failures[i] = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{
				WorkflowKey: anns("main"), Operations: addition("b"), Description: fmt.Sprint(i), Idempotency: "k",
			})
			return nil
		})
	}
	require.NoError(t, g.Wait())
	if failures[0] == nil {
		failures[0], failures[1] = failures[1], failures[0]
	}
	require.NoError(t, failures[1])
	refused(t, failures[0], agent.CodeConflict, "idempotency_key", "another request")
}

func TestPutOnlyWhenNew(t *testing.T) {
	l, store := shelf(t)
	ask := library.PutRequest{WorkflowKey: anns("main"), Definition: graphOf("a"), OnlyNew: true}
	store.BeforeCommit = func() {
		store.BeforeCommit = nil
		put(t, l, anns("main"), graphOf("b"))
	}
	_, err := l.Put(t.Context(), ask)
	refused(t, err, agent.CodeConflict, "workflow_tag", "there is version 1 of main already")
	require.Equal(t, "b", names(t, newest(t, l, anns("main"))))
	ask.Definition = graphOf("b")
	_, err = l.Put(t.Context(), ask)
	refused(t, err, agent.CodeConflict, "workflow_tag", "already")
	_, err = l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: anns("main")})
	require.NoError(t, err)
	r, err := l.Put(t.Context(), ask)
	require.NoError(t, err)
	require.EqualValues(t, 3, r.Version, "what was deleted is not there")

	ask.Tag, ask.Idempotency = "other", "k"
	first, err := l.Put(t.Context(), ask)
	require.NoError(t, err)
	again, err := l.Put(t.Context(), ask)
	require.NoError(t, err)
	require.Equal(t, first, again)
	ask.OnlyNew = false
	_, err = l.Put(t.Context(), ask)
	refused(t, err, agent.CodeConflict, "idempotency_key", "another request")
}

func TestDelete(t *testing.T) {
	l, _ := shelf(t)
	put(t, l, anns("main"), graphOf("a"))
	r, err := l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: agent.WorkflowKey{Tag: "main"}, By: "ann", Idempotency: "k"})
	require.NoError(t, err)
	require.EqualValues(t, 2, r.Version)
	again, err := l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: agent.WorkflowKey{Tag: "main"}, By: "ann", Idempotency: "k"})
	require.NoError(t, err)
	require.Equal(t, r, again)
	_, err = l.Workflow(t.Context(), anns("main"), 0)
	refused(t, err, agent.CodeNotFound, "workflow_tag", "there are none")
	_, err = l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: anns("main")})
	refused(t, err, agent.CodeNotFound, "workflow_tag", "there is no workflow main of owner ann")
	old, err := l.Workflow(t.Context(), anns("main"), 1)
	require.NoError(t, err)
	require.Equal(t, "a", names(t, old))
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("b")})
	refused(t, err, agent.CodeNotFound, "workflow_tag", "there is no workflow main")

	made := put(t, l, anns("main"), graphOf("b"))
	require.EqualValues(t, 3, made.Version, "the numbers go on")
	_, err = l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: anns("main"), BaseVersion: 2})
	refused(t, err, agent.CodeConflict, "base_version", "is 2, and the newest version is 3")
	_, err = l.Delete(t.Context(), library.DeleteRequest{})
	refused(t, err, agent.CodeInvalid, "workflow_tag", "is required")
}

// schedules records what it is told, and what it is asked.
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

func TestSchedulesAreTold(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	told := new(schedules)
	l, err := library.New(library.Config{Store: new(definitionstest.LibraryStore), Schedules: told, Logger: zap.New(core)})
	require.NoError(t, err)
	put(t, l, anns("main"), json.RawMessage(`{"nodes":[`+mail("a")+`],"schedules":[{"id":"s","interval_sec":60}]}`))
	require.Len(t, told.told, 1)
	require.Equal(t, newest(t, l, anns("main")), told.told[0])
	require.WithinDuration(t, time.Now(), told.told[0].UpdatedAt, time.Minute)
	put(t, l, anns("main"), json.RawMessage(`{"nodes":[`+mail("a")+`],"schedules":[{"id":"s","interval_sec":60}]}`))
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("b"), DryRun: true})
	require.NoError(t, err)
	require.Len(t, told.told, 1, "nothing changed")
	require.Zero(t, logs.Len())

	told.err = errors.New("no server")
	r := patched(t, l, anns("main"), string(addition("b")))
	require.EqualValues(t, 2, r.Version, "the change stands")
	require.Equal(t, 1, logs.FilterMessageSnippet("schedules").Len())
	_, err = l.Delete(t.Context(), library.DeleteRequest{WorkflowKey: anns("main")})
	require.NoError(t, err)
	require.True(t, told.told[2].Deleted)
}

func TestTheCallerGoes(t *testing.T) {
	l, store := shelf(t)
	put(t, l, anns("main"), graphOf("a"))
	ctx, cancel := context.WithCancel(t.Context())
	store.BeforeCommit = func() {
		store.BeforeCommit = nil
		patched(t, l, anns("main"), string(addition("other")))
		cancel()
	}
	_, err := l.PatchWorkflow(ctx, agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("b")})
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	require.Equal(t, "a other", names(t, newest(t, l, anns("main"))))
}

func TestAVersionWhoseSchedulesAreRefusedIsNotStored(t *testing.T) {
	asked := new(schedules)
	l, err := library.New(library.Config{Store: new(definitionstest.LibraryStore), Schedules: asked})
	require.NoError(t, err)
	put(t, l, anns("main"), graphOf("a"))
	second := patched(t, l, anns("main"), string(addition("b")))
	asked.refusal = agent.Invalid("schedules[0].time_zone", "Temporal refuses it")
	_, err = l.Put(t.Context(), library.PutRequest{WorkflowKey: anns("main"), Definition: graphOf("c"), Idempotency: "k"})
	refused(t, err, agent.CodeInvalid, "schedules[0].time_zone", "Temporal refuses it")
	_, err = l.PatchWorkflow(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Operations: addition("c")})
	refused(t, err, agent.CodeInvalid, "schedules[0].time_zone", "Temporal refuses it")
	_, err = l.Revert(t.Context(), agent.WorkflowPatchRequest{WorkflowKey: anns("main"), Revert: second.PatchID})
	refused(t, err, agent.CodeInvalid, "schedules[0].time_zone", "Temporal refuses it")
	require.EqualValues(t, 2, newest(t, l, anns("main")).Version)
	require.EqualValues(t, 3, asked.asked[len(asked.asked)-1].Version)
	require.Len(t, asked.told, 2)

	asked.refusal = errors.New("no server")
	_, err = l.Put(t.Context(), library.PutRequest{WorkflowKey: anns("main"), Definition: graphOf("c"), Idempotency: "k"})
	require.NoError(t, err, "it is stored, and reconciled later")
	require.EqualValues(t, 3, newest(t, l, anns("main")).Version)
}
