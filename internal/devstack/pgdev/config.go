// Package pgdev runs a private PostgreSQL server as a child process, for the embedded stack and for tests.
//
// A server has a folder of its own and listens on a Unix socket only. Its states are:
//
//	Start ──▶ running ──Suspend──▶ suspended ──Resume──▶ running ──Stop──▶ gone
//
// The folder contains:
//
//	lock      a file that the owning process locks with flock, and that contains its pid
//	data/     the cluster (PGDATA); created as data.new and then renamed
//	socket/   the socket, unless its path would be too long
//
// The server ends when its owner dies: on Linux the kernel signals it, elsewhere a guard process does. PostgreSQL refuses to run as root. If the
// owner is root, the server runs as the user postgres or nobody.
//
// The package imports neither the Temporal server nor a database driver, so that any test may use it.
package pgdev

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
)

const (
	initTimeout  = 3 * time.Minute  // initdb on a slow disk
	startTimeout = 2 * time.Minute  // including crash recovery of a large log
	orphanGrace  = 30 * time.Second // for the server of a dead owner to stop
	pollInterval = 10 * time.Millisecond
)

// minMajor is the oldest major version of PostgreSQL that can be used.
const minMajor = 14

var (
	// ErrNoBinaries means that there is no PostgreSQL installation that can be used.
	ErrNoBinaries = errors.New("no PostgreSQL installation found")

	// ErrStopped means that a server cannot be resumed, because it was stopped.
	ErrStopped = errors.New("server is stopped")
)

// Config is the configuration of a server. Either DataDir or Ephemeral is required.
type Config struct {
	// DataDir is the folder of a server that keeps its data. It is created if it does not exist. [CheckDir] says whether it can be used.
	DataDir string

	// Ephemeral makes a server in a temporary folder, which Stop removes. The folder is in memory if /dev/shm has 4 GiB free. The server is
	// faster, because it may lose data in a power failure.
	Ephemeral bool

	// BinDir is the folder of the programs postgres and initdb. If it is empty, PATH and well-known folders are searched.
	BinDir string

	// Logger receives the fatal lines of the server's log, which contain no statements and values. Nil discards them.
	Logger *zap.Logger

	// Progress, if set, is called with short texts about steps that take time, by the goroutine that called Start or Resume.
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
