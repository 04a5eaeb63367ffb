package jobs_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/job"
	"github.com/turnstone-run/turnstone/internal/redis"
)

const testTimeout = 30 * time.Second

// bench has a Redis, an inbox and a producer.
type bench struct {
	t       *testing.T
	mini    *miniredis.Miniredis // nil: a real server
	options func() *redis.Options
	raw     *redis.Client
	client  *jobs.Client
	inbox   *inbox
	queue   string
	prefix  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	mini := miniredis.RunT(t)
	b := &bench{t: t, mini: mini, options: func() *redis.Options { return &redis.Options{Address: mini.Addr()} }, queue: "agent:jobs", prefix: "agent:results"}
	b.open()
	return b
}

// realBench returns a bench on a server that several tests share. name must be unique among them.
func realBench(t *testing.T, s *server, name string) *bench {
	t.Helper()
	b := &bench{t: t, options: s.options, queue: name + ":jobs", prefix: name + ":results"}
	b.open()
	return b
}

func (b *bench) open() {
	b.inbox = newInbox()
	b.raw = redis.New(*b.options())
	var err error
	b.client, err = jobs.NewClient(jobs.ClientConfig{Redis: b.options(), Queue: b.queue, ResultPrefix: b.prefix})
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		require.NoError(b.t, b.client.Close())
		require.NoError(b.t, b.raw.Close())
	})
}

func (b *bench) config() jobs.Config {
	return jobs.Config{Redis: b.options(), Queue: b.queue, ResultPrefix: b.prefix}
}

// serve starts a bridge. stop ends it and waits until it has returned.
func (b *bench) serve(cfg jobs.Config) (stop func()) {
	b.t.Helper()
	bridge, err := jobs.New(cfg)
	require.NoError(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- bridge.Serve(ctx, b.inbox) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(b.t, <-done)
		})
	}
	b.t.Cleanup(stop)
	return stop
}

func (b *bench) push(j job.Job) {
	b.t.Helper()
	require.NoError(b.t, b.client.Push(b.t.Context(), j))
}

func (b *bench) pushRaw(raw string) {
	b.t.Helper()
	b.do("RPUSH", b.queue, raw)
}

// do runs a Redis command, which must succeed.
func (b *bench) do(command string, args ...any) any {
	b.t.Helper()
	reply, err := b.raw.Do(context.Background(), command, args...)
	require.NoError(b.t, err)
	return reply
}

func (b *bench) keys(pattern string) []string {
	b.t.Helper()
	keys, err := redis.Strings(b.do("KEYS", pattern), nil)
	require.NoError(b.t, err)
	return keys
}

func (b *bench) wait(id string) job.Result {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), testTimeout)
	defer cancel()
	r, err := b.client.Wait(ctx, id)
	require.NoError(b.t, err)
	return r
}

func (b *bench) eventually(what string, condition func() bool) {
	b.t.Helper()
	require.Eventually(b.t, condition, testTimeout, 5*time.Millisecond, what)
}

func (b *bench) length(key string) int {
	return int(b.do("LLEN", key).(int64))
}

// requireNoLists fails if a job or a result is left in Redis, for example a second result.
func (b *bench) requireNoLists() {
	b.t.Helper()
	for _, key := range b.keys("*") {
		if strings.HasPrefix(key, b.queue) || strings.HasPrefix(key, b.prefix) {
			require.NotEqual(b.t, "list", b.do("TYPE", key), key)
		}
	}
}

// metric returns the value of a counter or gauge, or -1 if it does not exist.
func metric(t *testing.T, from prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return -1
}
