//go:build linux

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack/offline"
)

// BenchmarkCapacity is what a turn costs each part of an installation, in milliseconds of processor time and bytes, with 16 at once: a worker process that is
// also the gateway, PostgreSQL, and everything else in this one (Temporal with SQLite, the model, the client). docs/operations.md has the table.
func BenchmarkCapacity(b *testing.B) {
	binary := build(b, "../worker")
	for _, kind := range []struct{ name, message string }{
		{"answer", "say 100 words"},
		{"tool", "fetch flights from NYC to LAX, sort by price, show top 3"},
	} {
		for _, mode := range []agent.Mode{agent.ModeDurable, agent.ModeDirect} {
			b.Run(kind.name+"/"+string(mode), func(b *testing.B) {
				quick, err := offline.Start(b.Context(), "127.0.0.1:0", offline.Config{
					FlightsURL: shared.stack.Flights.URL() + "/flights", TokenDelay: -1, MaxConcurrent: 1024,
				})
				require.NoError(b, err)
				b.Cleanup(func() { _ = quick.Close(context.Background()) })
				at := newBench(b, nothingRemembered, func(c *app.Config) { c.LLM.BaseURL = quick.BaseURL() })
				worker := at.spawn(binary, freeAddr(b), []string{
					"TURNSTONE_DATABASE_MAX_CONNS=20", "TURNSTONE_TOOLS_PIPELINE_CACHE_TTL=0", "TURNSTONE_EGRESS_ALLOW_PRIVATE=" + at.set.Egress.AllowPrivate[0],
				})
				worker.capacity(b, at, agent.TurnRequest{Message: kind.message, Mode: mode})
			})
		}
	}
}

// capacity runs turns, 16 at once, and reports what they cost.
func (p *process) capacity(b *testing.B, at *bench, req agent.TurnRequest) {
	b.Helper()
	const atOnce = 16
	require.NoError(b, p.whole(b.Context(), req))
	meter := newMeter(b, p.cmd.Process.Pid, at.set.Database.URL.Reveal())
	before, began := meter.read(b), time.Now()
	next := make(chan struct{})
	var wg sync.WaitGroup
	for range atOnce {
		wg.Go(func() {
			for range next {
				if err := p.whole(b.Context(), req); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for b.Loop() {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
	took, after := time.Since(began), meter.read(b)
	each := func(unit string, n float64) { b.ReportMetric(n/float64(b.N), unit+"/turn") }
	b.ReportMetric(float64(b.N)/took.Seconds(), "turns/s")
	each("worker-ms", (after.worker-before.worker)*1e3)
	each("postgres-ms", (after.postgres-before.postgres)*1e3)
	each("rest-ms", (after.rest-before.rest)*1e3)
	each("wal-KB", (after.wal-before.wal)/1e3)
	each("database-KB", (after.stored-before.stored)/1e3)
	b.ReportMetric(0, "ns/op")
}

// whole runs a turn and sees it to its end.
func (p *process) whole(ctx context.Context, req agent.TurnRequest) error {
	receipt, err := p.door.Start(ctx, req)
	if err != nil {
		return err
	}
	for e, err := range p.door.Follow(ctx, receipt.TurnID, 0) {
		if err != nil {
			return err
		}
		if e.Terminal() && e.Status != agent.StatusCompleted {
			return fmt.Errorf("turn %s is %s", receipt.TurnID, e.Status)
		}
	}
	return nil
}

// meter reads what the parts have used up.
type meter struct {
	proc       procfs.FS
	worker     int
	postmaster int
	db         *pgx.Conn
}

// spent is processor time in seconds and bytes, since ever.
type spent struct{ worker, postgres, rest, wal, stored float64 }

func newMeter(b *testing.B, worker int, database string) *meter {
	b.Helper()
	m := &meter{worker: worker}
	var err error
	m.proc, err = procfs.NewDefaultFS()
	require.NoError(b, err)
	m.db, err = pgx.Connect(b.Context(), database)
	require.NoError(b, err)
	b.Cleanup(func() { _ = m.db.Close(context.Background()) })
	var backend int
	require.NoError(b, m.db.QueryRow(b.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	stat := m.stat(b, backend)
	m.postmaster = stat.PPID
	return m
}

func (m *meter) stat(b *testing.B, pid int) procfs.ProcStat {
	b.Helper()
	proc, err := m.proc.Proc(pid)
	require.NoError(b, err)
	stat, err := proc.Stat()
	require.NoError(b, err)
	return stat
}

func (m *meter) read(b *testing.B) (s spent) {
	b.Helper()
	require.NoError(b, m.db.QueryRow(b.Context(),
		"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8, pg_database_size(current_database())::float8").Scan(&s.wal, &s.stored))
	s.worker, s.rest = m.stat(b, m.worker).CPUTime(), m.stat(b, os.Getpid()).CPUTime()
	all, err := m.proc.AllProcs()
	require.NoError(b, err)
	for _, proc := range all {
		stat, err := proc.Stat()
		if err == nil && (stat.PPID == m.postmaster || stat.PID == m.postmaster) { // one that has ended is in its parent's time
			s.postgres += stat.CPUTime()
		}
	}
	stat := m.stat(b, m.postmaster)
	const ticks = 100
	s.postgres += float64(stat.CUTime+stat.CSTime) / ticks
	return s
}
