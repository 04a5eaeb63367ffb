package pgstream_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
)

// benchmarkPools runs a benchmark on a server that forgets (fsync off: the cost of the code) and on one that keeps what it
// promised (fsync on: with the cost of the disk).
func benchmarkPools(b *testing.B, run func(b *testing.B, pool *pgxpool.Pool)) {
	b.Run("fsync=off", func(b *testing.B) { run(b, migrated(b, postgrestest.NewEmpty(b)+"&pool_max_conns=10")) })
	b.Run("fsync=on", func(b *testing.B) {
		dir, err := os.MkdirTemp("", "turnstone-bench-")
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, os.RemoveAll(dir)) })
		require.NoError(b, os.Chmod(dir, 0o755))
		server, err := pgdev.Start(b.Context(), pgdev.Config{DataDir: filepath.Join(dir, "data")})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, server.Stop(context.Background())) })
		run(b, migrated(b, server.DSN()+"&pool_max_conns=10"))
	})
}

// BenchmarkAppend is one producer that waits for each batch.
func BenchmarkAppend(b *testing.B) {
	benchmarkPools(b, func(b *testing.B, pool *pgxpool.Pool) {
		for _, size := range []int{1, 10, 100} {
			b.Run(fmt.Sprint("events=", size), func(b *testing.B) {
				log := open(b, pool, pgstream.Config{})
				f, _, err := log.Begin(b.Context(), b.Name()+fmt.Sprint(b.N), "model/1")
				require.NoError(b, err)
				events := make([]agent.Event, size)
				for i := range events {
					events[i] = agent.Event{Type: agent.EventToken, Text: "some words"}
				}
				batch := int64(0)
				for b.Loop() {
					batch++
					if _, err := log.Append(b.Context(), f, batch, events); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	})
}

// BenchmarkFollow is streams at 20 batches a second each, with one follower each in another process's log: from Append being
// called to the event being yielded.
func BenchmarkFollow(b *testing.B) {
	benchmarkPools(b, func(b *testing.B, pool *pgxpool.Pool) {
		for _, streams := range []int{1, 100} {
			b.Run(fmt.Sprint("streams=", streams), func(b *testing.B) {
				for b.Loop() {
					relay(b, pool, fmt.Sprint(b.Name(), time.Now().UnixNano()), streams)
				}
			})
		}
	})
}

func relay(b *testing.B, pool *pgxpool.Pool, prefix string, streams int) {
	const batches, interval = 40, 50 * time.Millisecond
	writer, reader := open(b, pool, pgstream.Config{}), open(b, pool, pgstream.Config{})
	var (
		mu             sync.Mutex
		delays, writes []time.Duration
	)
	g, ctx := errgroup.WithContext(b.Context())
	for s := range streams {
		id := fmt.Sprint(prefix, "/", s)
		sent := make([]time.Time, batches+2)
		var sentMu sync.Mutex
		g.Go(func() error {
			var got []time.Duration
			for e, err := range reader.Follow(ctx, id, 0) {
				if err != nil {
					return err
				}
				sentMu.Lock()
				got = append(got, time.Since(sent[e.Meta.EventIndex]))
				sentMu.Unlock()
			}
			mu.Lock()
			defer mu.Unlock()
			delays = append(delays, got...)
			return nil
		})
		g.Go(func() error {
			f, _, err := writer.Begin(ctx, id, "model/1")
			if err != nil {
				return err
			}
			time.Sleep(interval * time.Duration(s) / time.Duration(streams)) // spread
			tick := time.NewTicker(interval)
			defer tick.Stop()
			for i := range int64(batches) {
				<-tick.C
				start := time.Now()
				sentMu.Lock()
				sent[i+1] = start
				sentMu.Unlock()
				if _, err := writer.Append(ctx, f, i, token("some words")); err != nil {
					return err
				}
				took := time.Since(start)
				mu.Lock()
				writes = append(writes, took)
				mu.Unlock()
			}
			sentMu.Lock()
			sent[batches+1] = time.Now()
			sentMu.Unlock()
			return writer.Close(ctx, id, completed)
		})
	}
	require.NoError(b, g.Wait())
	require.Len(b, delays, streams*(batches+1))
	report(b, "delay", delays)
	report(b, "append", writes)
}

func report(b *testing.B, name string, d []time.Duration) {
	slices.Sort(d)
	b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-p50-ms")
	b.ReportMetric(float64(d[len(d)*99/100].Microseconds())/1000, name+"-p99-ms")
}

// BenchmarkApart is streams of 20 tokens a second each, with one follower each in another process: through the relay, and through the database.
// cpu-ms/1k is the processor time of both processes for a thousand tokens, statements those that they asked of PostgreSQL in that time.
func BenchmarkApart(b *testing.B) {
	for _, streams := range []int{240, 1000} {
		for _, how := range []string{"relay", "database"} {
			b.Run(fmt.Sprintf("streams=%d/%s", streams, how), func(b *testing.B) {
				for b.Loop() {
					followApart(b, streams, how == "relay")
				}
			})
		}
	}
}

// countStatements counts what a pool asks of PostgreSQL.
type countStatements struct{ n atomic.Int64 }

func (c *countStatements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	c.n.Add(1)
	return ctx
}

func (*countStatements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

func followApart(b *testing.B, streams int, throughRelay bool) {
	const warm, tokens, parts, interval = 60, 100, 10, 50 * time.Millisecond // 3 s, in which the viewers find the owner, and 5 s
	cfg, err := pgxpool.ParseConfig(postgrestest.NewEmpty(b) + "&pool_max_conns=10")
	require.NoError(b, err)
	migrated(b, cfg.ConnString())
	statements := &countStatements{}
	cfg.ConnConfig.Tracer = statements
	counted, err := pgxpool.NewWithConfig(b.Context(), cfg)
	require.NoError(b, err)
	b.Cleanup(counted.Close)
	var writer, reader *pgstream.Log
	poll := pgstream.Config{Poll: 2 * time.Second}
	if throughRelay {
		writer, reader = relayed(b, counted, poll, poll)
	} else {
		writer, reader = open(b, counted, poll), open(b, counted, poll)
	}
	var (
		g, ctx = errgroup.WithContext(b.Context())
		fences = make([]agent.Fence, streams)
		mu     sync.Mutex
		delays []time.Duration
	)
	for s := range fences {
		fences[s], _, err = writer.Begin(ctx, fmt.Sprint("s", s), "model/1")
		require.NoError(b, err)
		g.Go(func() error {
			var got []time.Duration
			for e, err := range reader.Follow(ctx, fences[s].StreamID, 0) {
				if err != nil {
					return err
				}
				if e.Meta.EventIndex > warm && !e.Terminal() {
					got = append(got, time.Since(e.Meta.Time))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			delays = append(delays, got...)
			return nil
		})
	}
	tick := time.NewTicker(interval / parts)
	defer tick.Stop()
	write := func(from, to int64) { // spread evenly
		for step := from * parts; step < to*parts; step++ {
			<-tick.C
			for s := int(step % parts); s < streams; s += parts {
				_, err := writer.Append(ctx, fences[s], step/parts, token("some words"))
				require.NoError(b, err)
			}
		}
	}
	write(0, warm)
	before, asked, since := processorTime(b), statements.n.Load(), time.Now()
	write(warm, warm+tokens)
	took := time.Since(since)
	used, n := processorTime(b)-before, statements.n.Load()-asked
	for s := range fences {
		require.NoError(b, writer.Close(ctx, fences[s].StreamID, completed))
	}
	require.NoError(b, g.Wait())
	require.Len(b, delays, streams*tokens)
	b.ReportMetric(float64(used.Microseconds())/1000/float64(streams*tokens)*1000, "cpu-ms/1k")
	b.ReportMetric(float64(n)/took.Seconds(), "statements/s")
	b.ReportMetric(float64(streams*tokens)/took.Seconds(), "tokens/s")
	report(b, "delay", delays)
}
