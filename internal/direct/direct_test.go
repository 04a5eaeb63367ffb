package direct_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/direct"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// toolsThenWords asks for tools and then answers.
func toolsThenWords(names ...string) func(context.Context, int, func(agent.Delta) error) (agent.ModelReply, error) {
	return func(_ context.Context, n int, emit func(agent.Delta) error) (agent.ModelReply, error) {
		if n == 1 {
			return calls(names...)
		}
		return says(emit, "done")
	}
}

func TestTurn(t *testing.T) {
	w := newWorld(t, 2)
	w.play = toolsThenWords("look", "look", "look")
	r, position, taken := w.submit("t1", "s")
	require.True(t, taken)
	require.Zero(t, position)
	require.Equal(t, agent.Receipt{TurnID: "t1", SessionID: "s", StreamID: "t1"}, r)
	events := w.follow("t1")
	last := events[len(events)-1]
	require.Equal(t, agent.TurnCompleted, last.Result.Status)
	require.Equal(t, "done", last.Result.Output)
	require.Equal(t, 3, w.ran)
	require.Empty(t, w.started, "Temporal has nothing to do with it")

	again, _, taken := w.submit("t1", "s")
	require.True(t, taken)
	require.True(t, again.Joined)
	require.Equal(t, 2, w.asked)
}

// TestSessionContext: the model of a direct turn is told of the data that lies ready as that of a durable one is.
func TestSessionContext(t *testing.T) {
	w := newWorld(t, 2)
	w.play = toolsThenWords("look")
	_, _, refused, err := w.Submit(t.Context(), agent.TurnRequest{
		TurnID: "t1", SessionID: "s", Message: "sort it", Mode: agent.ModeDirect,
		Context: agent.InvocationContext{Metadata: map[string]any{
			agent.MetaPreviousResults: []any{map[string]any{"node_id": "fetch", "result_ref": "cas://sha256:aa"}},
		}},
	}, nil)
	require.NoError(t, err)
	require.Empty(t, refused)
	w.follow("t1")
	require.Len(t, w.seen, 2)
	asked := w.seen[0].Messages
	require.Len(t, asked[0].Blocks, 2)
	require.Equal(t, agent.Text("sort it"), asked[0].Blocks[0])
	require.Contains(t, asked[0].Blocks[1].Text, `{"previous_results":[{"node_id":"fetch","result_ref":"cas://sha256:aa"}]}`)
	require.Equal(t, asked[0], w.seen[1].Messages[0], "in every step the same")
}

// TestTheSameRequestAtOnce: however often it comes at the same time, one drives the turn and the others join it.
func TestTheSameRequestAtOnce(t *testing.T) {
	w := newWorld(t, 20)
	w.play = toolsThenWords("look")
	var wg sync.WaitGroup
	var joined atomic.Int64
	for range 10 {
		wg.Go(func() {
			r, _, _, err := w.Submit(t.Context(), agent.TurnRequest{TurnID: "t1", SessionID: "s", Message: "hello", Mode: agent.ModeDirect}, nil)
			if err != nil {
				t.Error(err)
			}
			if r.Joined {
				joined.Add(1)
			}
		})
	}
	wg.Wait()
	w.follow("t1")
	require.Equal(t, int64(9), joined.Load())
	require.Equal(t, 2, w.asked)
	require.Equal(t, 1, w.ran)
}

// TestFallback: before a step that this process is not to run, the workflow gets the state that the turn has come to. Record, events and watch say why.
// Nothing of that step runs here.
func TestFallback(t *testing.T) {
	away := func(context.Context, int, func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{}, agent.Errorf(agent.CodeUnavailable, "", "away")
	}
	words := func(_ context.Context, _ int, emit func(agent.Delta) error) (agent.ModelReply, error) {
		return says(emit, "done")
	}
	short := func(_ *turns.Config, d *direct.Config) { d.MaxTime = time.Nanosecond }
	patient := func(a *turns.Config, _ *direct.Config) { a.ProviderWait = time.Hour }
	for name, c := range map[string]struct {
		change func(*turns.Config, *direct.Config)
		play   func(context.Context, int, func(agent.Delta) error) (agent.ModelReply, error)
		why    agent.Fallback
		step   int
		calls  int
	}{
		"it waits for a person":      {nil, toolsThenWords("look", "pay"), agent.FallbackPerson, 1, 2},
		"its provider is away":       {patient, away, agent.FallbackProvider, 0, 0},
		"it lasts too long":          {short, toolsThenWords("look"), agent.FallbackDuration, 1, 1},
		"it lasts long, and is over": {short, words, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change == nil {
				c.change = func(*turns.Config, *direct.Config) {}
			}
			w := newWorld(t, 2, c.change)
			w.play = c.play
			w.submit("t1", "s")
			if c.why == "" {
				w.follow("t1")
				require.NoError(t, w.Stop(t.Context()))
				require.Empty(t, w.started)
				require.Zero(t, w.running)
				return
			}
			var h handed
			select {
			case h = <-w.started:
			case <-time.After(10 * time.Second):
				require.Fail(t, "no workflow was started")
			}
			require.Equal(t, agent.TurnID("t1"), h.turn.TurnID)
			require.Equal(t, c.step, h.carry.State.Step)
			require.Len(t, h.carry.State.Calls, c.calls)
			w.fellBack("t1", c.why)
			require.Equal(t, c.why.Reason(), w.lastReason("t1"))
			require.NoError(t, w.Stop(t.Context()))
			require.Zero(t, w.ran)
			require.Zero(t, w.running)
		})
	}
}

