//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack/offline"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

// soak is many streams at once for a while, with everything that happens to them in production: viewers who leave and come back, viewers
// who read slowly, a gateway and a worker that are stopped and killed. `task soak` runs it in full.
type soak struct {
	streams int
	lasts   time.Duration
	door    *client.Client
	gateway string // address

	turns, events, left, resets atomic.Int64
	mu                          sync.Mutex
	faults                      []string
}

const (
	soakDelay = 200 * time.Millisecond // between two words of an answer
	slowOne   = 20                     // every so many viewers reads slowly
	slowPause = 400 * time.Millisecond // before each event that a slow viewer takes
)

func soakSize(t *testing.T) (streams int, lasts time.Duration) {
	t.Helper()
	streams, lasts = 40, 20*time.Second
	if text := os.Getenv("TURNSTONE_SOAK_STREAMS"); text != "" {
		var err error
		streams, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	if text := os.Getenv("TURNSTONE_SOAK_TIME"); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	return streams, lasts
}

// Every stream is complete, contiguous and ends once, and the gateway holds no more at the end than it did before.
func TestSoak(t *testing.T) {
	t.Parallel()
	slow, err := offline.Start(t.Context(), "127.0.0.1:0", offline.Config{TokenDelay: soakDelay})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, slow.Close(ctx))
	})
	binary := build(t, "../worker")
	b := newBench(t, func(c *app.Config) { c.LLM.BaseURL = slow.BaseURL() })
	s := &soak{gateway: freeAddr(t)}
	s.streams, s.lasts = soakSize(t)
	env := []string{"TURNSTONE_SHUTDOWN_TIMEOUT=8s", "TURNSTONE_TEMPORAL_MAX_CONCURRENT_ACTIVITIES=1000", "TURNSTONE_DATABASE_MAX_CONNS=20"}
	// The gateway leaves the models to the worker: what it holds is what its viewers cost.
	serving := append(slices.Clone(env), "TURNSTONE_TEMPORAL_MAX_CONCURRENT_ACTIVITIES=1", "TURNSTONE_TEMPORAL_EAGER_START=false")
	gateway, worker := b.spawn(binary, s.gateway, serving), b.spawn(binary, freeAddr(t), env)
	s.door, err = client.New(client.Config{Server: "http://" + s.gateway, Patience: 5 * time.Minute})
	require.NoError(t, err)

	began := time.Now()
	until := began.Add(s.lasts)
	var viewers sync.WaitGroup
	for i := range s.streams {
		viewers.Go(func() { s.view(t.Context(), i, until) })
	}
	for part, restart := range []func(){
		func() { gateway = b.again(gateway, binary, serving, syscall.SIGTERM) },
		func() { worker = b.again(worker, binary, env, syscall.SIGKILL) },
		func() { gateway = b.again(gateway, binary, serving, syscall.SIGKILL) },
		func() { worker = b.again(worker, binary, env, syscall.SIGTERM) },
	} {
		s.waitUntil(t, began.Add(time.Duration(part+1)*s.lasts/10))
		restart()
	}
	s.waitUntil(t, began.Add(6*s.lasts/10))
	before := holds(t, s.gateway)
	s.waitUntil(t, until)
	after := holds(t, s.gateway)
	viewers.Wait()
	require.Empty(t, s.faults, "%d of %d turns", len(s.faults), s.turns.Load())
	require.GreaterOrEqual(t, s.turns.Load(), int64(s.streams), "each viewer saw a turn whole")
	t.Logf("%d streams for %s: %d turns seen whole, %d events, %d connections left, %d resets", s.streams, s.lasts, s.turns.Load(), s.events.Load(),
		s.left.Load(), s.resets.Load())
	t.Logf("gateway at 60 %%: %s", before)
	t.Logf("gateway at 100 %%: %s", after)
	// What the runtime keeps for itself may grow a little; streams that leak would take far more.
	require.Less(t, after.heap, before.heap*1.5+32<<20, "memory is flat")
	require.Less(t, after.goroutines, before.goroutines*1.3+100, "goroutines too")
	require.Less(t, after.files, before.files*1.3+50, "files too")
	require.Eventually(t, func() bool { return holds(t, s.gateway).goroutines < 150+float64(s.streams)/10 }, time.Minute, 250*time.Millisecond,
		"what served them is gone")
}

