package devstack

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

const (
	// Loopback is the only address on which the stack listens.
	Loopback = "127.0.0.1"

	// Namespace is the only namespace of the Temporal server.
	Namespace = "default"

	// ReadyTimeout bounds the wait for a server's frontend, and then for its UI. Both take about a second.
	ReadyTimeout = time.Minute
)

// Temporal is a running Temporal server. Stop must not overlap with other methods.
type Temporal interface {
	Address() string   // host:port of the frontend, for clients
	Namespace() string // exists
	UIURL() string     // of the Web UI, such as http://127.0.0.1:8233; empty without UI

	// Stop ends the UI and the server. Stop workers and clients first: those left would try to reconnect for ever. Stopping again does nothing.
	Stop() error
}

// StartTemporal starts a Temporal server and waits until it takes workflows. ctx bounds the start only. embedded.Start and [TemporalCLI.Start]
// are the two there are.
type StartTemporal func(ctx context.Context, cfg TemporalConfig) (Temporal, error)

// TemporalConfig is the configuration of a Temporal server.
type TemporalConfig struct {
	// DataDir is the folder of the database file; created when missing. Empty keeps everything in memory. The
	// file's name carries the server's version, because the server does not migrate SQLite schemas: another
	// version starts with an empty file of its own.
	DataDir string

	// FrontendPort and UIPort are the ports to listen on; 0 takes any free one.
	FrontendPort, UIPort int

	// AnyPort takes a free port where a wanted one is in use, instead of failing.
	AnyPort bool

	// EnableUI serves the Web UI.
	EnableUI bool

	// CodecEndpoint decodes payloads for the Web UI that are encrypted or stored elsewhere. Empty: none.
	CodecEndpoint string

	// SearchAttributes are registered in the namespace when missing.
	SearchAttributes map[string]enumspb.IndexedValueType

	// Logger receives warnings and worse of the server. Nil discards.
	Logger *zap.Logger
}

// LockFolder makes the folder of a server's state, for this user alone because histories hold messages of people, and locks it. Its parents stay
// passable for a database of another user beside it.
func LockFolder(dir string) (*pgdev.Lock, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // passable on purpose
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := pgdev.LockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("data directory %q: %w", dir, err)
	}
	return lock, nil
}

// HostPort returns the address of a port of this machine.
func HostPort(port int) string { return net.JoinHostPort(Loopback, strconv.Itoa(port)) }