func TestBusySession(t *testing.T) {
	w := newWorld(t, 2)
	release := make(chan struct{})
	w.play = func(_ context.Context, _ int, emit func(agent.Delta) error) (agent.ModelReply, error) {
		<-release
		return says(emit, "done")
	}
	w.submit("t1", "s")
	_, position, taken := w.submit("t2", "s")
	require.True(t, taken)
	require.Equal(t, 1, position)
	h := <-w.started
	require.Equal(t, agent.TurnID("t2"), h.turn.TurnID)
	require.Nil(t, h.carry, "it has not begun")
	w.fellBack("t2", agent.FallbackSession)
	close(release)
	w.follow("t1")
}

func TestHandsFull(t *testing.T) {
	w := newWorld(t, 1)
	release := make(chan struct{})
	w.play = func(_ context.Context, _ int, emit func(agent.Delta) error) (agent.ModelReply, error) {
		<-release
		return says(emit, "done")
	}
	w.submit("t1", "s1")
	_, _, taken := w.submit("t2", "s2")
	require.False(t, taken, "the caller starts it as a durable one")
	require.Equal(t, []agent.Fallback{agent.FallbackLimit}, w.fallbacks)
	require.Equal(t, 1, w.running)
	close(release)
	w.follow("t1")
	require.Eventually(t, func() bool {
		_, _, taken := w.submit("t3", "s3")
		return taken
	}, 10*time.Second, 10*time.Millisecond, "the place is free again")
	w.follow("t3")
}

func TestStopHandsOver(t *testing.T) {
	w := newWorld(t, 2)
	begun := make(chan struct{})
	w.play = func(ctx context.Context, n int, _ func(agent.Delta) error) (agent.ModelReply, error) {
		if n == 1 {
			return calls("look")
		}
		close(begun)
		<-ctx.Done()
		return agent.ModelReply{}, context.Cause(ctx)
	}
	w.submit("t1", "s")
	<-begun
	require.NoError(t, w.Stop(t.Context()))
	h := <-w.started
	require.Equal(t, 1, h.carry.State.Step, "what was stored is not done again; what was not, is")
	require.Empty(t, h.carry.State.Calls)
	require.Equal(t, 2, h.steps, "the workflow finds the reply and the result")
	w.fellBack("t1", agent.FallbackStop)
	require.Equal(t, agent.FallbackStop.Reason(), w.lastReason("t1"))
	_, _, taken := w.submit("t2", "s2")
	require.False(t, taken)
}

// TestTakenAway: a turn that was ended elsewhere, because its lease ran out, is left alone here.
func TestTakenAway(t *testing.T) {
	w := newWorld(t, 2)
	begun, left := make(chan struct{}), make(chan struct{})
	w.play = func(ctx context.Context, _ int, _ func(agent.Delta) error) (agent.ModelReply, error) {
		defer close(left)
		close(begun)
		<-ctx.Done()
		return agent.ModelReply{}, context.Cause(ctx)
	}
	w.submit("t1", "s")
	<-begun
	require.NoError(t, w.Turns.Terminate(t.Context(), "t1"))
	<-left // the log tells its model call
	require.NoError(t, w.Stop(t.Context()))
	require.Empty(t, w.started)
	events := w.follow("t1")
	require.Equal(t, agent.StopTerminated, events[len(events)-1].Result.StopReason)
}