// again ends a process and starts another one in its place.
func (b *bench) again(p *process, binary string, env []string, how syscall.Signal) *process {
	b.t.Helper()
	p.end(how)
	return b.spawn(binary, p.addr, env)
}

func (s *soak) waitUntil(t *testing.T, at time.Time) {
	t.Helper()
	select {
	case <-time.After(time.Until(at)):
	case <-t.Context().Done():
		require.Fail(t, "the test is over")
	}
}

// view starts turns one after the other and watches each to its end.
func (s *soak) view(ctx context.Context, n int, until time.Time) {
	chance := rand.New(rand.NewPCG(uint64(n), 7)) // a test repeats itself
	for turn := 0; time.Now().Before(until) && ctx.Err() == nil; turn++ {
		words := 20 + chance.IntN(int(max(s.lasts/soakDelay/4, 20)))
		if err := s.watch(ctx, fmt.Sprintf("soak-%d-%d", n, turn), words, n%slowOne == slowOne-1, chance); err != nil {
			s.mu.Lock()
			s.faults = append(s.faults, fmt.Sprintf("viewer %d, turn %d: %v", n, turn, err))
			s.mu.Unlock()
			return
		}
		s.turns.Add(1)
	}
}

// begin starts a turn, over outages of the gateway.
func (s *soak) begin(ctx context.Context, key string, words int) (agent.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		r, err := s.door.Start(ctx, agent.TurnRequest{Message: fmt.Sprintf("say %d words", words), IdempotencyKey: key})
		if agent.CodeOf(err) != agent.CodeUnavailable || ctx.Err() != nil {
			return r, err
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// watch sees one turn whole.
func (s *soak) watch(ctx context.Context, key string, words int, slowly bool, chance *rand.Rand) error {
	receipt, err := s.begin(ctx, key, words)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	var events []agent.Event
	for {
		over, err := s.look(ctx, receipt.TurnID, &events, slowly, chance)
		switch {
		case over:
			return s.judge(events, words)
		case err != nil && agent.CodeOf(err) != agent.CodeUnavailable: // a gateway that is away comes back
			return fmt.Errorf("follow turn %s behind %d: %w", receipt.TurnID, len(events), err)
		case ctx.Err() != nil:
			return ctx.Err()
		}
		select {
		case <-time.After(time.Duration(chance.IntN(300)) * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// look follows a turn for some events and leaves; over is true behind the last one.
func (s *soak) look(ctx context.Context, id agent.TurnID, events *[]agent.Event, slowly bool, chance *rand.Rand) (over bool, err error) {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	stay := 5 + chance.IntN(200)
	for e, err := range s.door.Follow(ctx, id, lastIndex(*events)) {
		if err != nil {
			return false, err
		}
		if last := lastIndex(*events); !isNext(last, &e) {
			return false, agent.Errorf(agent.CodeInternal, "", "event %d behind %d", e.Meta.EventIndex, last)
		}
		*events = append(*events, e)
		s.events.Add(1)
		if e.Type == agent.EventReset {
			s.resets.Add(1)
		}
		if e.Terminal() {
			over = true
			continue // nothing may come behind it
		}
		if over {
			return false, agent.Errorf(agent.CodeInternal, "", "event %d behind the end", e.Meta.EventIndex)
		}
		if slowly {
			<-time.After(slowPause)
		}
		if stay--; stay == 0 {
			s.left.Add(1)
			return false, nil
		}
	}
	return over, nil
}

// judge holds what was seen of a turn against its result.
func (s *soak) judge(events []agent.Event, words int) error {
	last := events[len(events)-1]
	switch {
	case last.Status != agent.StatusCompleted || last.Result == nil:
		return fmt.Errorf("turn %s is %s: %+v", last.Meta.TurnID, last.Status, last.Error)
	case last.Result.Output != streamtest.Shown(events):
		return fmt.Errorf("turn %s shows another text than its result", last.Meta.TurnID)
	case len(strings.Fields(last.Result.Output)) != words:
		return fmt.Errorf("turn %s has %d words, want %d", last.Meta.TurnID, len(strings.Fields(last.Result.Output)), words)
	}
	return nil
}
