// Package pgdev runs a private PostgreSQL server as a child process, for the embedded stack and for tests.
//
// A server lives in one home folder and listens on a Unix socket only. Its life:
//
//	Start ──▶ running ──Suspend──▶ suspended ──Resume──▶ running ──Stop──▶ gone
//
// The home folder holds:
//
//	lock      held with flock by the owning process, and naming its pid
//	data/     the cluster (PGDATA); made as data.new and renamed when complete
//	socket/   the socket, unless the path would be too long for one
//
// The child never outlives its owner: on Linux the kernel signals it when the owner dies, elsewhere a guard
// process does. PostgreSQL refuses to run as root; started by root, it runs as the user postgres, or nobody.
//
// The package imports neither the Temporal server nor a database driver, so that any test may use it.
package pgdev

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

// Bounds on what the launcher waits for. A caller's context can only shorten them.
const (
	initTimeout  = 3 * time.Minute  // initdb on a slow, cold disk
	startTimeout = 2 * time.Minute  // includes crash recovery of a large log
	orphanGrace  = 30 * time.Second // for a former owner's server to finish shutting down
	pollInterval = 10 * time.Millisecond
)

// minMajor is the oldest PostgreSQL release that the launcher runs.
const minMajor = 14

var (
	// ErrNoBinaries means that no usable PostgreSQL installation was found. The full text names the package to
	// install and the searched folders.
	ErrNoBinaries = errors.New("no PostgreSQL installation found")

	// ErrStopped means that the server was stopped and cannot be resumed.
	ErrStopped = errors.New("server is stopped")
)

// Config describes one private server. Either DataDir or Ephemeral is required.
type Config struct {
	// DataDir is the home folder of a server that keeps its data. It is created when missing. Started by root,
	// each of its parent folders must let the user postgres pass (see CheckDir).
	DataDir string

	// Ephemeral asks for a throw-away server in a temporary folder, in memory where /dev/shm has 4 GiB free: faster because
	// it gives up durability against power loss, and removed by Stop.
	Ephemeral bool

	// BinDir is the folder of the programs postgres and initdb. Empty searches PATH and the well-known folders.
	BinDir string

	// Logger receives the fatal lines of the server's log. Statements and their values are never logged. Nil discards.
	Logger *zap.Logger

	// Progress is called with short texts about what takes time, by the goroutine that called Start or Resume.
	// Nil discards.
	Progress func(string)
}

func (c *Config) validate() error {
	switch {
	case c.DataDir == "" && !c.Ephemeral:
		return errors.New("postgres: a data directory is required unless the server is ephemeral")
	case c.DataDir != "" && c.Ephemeral:
		return fmt.Errorf("postgres: data directory %q given for an ephemeral server, which chooses its own", c.DataDir)
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return nil
}
