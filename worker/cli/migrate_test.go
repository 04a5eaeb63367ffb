package cli

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// Without a database, both commands return an error that names the setting.
func TestNoDatabase(t *testing.T) {
	for _, args := range [][]string{nil, {"migrate"}} {
		root := (&command{program: "worker", env: []string{"TURNSTONE_LOG_LEVEL=error"}}).root()
		root.SetArgs(args)
		require.ErrorContains(t, root.ExecuteContext(t.Context()), "database.url: is empty: set DATABASE_URL", args)
	}
}

// TestMigrate migrates an empty database, migrates it again, and then tries to migrate the database of a newer release.
func TestMigrate(t *testing.T) {
	dsn := postgrestest.NewEmpty(t)
	migrate := func() (string, error) {
		var out bytes.Buffer
		root := (&command{program: "worker", out: &out, env: []string{"DATABASE_URL=" + dsn, "TURNSTONE_LOG_LEVEL=error"}}).root()
		root.SetArgs([]string{"migrate"})
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	for range 2 {
		out, err := migrate()
		require.NoError(t, err)
		require.Contains(t, out, "up to date")
	}
	conn, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	defer conn.Close(t.Context())
	var turns int
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM turns`).Scan(&turns))
	_, err = conn.Exec(t.Context(), `UPDATE turnstone_schema_version SET version = version + 1`)
	require.NoError(t, err)
	_, err = migrate()
	require.ErrorIs(t, err, postgres.ErrSchemaNewer)
}
