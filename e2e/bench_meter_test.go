//go:build linux

package e2e_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"
)

// meter reads what the processes of a target have used up.
type meter struct {
	process    int // the relay, or the worker that is also the gateway
	temporal   int // 0: there is none
	postmaster int // 0: there is none
	db         *pgx.Conn
}

// spent is processor time in seconds, and bytes, since the processes began.
type spent struct{ process, postgres, temporal, wal, stored float64 }

// watchDatabase lets the meter read PostgreSQL too.
func (m *meter) watchDatabase(b *testing.B, url string) {
	b.Helper()
	var err error
	m.db, err = pgx.Connect(b.Context(), url)
	require.NoError(b, err)
	b.Cleanup(func() { _ = m.db.Close(context.Background()) })
	var backend int
	require.NoError(b, m.db.QueryRow(b.Context(), "SELECT pg_backend_pid()").Scan(&backend))
	m.postmaster = procStat(b, backend).PPID
}

func procStat(b *testing.B, pid int) procfs.ProcStat {
	b.Helper()
	proc, err := procfs.NewProc(pid)
	require.NoError(b, err)
	stat, err := proc.Stat()
	require.NoError(b, err)
	return stat
}

func (m *meter) read(b *testing.B) (s spent) {
	b.Helper()
	s.process = procStat(b, m.process).CPUTime()
	if m.db == nil {
		return s
	}
	s.temporal = procStat(b, m.temporal).CPUTime()
	require.NoError(b, m.db.QueryRow(b.Context(),
		"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8, pg_database_size(current_database())::float8").Scan(&s.wal, &s.stored))
	all, err := procfs.AllProcs()
	require.NoError(b, err)
	for _, proc := range all {
		stat, err := proc.Stat()
		if err == nil && (stat.PPID == m.postmaster || stat.PID == m.postmaster) { // one that has ended is in its parent's time
			s.postgres += stat.CPUTime()
		}
	}
	stat := procStat(b, m.postmaster)
	const ticks = 100
	s.postgres += float64(stat.CUTime+stat.CSTime) / ticks
	return s
}

// report gives what each of n things has cost since before, and returns its processor time in seconds.
func (m *meter) report(b *testing.B, before spent, n float64, thing string) float64 {
	b.Helper()
	after := m.read(b)
	each := func(unit string, used float64) { b.ReportMetric(used/n, unit+"/"+thing) }
	each("process-ms", (after.process-before.process)*1e3)
	if m.db != nil {
		each("postgres-ms", (after.postgres-before.postgres)*1e3)
		each("temporal-ms", (after.temporal-before.temporal)*1e3)
		each("wal-KB", (after.wal-before.wal)/1e3)
		each("database-KB", (after.stored-before.stored)/1e3)
	}
	return (after.process - before.process + after.postgres - before.postgres + after.temporal - before.temporal) / n
}

// peakMemory returns the most memory that the process has had resident, in MB.
func (m *meter) peakMemory(b *testing.B) float64 {
	b.Helper()
	proc, err := procfs.NewProc(m.process)
	require.NoError(b, err)
	status, err := proc.NewStatus()
	require.NoError(b, err)
	return float64(status.VmHWM) / 1e6
}
