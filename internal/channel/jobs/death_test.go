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

// A bridge dies, or its connection breaks, at each command that it sends to Redis, before or after Redis has run the command. The job still has one
// turn and one result.
func TestBridgeDiesAtAnyMoment(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	var served sync.WaitGroup
	t.Cleanup(served.Wait)
	healthy := realBench(t, redis, "healthy")
	d, cfg := newDialer(), healthy.config()
	cfg.Redis = d.dialFor(healthy.options())
	healthy.serve(cfg)
	healthy.push(job.Job{JobID: "first", Prompt: "p"})
	healthy.wait("first")
	writes := d.writeCount() // for one job, and on a slow machine for renewals of the lease
	require.GreaterOrEqual(t, writes, 10)
	for _, kind := range []struct {
		name              string
		isSent, mayRedial bool
	}{
		{"dies before a command", false, false},
		{"dies after a command", true, false},
		{"connection breaks before a command", false, true},
		{"connection breaks after a command", true, true},
	} {
		for n := 1; n <= writes; n++ {
			t.Run(fmt.Sprintf("%s %d", kind.name, n), func(t *testing.T) {
				b := realBench(t, redis, fmt.Sprintf("%t-%t-%d", kind.isSent, kind.mayRedial, n))
				d := newDialer()
				d.failAt, d.isSent, d.mayRedial = n, kind.isSent, kind.mayRedial
				cfg := b.config()
				cfg.Redis, cfg.Lease, cfg.Drain = d.dialFor(b.options()), lease, time.Millisecond
				stop := b.serveUnchecked(cfg, &served)
				defer stop()
				b.push(job.Job{JobID: "first", Prompt: "p"})
				<-d.failed
				if !kind.mayRedial {
					stop()
					cfg.Redis = b.options()
					defer b.serveUnchecked(cfg, &served)()
				}
				b.push(job.Job{JobID: "last", Prompt: "p"})
				require.Equal(t, job.StatusCompleted, b.wait("first").Status)
				require.Equal(t, job.StatusCompleted, b.wait("last").Status)
				b.eventually("all jobs to be done", b.isEmpty)
				b.requireNoLists()
				require.Equal(t, 2, b.inbox.turnCount())
			})
		}
	}
}

// serveUnchecked starts a bridge whose error is ignored. stop ends it, without waiting; served waits for it.
func (b *bench) serveUnchecked(cfg jobs.Config, served *sync.WaitGroup) (stop func()) {
	b.t.Helper()
	bridge, err := jobs.New(cfg)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served.Go(func() { _ = bridge.Serve(ctx, b.inbox) })
	return cancel
}

// isEmpty reports whether no job is in the queue or in a processing list.
func (b *bench) isEmpty() bool {
	keys, err := redis.Strings(b.raw.Do(context.Background(), "KEYS", b.queue+":processing:*"))
	return err == nil && len(keys) == 0 && b.length(b.queue) == 0
}

// A bridge that renews its lease keeps its jobs, however long they take.
func TestLiveBridgeKeepsItsJobs(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	cfg := b.config()
	cfg.Lease = lease
	first := b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.eventually("the first bridge to have the job", func() bool { return b.inbox.submitCount() == 1 })
	d, registry := newDialer(), prometheus.NewRegistry()
	cfg.Redis, cfg.Metrics = d.dialFor(b.options()), registry
	second := b.serve(cfg)
	b.eventually("the second bridge to have looked for dead bridges for several leases", func() bool { return d.writeCount() > 30 })
	require.Equal(t, 1, b.inbox.submitCount())
	require.InDelta(t, 0, metric(t, registry, "jobs_adopted_total"), 0)
	b.inbox.finish("job-j")
	b.wait("j")
	first()
	second()
	b.requireNoLists()
}

// A bridge is suspended until its lease has expired, and goes on. Meanwhile another bridge has adopted its job and published the one result.
func TestBridgeWakesUpAfterItsLease(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	d := newDialer()
	cfg := b.config()
	cfg.Redis, cfg.Lease = d.dialFor(b.options()), lease
	stopSuspended := b.serve(cfg)
	b.push(job.Job{JobID: "j", Prompt: "hold"})
	b.eventually("the first bridge to have the job", func() bool { return b.inbox.submitCount() == 1 })
	d.blocked.Lock()
	wake := sync.OnceFunc(d.blocked.Unlock)
	defer wake()
	registry := prometheus.NewRegistry()
	cfg.Redis, cfg.Metrics = b.options(), registry
	stop := b.serve(cfg)
	b.eventually("the second bridge to have the job", func() bool { return b.inbox.submitCount() == 2 })
	b.inbox.finish("job-j")
	require.Equal(t, job.StatusCompleted, b.wait("j").Status)
	require.GreaterOrEqual(t, metric(t, registry, "jobs_adopted_total"), 1.0, "the last pop of the suspended bridge may take the job again")
	b.do("DEL", "agent:jobs:attempt:j:0") // so that the mark does not prevent a second result
	wake()
	b.push(job.Job{JobID: "k", Prompt: "p"}) // both bridges take jobs again
	b.push(job.Job{JobID: "l", Prompt: "p"})
	b.wait("k")
	b.wait("l")
	stopSuspended()
	stop()
	b.requireNoLists()
	require.Equal(t, 3, b.inbox.turnCount())
}

