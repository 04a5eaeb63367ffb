package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/tern/v2/migrate"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	versionTable   = "turnstone_schema_version"
	migrateTimeout = 10 * time.Minute // an index on a large table takes its time
	closeTimeout   = 2 * time.Second
)

// ErrSchemaNewer is returned if a newer release of Turnstone has migrated the database. This release must not write to it.
var ErrSchemaNewer = errors.New("the database belongs to a newer release of Turnstone")

// Migrate brings the schema of the pool's database up to date. Any number of processes may call it at the same time: an advisory lock makes
// them work one after the other. Each migration is one transaction. If the database has migrations that this binary does not know, Migrate
// changes nothing and returns [ErrSchemaNewer]. It creates the table of knowledge vectors if the extension pgvector is available.
func Migrate(ctx context.Context, pool *pgxpool.Pool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, migrateTimeout)
	defer cancel()

	// A connection of its own, because a migration, or the wait for one in another process, may take longer than the pool's timeouts.
	cfg := pool.Config().ConnConfig.Copy()
	cfg.RuntimeParams["statement_timeout"] = "0"
	cfg.RuntimeParams["lock_timeout"] = "0"
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return mapError("migrate", err)
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if closeErr := conn.Close(closing); err == nil && closeErr != nil {
			err = mapError("migrate", closeErr)
		}
	}()

	if err := applyMigrations(ctx, conn); err != nil {
		return err
	}
	return mapError("migrate: vectors", migrateVectors(ctx, conn))
}

// SchemaVersion returns the version of the schema that [Migrate] leaves: the number of its migrations.
func SchemaVersion() int {
	files, _ := migrations.ReadDir("migrations") // the folder is embedded
	return len(files)
}

// applyMigrations applies the migrations that the database does not have yet.
func applyMigrations(ctx context.Context, conn *pgx.Conn) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	m, err := migrate.NewMigrator(ctx, conn, versionTable)
	if err != nil {
		return mapError("migrate: version table", err)
	}
	if err := m.LoadMigrations(files); err != nil {
		return fmt.Errorf("load migrations: %w", err)
	}
	version, err := m.GetCurrentVersion(ctx)
	if err != nil {
		return mapError("migrate: version", err)
	}
	if newest := len(m.Migrations); int(version) > newest {
		return fmt.Errorf("%w: its schema is at version %d, this binary knows versions up to %d", ErrSchemaNewer, version, newest)
	}
	return mapError("migrate", m.Migrate(ctx))
}
