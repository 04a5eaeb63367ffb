package postgrestest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

func TestDatabasesAreSeparate(t *testing.T) {
	var first, second string
	t.Run("first", func(t *testing.T) {
		first = postgrestest.NewEmpty(t)
		second = postgrestest.NewEmpty(t)
		require.NotEqual(t, first, second)

		conn := connect(t, first)
		_, err := conn.Exec(t.Context(), "CREATE TABLE thing (id int)")
		require.NoError(t, err)

		_, err = connect(t, second).Exec(t.Context(), "SELECT * FROM thing")
		require.ErrorContains(t, err, `relation "thing" does not exist`)
	})
	_, err := pgx.Connect(t.Context(), first)
	require.ErrorContains(t, err, "does not exist", "the database goes with its test, open connections or not")
}

func TestServerIsPrivate(t *testing.T) {
	server := postgrestest.Server(t)
	conn := connect(t, server.DSN())
	_, err := conn.Exec(t.Context(), "CREATE TABLE thing (id int)")
	require.NoError(t, err)

	before := server.Pid()
	require.NoError(t, server.Restart(t.Context()))
	require.NotEqual(t, before, server.Pid())
	require.Error(t, conn.Ping(t.Context()), "a restart cuts connections")

	_, err = connect(t, server.DSN()).Exec(t.Context(), "SELECT * FROM thing")
	require.NoError(t, err, "a restart keeps what was written")
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	return conn // never closed, as a forgotten pool would be: dropping the database must not mind
}
