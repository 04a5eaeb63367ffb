package cli

import (
	"context"
	"fmt"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

// migrate migrates the database, as a worker does when it starts. It fails if a newer release has migrated the database, so that a deployment stops
// before it replaces a process.
func (c *command) migrate(ctx context.Context, settings *app.Config) error {
	if err := settings.Database.Check(); err != nil {
		return err
	}
	logger, err := app.Logger(settings.Log, app.Secrets(settings, c.env)...)
	if err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, postgres.Config{URL: settings.Database.URL.Reveal(), MaxConns: 1, Logger: logger})
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.out, "the schema of the database is up to date")
	return err
}