// TestLeasesAreRenewed: one turn that somebody else drives is stopped here, the others keep their sessions.
func TestLeasesAreRenewed(t *testing.T) {
	w := newWorld(t, 3)
	taken := make(chan error, 3)
	w.play = func(ctx context.Context, _ int, _ func(agent.Delta) error) (agent.ModelReply, error) {
		<-ctx.Done()
		taken <- context.Cause(ctx)
		return agent.ModelReply{}, context.Cause(ctx)
	}
	lease := func(id agent.TurnID) time.Time {
		state, err := w.store.Turn(t.Context(), id)
		require.NoError(t, err)
		return state.Lease
	}
	var first []time.Time
	ids := []agent.TurnID{"t1", "t2", "t3"}
	for _, id := range ids {
		w.submit(id, agent.SessionID(id))
		first = append(first, lease(id))
	}
	require.NoError(t, w.store.HandOver(t.Context(), "t2", "turn/t2", agent.FallbackStop))
	require.ErrorContains(t, <-taken, "taken from this process")
	require.Eventually(t, func() bool { return lease("t1").After(first[0]) && lease("t3").After(first[2]) }, 10*time.Second, 10*time.Millisecond)
	require.Empty(t, taken)
	require.Empty(t, w.started)
	require.NoError(t, w.Stop(t.Context()))
}

// lastingStore renews leases twice after it has stored the end of a turn, before it answers.
type lastingStore struct {
	turns.TurnStore
	renewed chan struct{}
}

func (s lastingStore) Finish(ctx context.Context, r agent.FinishRecord) (agent.Finished, error) {
	done, err := s.TurnStore.Finish(ctx, r)
	for range 2 {
		<-s.renewed
	}
	return done, err
}

func (s lastingStore) Renew(ctx context.Context, ids []agent.TurnID, until time.Time) ([]agent.TurnID, error) {
	held, err := s.TurnStore.Renew(ctx, ids, until)
	if len(held) < len(ids) {
		s.renewed <- struct{}{}
	}
	return held, err
}

// TestLeaseEndsWithTheTurn: a turn that is stored holds no lease any more, and still wakes the turn behind it.
func TestLeaseEndsWithTheTurn(t *testing.T) {
	w := newWorld(t, 2, func(c *turns.Config, _ *direct.Config) { c.Store = lastingStore{c.Store, make(chan struct{}, 10)} })
	release := make(chan struct{})
	w.play = func(_ context.Context, _ int, emit func(agent.Delta) error) (agent.ModelReply, error) {
		<-release
		return says(emit, "done")
	}
	w.submit("t1", "s")
	w.submit("t2", "s")
	close(release)
	require.Equal(t, agent.TurnID("t2").WorkflowID(), <-w.woken)
}

// TestRecordIsGone: a turn whose record is gone, because an older backup was restored, is given up, once and for all. No workflow is started for it.
func TestRecordIsGone(t *testing.T) {
	w := newWorld(t, 2)
	w.play = func(ctx context.Context, _ int, emit func(agent.Delta) error) (agent.ModelReply, error) {
		if _, err := w.pool.Exec(ctx, "TRUNCATE turns CASCADE"); err != nil {
			return agent.ModelReply{}, err
		}
		return says(emit, "done")
	}
	w.submit("t1", "s")
	require.Eventually(t, func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.asked == 1 && w.running == 0
	}, 10*time.Second, 10*time.Millisecond, "its place is free")
	require.Empty(t, w.started)
	require.Equal(t, 1, w.asked)
}

// TestTemporalRefuses: the turn is left to whoever looks next, and its place is free.
func TestTemporalRefuses(t *testing.T) {
	w := newWorld(t, 2)
	w.refuse = agent.Errorf(agent.CodeConflict, "", "no")
	w.play = toolsThenWords("pay")
	w.submit("t1", "s")
	require.NoError(t, w.Stop(t.Context()))
	state, err := w.store.Turn(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, agent.StateRunning, state.State)
	require.NotZero(t, state.Lease, "an orphan when it has run out")
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, 1)
	for range 3 { // each gives its place back
		_, _, refused, err := w.Submit(t.Context(), agent.TurnRequest{TurnID: "t1", Message: "x", SessionID: "s", OutputSchema: []byte(`{"type":"objekt"}`)}, nil)
		require.Empty(t, refused)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, refused, err := w.Submit(ctx, agent.TurnRequest{TurnID: "t2", Message: "x"}, nil)
	require.Error(t, err)
	require.Empty(t, refused)
}
