// Package postgrestest gives each test a PostgreSQL database of its own. All tests of a process share one temporary
// server, which the first test starts. Tests that stop or restart a server get a private one.
//
// The server ends with the test process. A package that uses New should add
//
//	func TestMain(m *testing.M) { postgrestest.Main(m) }
//
// so that the server's folder is removed at once. Otherwise the next run removes it.
package postgrestest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
	"github.com/turnstone-run/turnstone/internal/postgres"
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
	sqlTimeout   = 30 * time.Second
)

// shared is the server of the process.
var shared struct {
	sync.Mutex
	server *pgdev.Server
	err    error

	template    string // the database that New copies
	templateErr error
}

// New creates a database with Turnstone's schema for the test and returns its DSN. The database is a copy of one that is migrated once per process. When
// the test ends, it is dropped, even if there are open connections. The test fails at once if no server can be started.
func New(t testing.TB) string {
	t.Helper()
	server := sharedServer(t)
	return create(t, server, migratedTemplate(t, server))
}

// NewEmpty is [New] for a database without a schema.
func NewEmpty(t testing.TB) string {
	t.Helper()
	return create(t, sharedServer(t), "template1")
}

// migratedTemplate returns the name of the database that [New] copies.
func migratedTemplate(t testing.TB, server *pgdev.Server) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.template == "" {
		shared.template = databaseName("migrated")
		shared.templateErr = execOnce(server.DSN(), "CREATE DATABASE "+shared.template)
		if shared.templateErr == nil {
			shared.templateErr = migrate(t.Context(), server.DSNFor(shared.template))
		}
	}
	if shared.templateErr != nil {
		t.Fatalf("migrate test database: %v", shared.templateErr)
	}
	return shared.template
}

func migrate(ctx context.Context, dsn string) error {
	pool, err := postgres.Open(ctx, postgres.Config{URL: dsn})
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.Migrate(ctx, pool)
}

// databaseName returns a new name in lower case, so that it need not be quoted in SQL.
func databaseName(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()[:12]) }

func create(t testing.TB, server *pgdev.Server, template string) string {
	t.Helper()
	name := databaseName("test")
	if err := execOnce(server.DSN(), "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("make test database: %v", err)
	}
	t.Cleanup(func() {
		if err := execOnce(server.DSN(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return server.DSNFor(name)
}

// Server starts a private temporary server, for tests that stop, restart or kill it. It is stopped when the test ends.
func Server(t testing.TB) *pgdev.Server {
	t.Helper()
	server, err := start()
	if err != nil {
		t.Fatalf("start PostgreSQL: %v", err)
	}
	t.Cleanup(func() {
		if err := stop(server); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return server
}

// Main runs the tests of a package, stops the shared server and exits. Call it from TestMain.
func Main(m *testing.M) {
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, "stop PostgreSQL:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func sharedServer(t testing.TB) *pgdev.Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = start()
	}
	if shared.err != nil {
		t.Fatalf("start PostgreSQL: %v", shared.err)
	}
	return shared.server
}

func stopShared() error {
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil {
		return nil
	}
	return stop(shared.server)
}

func start() (*pgdev.Server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	return pgdev.Start(ctx, pgdev.Config{Ephemeral: true})
}

func stop(server *pgdev.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return server.Stop(ctx)
}

func execOnce(dsn, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), sqlTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, statement)
	if closeErr := conn.Close(ctx); err == nil {
		err = closeErr
	}
	return err
}