// A suspended bridge goes on before the bridge that adopted its jobs has finished them. Both see the turns end, and each job has one result.
func TestTwoBridgesWithOneJob(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	d := newDialer()
	cfg := b.config()
	cfg.Redis, cfg.Lease = d.dialFor(b.options()), lease
	stopSuspended := b.serve(cfg)
	for i := range 20 {
		b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "hold"})
	}
	b.eventually("the first bridge to have all jobs", func() bool { return b.inbox.submitCount() == 20 })
	d.blocked.Lock()
	wake := sync.OnceFunc(d.blocked.Unlock)
	defer wake()
	cfg.Redis = b.options()
	stop := b.serve(cfg)
	b.eventually("the second bridge to have all jobs", func() bool { return b.inbox.submitCount() == 40 })
	wake()
	for i := range 20 {
		b.inbox.finish(agent.TurnID(fmt.Sprint("job-", i)))
	}
	for i := range 20 {
		require.Equal(t, job.StatusCompleted, b.wait(fmt.Sprint(i)).Status)
	}
	stopSuspended()
	stop()
	b.requireNoLists()
	require.Equal(t, 20, b.inbox.turnCount())
}

// Redis crashes several times while jobs run, and starts again with the commands that it had acknowledged.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	s := startRedis(t)
	b := realBench(t, s, "agent")
	cfg := b.config()
	cfg.Lease, cfg.Concurrency = time.Second, 4
	first, second := b.serve(cfg), b.serve(cfg)
	const n = 60
	waitForResults := b.takeResults(n)
	for i := range n {
		prompt := "p"
		if i%10 == 0 {
			prompt = "hold"
		}
		for {
			err := b.client.Push(t.Context(), job.Job{JobID: fmt.Sprint(i), Prompt: prompt})
			if err == nil || agent.CodeOf(err) == agent.CodeConflict { // an earlier try pushed it, and it has ended
				break
			}
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
		}
		if i%20 == 15 {
			s.kill()
			s.start()
		}
	}
	for i := 0; i < n; i += 10 {
		id := agent.TurnID(fmt.Sprint("job-", i))
		b.eventually("the turn to run", func() bool { _, ok := b.inbox.envelope(id); return ok })
		if i == 30 {
			s.kill()
		}
		b.inbox.finish(id)
		if i == 30 {
			s.start()
		}
	}
	waitForResults()
	b.eventually("all jobs to be done", b.isEmpty)
	first()
	second()
	b.requireNoLists()
	require.Equal(t, n, b.inbox.turnCount())
}

// takeResults takes the results of the jobs 0 to n-1 in the background. wait waits until all were taken, and fails if a job has failed.
func (b *bench) takeResults(n int) (wait func()) {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	ids := make(chan int)
	for range 8 {
		wg.Go(func() {
			for i := range ids {
				ctx, cancel := context.WithTimeout(context.Background(), 2*testTimeout)
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

// Five bridges run 300 jobs. Every few milliseconds a random one dies and another one starts. There are 300 turns and 300 results.
func TestBridgesDieAllTheTime(t *testing.T) {
	t.Parallel()
	b := realBench(t, startRedis(t), "agent")
	const n, bridges = 300, 5
	var served sync.WaitGroup
	start := func() (kill func()) {
		d := newDialer()
		cfg := b.config()
		cfg.Redis, cfg.Lease, cfg.Drain, cfg.Concurrency = d.dialFor(b.options()), lease, time.Millisecond, 8
		stop := b.serveUnchecked(cfg, &served)
		return func() {
			d.kill()
			stop()
		}
	}
	kills := make([]func(), bridges)
	for i := range kills {
		kills[i] = start()
	}
	waitForResults := b.takeResults(n)
	for i := range n {
		b.push(job.Job{JobID: fmt.Sprint(i), Prompt: "slow"})
		if i%2 == 0 {
			victim := rand.N(bridges)
			kills[victim]()
			kills[victim] = start()
			mark := fmt.Sprintf("%s:attempt:%d:0", b.queue, rand.N(i+1)) // of a random job, so that the time until the next death varies
			b.eventually("a job to be taken", func() bool { return b.do("EXISTS", mark) == int64(1) })
		}
	}
	waitForResults()
	b.eventually("all jobs to be done", b.isEmpty)
	for _, kill := range kills {
		kill()
	}
	served.Wait()
	b.requireNoLists()
	require.Equal(t, n, b.inbox.turnCount())
	require.Greater(t, b.inbox.submitCount(), n, "no bridge died while it had a job")
	t.Logf("%d jobs, %d deaths, %d submissions", n, n/2, b.inbox.submitCount())
}
