// Package pgtest gives each test a PostgreSQL database of its own. All tests of a process share one throw-away
// server, started by the first test that asks; tests that stop or restart a server get a private one.
//
// The server ends with the test process, however that ends. A package that uses New should add
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// so that the server's folder goes at once; without it the next run removes it.
package pgtest

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
)

const (
	startTimeout = 2 * time.Minute
	stopTimeout  = 30 * time.Second
	sqlTimeout   = 30 * time.Second
)

// shared is the process-wide server. A test process has no composition root to hold it.
var shared struct {
	sync.Mutex
	server *pgdev.Server
	err    error

	template    string // database that NewFrom copies
	templateErr error
}

// New makes an empty database for the test and returns its DSN. The database is dropped when the test ends,
// together with connections left open. The test fails at once if no server can be started.
func New(t testing.TB) string {
	t.Helper()
	return create(t, sharedServer(t), "template1")
}

// NewFrom is New for a database that holds what fill has put into a first one: copying it is much quicker than to fill each. All calls of a
// process give the same fill.
func NewFrom(t testing.TB, fill func(ctx context.Context, dsn string) error) string {
	t.Helper()
	server := sharedServer(t)
	return create(t, server, template(t, server, fill))
}

// template returns the name of the database that fill has filled, once in a process.
func template(t testing.TB, server *pgdev.Server, fill func(ctx context.Context, dsn string) error) string {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.template == "" {
		shared.template = databaseName("filled")
		shared.templateErr = exec(server.DSN(), "CREATE DATABASE "+shared.template)
		if shared.templateErr == nil {
			shared.templateErr = fill(t.Context(), server.DSNFor(shared.template))
		}
	}
	if shared.templateErr != nil {
		t.Fatalf("fill test database: %v", shared.templateErr)
	}
	return shared.template
}

// databaseName returns a new name in lower case: PostgreSQL folds unquoted names, and a person may type this one.
func databaseName(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()[:12]) }

func create(t testing.TB, server *pgdev.Server, from string) string {
	t.Helper()
	name := databaseName("test")
	if err := exec(server.DSN(), "CREATE DATABASE "+name+" TEMPLATE "+from+" STRATEGY FILE_COPY"); err != nil {
		t.Fatalf("make test database: %v", err)
	}
	t.Cleanup(func() {
		if err := exec(server.DSN(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("drop test database: %v", err)
		}
	})
	return server.DSNFor(name)
}

// Server starts a private throw-away server, for tests that stop, restart or kill it. It is stopped when the
// test ends.
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

func exec(dsn, statement string) error {
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
