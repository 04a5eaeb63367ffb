package jobs_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
)

const lease = 300 * time.Millisecond

// A bridge dies, or its connection breaks, at any one of the things that it says to Redis, before or after Redis hears it. The job has one
// turn and one result, whoever gives it.
func TestDeathAtAnyMoment(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	var served sync.WaitGroup
	t.Cleanup(served.Wait)
	fine := realBench(t, redis, "fine")
	w, cfg := newWire(), fine.config()
	cfg.Redis = w.through(fine.options())
	fine.serve(cfg)
	fine.push(job.Job{JobID: "first", Prompt: "p"})
	fine.wait("first")
	moments := w.count() // every write that a job took, and on a slow machine a sign of life: each is tried
	require.GreaterOrEqual(t, moments, 10)
	for _, kind := range []struct {
		name         string
		sent, hiccup bool
	}{
		{"dies unheard", false, false},
		{"dies heard", true, false},
		{"breaks unheard", false, true},
		{"breaks heard", true, true},
	} {
		for at := 1; at <= moments; at++ {
			t.Run(fmt.Sprintf("%s at %d", kind.name, at), func(t *testing.T) {
				b := realBench(t, redis, fmt.Sprintf("%t-%t-%d", kind.sent, kind.hiccup, at))
				w := newWire()
				w.at, w.sent, w.hiccup = at, kind.sent, kind.hiccup
				cfg := b.config()
				cfg.Redis, cfg.Lease, cfg.Drain = w.through(b.options()), lease, time.Millisecond
				first := b.serveLoosely(cfg, &served)
				defer first()
				b.push(job.Job{JobID: "first", Prompt: "p"})
				<-w.wrong
				if !kind.hiccup {
					first()
					cfg.Redis = b.options()
					defer b.serveLoosely(cfg, &served)()
				}
				b.push(job.Job{JobID: "last", Prompt: "p"})
				require.Equal(t, job.StatusCompleted, b.wait("first").Status)
				require.Equal(t, job.StatusCompleted, b.wait("last").Status)
				b.until("all is over", b.empty)
				b.nothingLeft()
				require.Equal(t, 2, b.inbox.count())
			})
		}
	}
}

// serveLoosely starts a bridge; stop tells it to leave, and served knows when it has.
func (b *bench) serveLoosely(cfg jobs.Config, served *sync.WaitGroup) (stop func()) {
	b.t.Helper()
	bridge, err := jobs.New(cfg)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served.Go(func() { _ = bridge.Serve(ctx, b.inbox) })
	return cancel
}

// empty reports whether no list of the bench holds anything.
func (b *bench) empty() bool {
	keys, err := redis.Strings(b.raw.Do(context.Background(), "KEYS", b.queue+":processing:*"))
	return err == nil && len(keys) == 0 && b.length(b.queue) == 0
}

// A bridge that lives keeps its jobs, however long they take.
func TestTheLivingAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	cfg := b.config()
	cfg.Lease = lease
	first := b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.until("first has it", func() bool { return b.inbox.submitted() == 1 })
	w, registry := newWire(), prometheus.NewRegistry()
	cfg.Redis, cfg.Metrics = w.through(b.options()), registry
	second := b.serve(cfg)
	b.until("second has looked around, for several leases", func() bool { return w.count() > 30 })
	require.Equal(t, 1, b.inbox.submitted())
	require.InDelta(t, 0, metric(t, registry, "jobs_adopted_total"), 0)
	b.inbox.let("job-j")
	b.wait("j")
	first()
	second()
	b.nothingLeft()
}

