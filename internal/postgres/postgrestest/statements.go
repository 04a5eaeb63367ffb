package postgrestest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Statements is a database with Turnstone's schema on a server of its own, which counts the statements that it is sent.
type Statements struct {
	DSN string // connections to it are counted

	t    testing.TB
	conn *pgx.Conn // not counted
	wal  int64     // the position up to which Take has counted
}

// Cost is the statements that a database ran, and the WAL that they wrote.
type Cost struct {
	Statements []Statement // those with the most bytes of WAL first
	WAL        int64       // bytes, without full pages
}

// Statement is a text that was sent, BEGIN and COMMIT included. What runs within functions and triggers counts as a part of it.
type Statement struct {
	Text   string
	Calls  int
	WAL    int64 // bytes, without those of the commit
	Blocks int64 // of tables and indexes that were looked at
}

// Count starts the server. It ends with the test.
func Count(t testing.TB) *Statements {
	t.Helper()
	server := Server(t)
	s := &Statements{DSN: server.DSN(), t: t}
	s.prepare()
	require.NoError(t, server.Suspend(t.Context())) // the library is loaded at the start
	require.NoError(t, server.Resume(t.Context()))
	s.conn = s.connect()
	t.Cleanup(func() { require.NoError(t, s.conn.Close(context.Background())) })
	s.Take()
	return s
}

// prepare makes the schema and asks the server to count.
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

// Take returns what was done since the call before.
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

// Total is how many statements there were.
func (c Cost) Total() (n int) {
	for _, s := range c.Statements {
		n += s.Calls
	}
	return n
}

// Blocks is how many blocks were looked at.
func (c Cost) Blocks() (n int64) {
	for _, s := range c.Statements {
		n += s.Blocks
	}
	return n
}

// Table lists the statements per turn, for n turns.
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
