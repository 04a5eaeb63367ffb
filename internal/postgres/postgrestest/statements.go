package postgrestest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Statements is a database with Turnstone's schema on a server of its own, which counts the statements that it receives.
type Statements struct {
	DSN string // statements of connections to it are counted

	t    testing.TB
	conn *pgx.Conn // its statements are not counted
	wal  int64     // the WAL position at the last Take
}

// Cost is the cost of the statements that a database has run.
type Cost struct {
	Statements []Statement // those with the most WAL first
	WAL        int64       // in bytes
}

// Statement is the cost of all calls of one statement, which may be BEGIN or COMMIT. It includes the functions and triggers that the statement runs.
type Statement struct {
	Text   string
	Calls  int
	WAL    int64 // in bytes, without that of the commit
	Blocks int64 // the blocks of tables and indexes that were read
}

// Count starts a server with a database that counts statements. It is stopped when the test ends.
func Count(t testing.TB) *Statements {
	t.Helper()
	server := Server(t)
	s := &Statements{DSN: server.DSN(), t: t}
	s.prepare()
	require.NoError(t, server.Suspend(t.Context())) // pg_stat_statements is loaded when the server starts
	require.NoError(t, server.Resume(t.Context()))
	s.conn = s.connect()
	t.Cleanup(func() { require.NoError(t, s.conn.Close(context.Background())) })
	s.Take()
	return s
}

// prepare creates the schema and enables pg_stat_statements.
func (s *Statements) prepare() {
	require.NoError(s.t, migrate(s.t.Context(), s.DSN))
	for _, sql := range []string{`CREATE EXTENSION pg_stat_statements`, `ALTER SYSTEM SET shared_preload_libraries = pg_stat_statements`} {
		require.NoError(s.t, execOnce(s.DSN, sql))
	}
}

func (s *Statements) connect() *pgx.Conn {
	conn, err := pgx.Connect(s.t.Context(), s.DSN)
	require.NoError(s.t, err)
	_, err = conn.Exec(s.t.Context(), `SET pg_stat_statements.track = none`)
	require.NoError(s.t, err)
	return conn
}

// Take returns the cost since the last Take.
func (s *Statements) Take() Cost {
	s.t.Helper()
	var position int64
	require.NoError(s.t, s.conn.QueryRow(s.t.Context(), `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&position))
	rows, err := s.conn.Query(s.t.Context(), `
		SELECT query, calls, wal_bytes::bigint, shared_blks_hit + shared_blks_read FROM pg_stat_statements
		WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY wal_bytes DESC, calls DESC, query`)
	require.NoError(s.t, err)
	statements, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Statement])
	require.NoError(s.t, err)
	_, err = s.conn.Exec(s.t.Context(), `SELECT pg_stat_statements_reset()`)
	require.NoError(s.t, err)
	c := Cost{Statements: statements, WAL: position - s.wal}
	s.wal = position
	return c
}

// Total returns the number of statements.
func (c Cost) Total() (n int) {
	for _, s := range c.Statements {
		n += s.Calls
	}
	return n
}

// Blocks returns the number of blocks that were read.
func (c Cost) Blocks() (n int64) {
	for _, s := range c.Statements {
		n += s.Blocks
	}
	return n
}

// Table returns a table of the costs per turn, for n turns.
func (c Cost) Table(n int) string {
	const shown = 110
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f statements, %d bytes of WAL and %d blocks a turn\n", float64(c.Total())/float64(n), c.WAL/int64(n), c.Blocks()/int64(n))
	for _, s := range c.Statements {
		text := strings.Join(strings.Fields(s.Text), " ")
		fmt.Fprintf(&b, "%6.2f calls %6d bytes %4d blocks  %s\n", float64(s.Calls)/float64(n), s.WAL/int64(n), s.Blocks/int64(n),
			text[:min(len(text), shown)])
	}
	return b.String()
}
