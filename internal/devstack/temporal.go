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

	// Namespace is the namespace of the Temporal server.
	Namespace = "default"

	// ReadyTimeout bounds the wait for a server's frontend, and then for its Web UI. Both take about a second.
	ReadyTimeout = time.Minute
)

// Temporal is a running Temporal server. Stop must not overlap with other methods.
type Temporal interface {
	Address() string // host:port of the frontend, for clients
	UIURL() string   // URL of the Web UI, such as http://127.0.0.1:8233; empty without Web UI

	// Stop stops the server and its Web UI, and releases the data directory. Stop workers and clients first, or they try to reconnect for ever.
	// Stopping again does nothing.
	Stop() error
}

// StartTemporal starts a Temporal server and waits until it accepts workflows. ctx bounds the start only. Implementations are embedded.Start and
// [TemporalCLI.Start].
type StartTemporal func(ctx context.Context, cfg TemporalConfig) (Temporal, error)

// TemporalConfig is the configuration of a Temporal server.
type TemporalConfig struct {
	// DataDir is the folder of the database file. It is created if it does not exist. If it is empty, the database is in memory. The server does
	// not migrate SQLite schemas, so each version of the server has a file of its own.
	DataDir string

	// FrontendPort and UIPort are the ports to listen on. 0 is any free port.
	FrontendPort, UIPort int

	// AnyPort takes a free port in place of one that is in use.
	AnyPort bool

	// EnableUI serves the Web UI.
	EnableUI bool

	// CodecEndpoint is the URL with which the Web UI decodes payloads that are encrypted or stored elsewhere. It may be empty.
	CodecEndpoint string

	// SearchAttributes are registered in the namespace if they are missing.
	SearchAttributes map[string]enumspb.IndexedValueType

	// Logger receives the server's warnings and errors. Nil discards them.
	Logger *zap.Logger
}

// LockFolder creates the folder of a server's state, if it does not exist, and locks it. Only this user can read the folder, because histories hold
// messages. All users can pass through its parent folders, in which the database of another user may be.
func LockFolder(dir string) (*pgdev.Lock, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // all users may pass
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

// HostPort returns the loopback address with a port.
func HostPort(port int) string { return net.JoinHostPort(Loopback, strconv.Itoa(port)) }
