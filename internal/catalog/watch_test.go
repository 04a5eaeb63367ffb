package catalog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// watcher reads a watch in its own goroutine, one event per call of next.
type watcher struct {
	t      *testing.T
	events chan agent.CatalogEvent
	stop   context.CancelFunc
}

func (w *world) watch(t *testing.T, q agent.WatchQuery) *watcher {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out := &watcher{t: t, events: make(chan agent.CatalogEvent), stop: stop}
	go func() {
		defer close(out.events)
		for e, err := range w.Watch(ctx, q) {
			if err != nil {
				return
			}
			select {
			case out.events <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		for range out.events {
		}
	})
	return out
}

func (w *watcher) next() agent.CatalogEvent {
	w.t.Helper()
	select {
	case e := <-w.events:
		return e
	case <-time.After(10 * time.Second):
		w.t.Fatal("no event")
		return agent.CatalogEvent{}
	}
}

func eventNames(e agent.CatalogEvent) []string {
	out := []string{}
	for _, a := range e.Agents {
		out = append(out, a.Name)
	}
	return out
}

func TestWatch(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("acme", "a", "") + agentDoc("other", "z", ""))
	all, acme := w.watch(t, agent.WatchQuery{Tenant: "*"}), w.watch(t, agent.WatchQuery{Tenant: "acme"})
	e := acme.next()
	require.True(t, e.Snapshot)
	require.Equal(t, int64(1), e.Revision)
	require.Equal(t, []string{"a", "analyst", "ask", "researcher"}, eventNames(e))
	require.Len(t, e.Nodes, 7)
	require.Equal(t, []string{"analyst", "ask", "researcher", "a", "z"}, eventNames(all.next()))

	w.apply(agentDoc("other", "z", "description: new"))
	require.Equal(t, []string{"z"}, eventNames(all.next()))
	w.apply(agentDoc("acme", "b", "")) // acme is not told about z
	e = acme.next()
	require.False(t, e.Snapshot)
	require.Equal(t, []string{"b"}, eventNames(e))
	require.Equal(t, int64(3), e.Revision)
	all.next()

	// A changed node also changes the agents of the node.
	w.apply("kind: NodeDefinition\nnode_id: mail\nversion: '2'\ntype: toolkit\n")
	e = acme.next()
	require.Len(t, e.Nodes, 1)
	require.Equal(t, []string{"analyst"}, eventNames(e), "its tools include the newest version of every toolkit")
	all.next()

	require.NoError(t, w.delete(agentKey("acme", "a")))
	require.Equal(t, []agent.RemovedEntry{agent.RemovedEntry(agentKey("acme", "a"))}, acme.next().Removed)
	all.next()

	info, err := w.Publish(t.Context(), "acme", "b", "")
	require.NoError(t, err)
	e = acme.next()
	require.Equal(t, []string{"b"}, eventNames(e))
	require.Equal(t, info.Artifact, e.Agents[0].Artifact)
}

func TestWatchResumes(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("acme", "a", "") + agentDoc("acme", "b", "") + agentDoc("*", "c", ""))
	w.apply(agentDoc("acme", "c", "disabled: true"))
	seen := w.Status(t.Context()).Revision
	w.apply(agentDoc("acme", "a", "description: new"))
	err := w.delete(
		agentKey("acme", "b"), agentKey("acme", "c"),
	)
	require.NoError(t, err)

	e := w.watch(t, agent.WatchQuery{Tenant: "acme", After: seen}).next()
	require.False(t, e.Snapshot)
	require.Equal(t, int64(4), e.Revision)
	require.Equal(t, []string{"a", "c"}, eventNames(e), "the shared agent c is visible again")
	require.Empty(t, e.Nodes)
	require.Equal(t, []agent.RemovedEntry{agent.RemovedEntry(agentKey("acme", "b"))}, e.Removed)

	current := w.watch(t, agent.WatchQuery{Tenant: "acme", After: 4})
	w.apply(agentDoc("acme", "d", ""))
	require.Equal(t, []string{"d"}, eventNames(current.next()), "no change was missed, so none is repeated")
	require.True(t, w.watch(t, agent.WatchQuery{Tenant: "acme", After: 99}).next().Snapshot, "the revision belongs to another database")
}

// A subscriber that does not read must neither delay the others nor miss a state.
func TestSlowSubscriber(t *testing.T) {
	w := newWorld(t)
	slow, quick := w.watch(t, agent.WatchQuery{}), w.watch(t, agent.WatchQuery{})
	quick.next()
	require.True(t, slow.next().Snapshot)
	for _, name := range []string{"a", "b", "c"} {
		w.apply(agentDoc("", name, ""))
		require.Equal(t, []string{name}, eventNames(quick.next()))
	}
	missed := map[string]bool{}
	for len(missed) < 3 {
		for _, name := range eventNames(slow.next()) {
			missed[name] = true
		}
	}
}

func TestMissedNotification(t *testing.T) {
	w := newWorld(t)
	other := w.another()
	w.apply(agentDoc("", "a", "")) // the other registry is not notified
	_, _, err := other.Resolve(t.Context(), "default", "a")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		other.Run(ctx)
	}()
	require.Eventually(t, func() bool {
		_, _, err := other.Resolve(t.Context(), "default", "a")
		return err == nil
	}, 10*time.Second, time.Millisecond, "the next look repairs it")
	w.apply(agentDoc("", "b", ""))
	require.Eventually(t, func() bool {
		_, _, err := other.Resolve(t.Context(), "default", "b")
		return err == nil
	}, 10*time.Second, time.Millisecond)
	stop()
	<-done
}

// A watch sends a snapshot when the documents alone do not describe what has changed.
func TestWatchRestarts(t *testing.T) {
	w := newWorld(t)
	w.apply(agentDoc("*", "analyst", "") + agentDoc("*", "care", ""))
	after := func(change func()) agent.CatalogEvent {
		seen := w.Status(t.Context()).Revision
		change()
		return w.watch(t, agent.WatchQuery{After: seen}).next()
	}
	require.True(t, after(func() { w.apply("kind: RouteTable\nname: r\ndefault_agent: care\n") }).Snapshot, "the default agent has changed")
	require.True(t, after(func() {
		require.NoError(t, w.delete(agentKey("*", "analyst")))
	}).Snapshot, "the built-in one is back")
	require.False(t, after(func() { w.apply(agentDoc("", "d", "")) }).Snapshot)
}