// A bridge is stopped, thought dead, and wakes up: its job was another's by then, which published the one result.
func TestWakingUpFromTheDead(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	w := newWire()
	cfg := b.config()
	cfg.Redis, cfg.Lease = w.through(b.options()), lease
	stopSleeper := b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.until("the sleeper has it", func() bool { return b.inbox.submitted() == 1 })
	w.gate.Lock()
	wake := sync.OnceFunc(w.gate.Unlock)
	defer wake()
	registry := prometheus.NewRegistry()
	cfg.Redis, cfg.Metrics = b.options(), registry
	stop := b.serve(cfg)
	b.until("the other has it", func() bool { return b.inbox.submitted() == 2 })
	b.inbox.let("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	require.GreaterOrEqual(t, metric(t, registry, "jobs_adopted_total"), 1.0, "the sleeper's last pop may take it again in its sleep")
	b.do("DEL", "agent:jobs:attempt:j:0") // not what keeps it from publishing
	wake()
	b.push(job.Job{JobID: "k", Prompt: "p"}) // and it works on, with the other
	b.push(job.Job{JobID: "l", Prompt: "p"})
	b.wait("k")
	b.wait("l")
	stopSleeper()
	stop()
	b.nothingLeft()
	require.Equal(t, 3, b.inbox.count())
}

// It wakes up before the other has finished, and its own follower ends at the same time: still one result.
func TestTwoBridgesWithOneJob(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	w := newWire()
	cfg := b.config()
	cfg.Redis, cfg.Lease = w.through(b.options()), lease
	stopSleeper := b.serve(cfg)
	for i := range 20 {
		b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "hold"})
	}
	b.until("the sleeper has all", func() bool { return b.inbox.submitted() == 20 })
	w.gate.Lock()
	wake := sync.OnceFunc(w.gate.Unlock)
	defer wake()
	cfg.Redis = b.options()
	stop := b.serve(cfg)
	b.until("the other has all", func() bool { return b.inbox.submitted() == 40 })
	wake()
	for i := range 20 {
		b.inbox.let(agent.TurnID(fmt.Sprint("job-", i)))
	}
	for i := range 20 {
		require.Equal(t, job.StatusCompleted, b.wait(fmt.Sprint(i)).Status)
	}
	stopSleeper()
	stop()
	b.nothingLeft()
	require.Equal(t, 20, b.inbox.count())
}

// Redis crashes in the midst of it and comes back with what it acknowledged.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	b := realBench(t, s, "agent")
	cfg := b.config()
	cfg.Lease, cfg.Concurrency = time.Second, 4
	first, second := b.serve(cfg), b.serve(cfg)
	const n = 60
	waiting := b.waitForAll(n)
	for i := range n {
		prompt := "p"
		if i%10 == 0 {
			prompt = "hold"
		}
		for {
			err := b.client.Push(t.Context(), job.Job{JobID: fmt.Sprint(i), Prompt: prompt})
			if err == nil || agent.CodeOf(err) == agent.CodeConflict { // it was pushed, and has ended
				break
			}
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err)) // pushed again, it is still one
		}
		if i%20 == 15 {
			s.kill()
			s.start()
		}
	}
	for i := 0; i < n; i += 10 {
		id := agent.TurnID(fmt.Sprint("job-", i))
		b.until("held", func() bool { _, ok := b.inbox.envelope(id); return ok })
		if i == 30 {
			s.kill()
		}
		b.inbox.let(id)
		if i == 30 {
			s.start()
		}
	}
	waiting()
	b.until("all is over", b.empty)
	first()
	second()
	b.nothingLeft()
	require.Equal(t, n, b.inbox.count())
}

// waitForAll takes the results of jobs 0 to n-1; the function that it returns waits until all are there.
func (b *bench) waitForAll(n int) (all func()) {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	ids := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range ids {
				ctx, cancel := context.WithTimeout(context.Background(), 2*soon)
				r, err := b.client.Wait(ctx, fmt.Sprint(i))
				cancel()
				if err == nil && r.Status != job.StatusCompleted {
					err = r.Error.AsError()
				}
				if err != nil {
					errs <- fmt.Errorf("job %d: %w", i, err)
				}
			}
		})
	}
	wg.Go(func() {
		defer close(ids)
		for i := range n {
			ids <- i
		}
	})
	return func() {
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(b.t, err)
		}
	}
}

// Five bridges die at random, one every few milliseconds, while 300 jobs flow: 300 turns, 300 results.
func TestBridgesDieAllTheTime(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	const n, bridges = 300, 5
	var served sync.WaitGroup
	start := func() (kill func()) {
		w := newWire()
		cfg := b.config()
		cfg.Redis, cfg.Lease, cfg.Drain, cfg.Concurrency = w.through(b.options()), lease, time.Millisecond, 8
		stop := b.serveLoosely(cfg, &served)
		return func() {
			w.kill()
			stop()
		}
	}
	kills := make([]func(), bridges)
	for i := range kills {
		kills[i] = start()
	}
	waiting := b.waitForAll(n)
	for i := range n {
		b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "slow"})
		if i%2 == 0 {
			victim := rand.N(bridges)
			kills[victim]()
			kills[victim] = start()
			mark := fmt.Sprintf("%s:attempt:%d:0", b.queue, rand.N(i+1)) // of which job is chance: deaths come when they come
			b.until("a job is taken", func() bool { return b.do("EXISTS", mark) == int64(1) })
		}
	}
	waiting()
	b.until("all is over", b.empty)
	for _, kill := range kills {
		kill()
	}
	served.Wait()
	b.nothingLeft()
	require.Equal(t, n, b.inbox.count())
	require.Greater(t, b.inbox.submitted(), n, "some death must have hit")
	t.Logf("%d jobs, %d deaths, %d submissions", n, n/2, b.inbox.submitted())
}
