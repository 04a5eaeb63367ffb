// Package postgrestest gives each test a PostgreSQL database with Turnstone's schema.
package postgrestest

import (
	"context"
	"testing"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev/pgtest"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// New makes a database with the current schema for the test and returns its DSN; see [pgtest.NewFrom].
func New(t testing.TB) string {
	t.Helper()
	return pgtest.NewFrom(t, func(ctx context.Context, dsn string) error {
		pool, err := postgres.Open(ctx, postgres.Config{URL: dsn})
		if err != nil {
			return err
		}
		defer pool.Close()
		return postgres.Migrate(ctx, pool)
	})
}
