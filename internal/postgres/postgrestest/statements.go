package postgrestest

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// Statements is a database with Turnstone's schema on a server of its own, which counts the statements that it is sent.
type Statements struct {
	DSN string // connections to it are counted

	t       testing.TB
	log     *observer.ObservedLogs
	conn    *pgx.Conn // for markers in the server's log
	markers int
	wal     int64
}

// Cost is what a database was asked to do.
type Cost struct {
	Statements map[string]int // by their text, BEGIN and COMMIT included; what runs within functions and triggers is not
	WAL        int64          // bytes, without full pages
}

// Count starts the server. It ends with the test.
func Count(t testing.TB) *Statements {
	t.Helper()
	core, log := observer.New(zap.DebugLevel)
	server, err := pgdev.Start(t.Context(), pgdev.Config{Ephemeral: true, Logger: zap.New(core)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Stop(context.Background())) })
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: server.DSN()})
	require.NoError(t, err)
	defer pool.Close()
	require.NoError(t, postgres.Migrate(t.Context(), pool))
	s := &Statements{DSN: server.DSN() + "&log_statement=all", t: t, log: log}
	s.conn, err = pgx.Connect(t.Context(), s.DSN)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.conn.Close(context.Background())) })
	s.Take()
	return s
}

// executed is the first line that the server logs of a statement.
var executed = regexp.MustCompile(`LOG: {1,2}(?:execute [^:]*|statement): ?(.*)$`)

// Take returns what was done since the call before.
func (s *Statements) Take() Cost {
	s.t.Helper()
	var position int64
	require.NoError(s.t, s.conn.QueryRow(s.t.Context(), `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&position))
	s.markers++
	marker := fmt.Sprintf("SELECT 'marker %d'", s.markers)
	_, err := s.conn.Exec(s.t.Context(), marker)
	require.NoError(s.t, err)
	var lines []string
	require.Eventually(s.t, func() bool {
		for _, e := range s.log.TakeAll() {
			line, _ := e.ContextMap()["line"].(string)
			lines = append(lines, line)
		}
		return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, marker) })
	}, 30*time.Second, time.Millisecond, "the server logs what it executes")
	c := Cost{Statements: map[string]int{}, WAL: position - s.wal}
	s.wal = position
	for _, text := range statementsOf(lines) {
		if !strings.Contains(text, "'marker ") && !strings.Contains(text, "pg_current_wal_insert_lsn") && !strings.HasPrefix(text, "--") {
			c.Statements[text]++
		}
	}
	return c
}

// statementsOf joins the lines of each statement in the server's log.
func statementsOf(lines []string) (all []string) {
	in := false
	for _, line := range lines {
		if first := executed.FindStringSubmatch(line); first != nil {
			all, in = append(all, strings.TrimSpace(first[1])), true
			continue
		}
		if in = in && !strings.Contains(line, "LOG:") && !strings.Contains(line, "FATAL:"); in {
			all[len(all)-1] = strings.TrimSpace(all[len(all)-1] + " " + strings.TrimSpace(line))
		}
	}
	return all
}

// Total is how many statements there were.
func (c Cost) Total() (n int) {
	for _, times := range c.Statements {
		n += times
	}
	return n
}

// Table lists the statements with how often each was sent for one of n turns, the most frequent first.
func (c Cost) Table(n int) string {
	const shown = 110
	texts := slices.SortedFunc(maps.Keys(c.Statements), func(a, b string) int {
		if d := c.Statements[b] - c.Statements[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f statements and %d bytes of WAL a turn\n", float64(c.Total())/float64(n), c.WAL/int64(n))
	for _, text := range texts {
		fmt.Fprintf(&b, "%6.2f  %s\n", float64(c.Statements[text])/float64(n), text[:min(len(text), shown)])
	}
	return b.String()
}
