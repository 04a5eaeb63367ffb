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
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

const (
	// loopback is the only address on which the embedded stack listens.
	loopback = "127.0.0.1"

	// readyTimeout bounds the wait for the server's frontend, and then for the UI. Both take under a second.
	readyTimeout = time.Minute

	// namespace is the only namespace.
	namespace = "default"

	// retention keeps closed turns for a week.
	retention = 7 * 24 * time.Hour
)

// TemporalConfig is the configuration of an embedded Temporal server.
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

// Temporal is a Temporal server, and its Web UI, in this process. Stop must not overlap with other methods.
type Temporal struct {
	server  temporal.Server
	ui      *webUI // nil without UI
	lock    *pgdev.Lock
	address string
}

// StartTemporal starts a server and waits until it takes workflows: under a second. Several may run in one process,
// each on its own folder. ctx bounds the start only.
//
// Errors: ErrPortInUse, pgdev.ErrInUse, or a database that cannot be opened. A port that another process takes
// in the short moment between the check and its use ends this process: the server's own code does that.
func StartTemporal(ctx context.Context, cfg TemporalConfig) (*Temporal, error) {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	var ui wantedPort
	if cfg.EnableUI {
		ui = wantedPort{"the Temporal Web UI", cfg.UIPort}
	}
	internal := wantedPort{purpose: "a part of Temporal"}
	chosen, err := choosePorts(cfg.AnyPort, wantedPort{"Temporal", cfg.FrontendPort}, ui, internal, internal, internal, internal)
	if err != nil {
		return nil, err
	}
	ports := servicePorts{
		frontend: chosen[0], frontendHTTP: chosen[2], history: chosen[3], matching: chosen[4], worker: chosen[5],
	}
	t := &Temporal{address: hostPort(ports.frontend)}
	if err := t.start(ctx, cfg, ports, chosen[1]); err != nil {
		return nil, fmt.Errorf("embedded Temporal server: %w", errors.Join(err, t.Stop()))
	}
	return t, nil
}

func (t *Temporal) start(ctx context.Context, cfg TemporalConfig, ports servicePorts, uiPort int) error {
	var database string
	if cfg.DataDir != "" {
		if err := makeFolder(cfg.DataDir); err != nil {
			return fmt.Errorf("data directory: %w", err)
		}
		lock, err := pgdev.LockFolder(cfg.DataDir)
		if err != nil {
			return fmt.Errorf("data directory %q: %w", cfg.DataDir, err)
		}
		t.lock = lock
		database = filepath.Join(cfg.DataDir, "temporal-"+headers.ServerVersion+".db")
	}
	conf := serverConfig(storage(database), ports)
	if err := prepareDatabase(conf, database, cfg); err != nil {
		return err
	}
	server, err := temporal.NewServer(
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithConfig(conf),
		temporal.WithStaticHosts(staticHosts(conf)),
		temporal.WithDynamicConfigClient(dynamicSettings()),
		temporal.WithLogger(log.NewZapLogger(warningsOf(cfg.Logger))),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler), // no process-wide Prometheus registry
	)
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return errors.Join(err, server.Stop())
	}
	t.server = server
	if err := t.awaitFrontend(ctx, cfg.SearchAttributes); err != nil {
		return err
	}
	if !cfg.EnableUI {
		return nil
	}
	// Only now: the UI's first request goes to the frontend.
	t.ui, err = startWebUI(ctx, uiPort, t.address, cfg)
	return err
}

// Address returns the host:port of the frontend for clients.
func (t *Temporal) Address() string { return t.address }

// Namespace returns the namespace, which exists.
func (t *Temporal) Namespace() string { return namespace }

// UIURL returns the address of the Web UI, such as http://127.0.0.1:8233; empty without UI.
func (t *Temporal) UIURL() string {
	if t.ui == nil {
		return ""
	}
	return t.ui.url
}

// Stop ends the UI and the server, and releases the data directory. Stop workers and clients first: those left
// would try to reconnect for ever. It takes about a second, in which open requests may end, and cannot be cut
// short. Stopping again does nothing.
func (t *Temporal) Stop() error {
	if t.ui != nil {
		t.ui.stop()
		t.ui = nil
	}
	var err error
	if t.server != nil {
		err = t.server.Stop()
		t.server = nil
	}
	if t.lock != nil {
		err = errors.Join(err, t.lock.Release())
		t.lock = nil
	}
	return err
}

// makeFolder makes a folder for this user alone, because histories hold messages of people. Its parents stay passable for a database of another
// user beside it.
func makeFolder(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // passable on purpose
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// prepareDatabase makes the schema of a new database file, and the namespace.
func prepareDatabase(conf *config.Config, database string, cfg TemporalConfig) error {
	store := conf.Persistence.DataStores[storeName].SQL
	if database != "" {
		if err := makeSchema(store, database); err != nil {
			return err
		}
	}
	ns, err := sqlite.NewNamespaceConfig(clusterName, namespace, false, cfg.SearchAttributes)
	if err != nil {
		return fmt.Errorf("namespace %q: %w", namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(retention)
	if err := sqlite.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("namespace %q: %w", namespace, err)
	}
	return nil
}

// makeSchema makes the tables of a new file. Until they are complete there is a marker beside the file, so that an interrupted first start begins
// again.
func makeSchema(store *config.SQL, database string) error {
	marker := database + ".incomplete"
	_, missing := os.Stat(database)
	_, interrupted := os.Stat(marker)
	if missing == nil && interrupted != nil {
		return nil //nolint:nilerr // a database without the marker is complete
	}
	if missing != nil && !errors.Is(missing, os.ErrNotExist) {
		return fmt.Errorf("database: %w", missing)
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(database + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove incomplete database: %w", err)
		}
	}
	if err := sqlite.SetupSchema(store); err != nil {
		return fmt.Errorf("make schema of %q: %w", database, err)
	}
	if err := os.Remove(marker); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}

// warningsOf drops the server's many lines below warn.
func warningsOf(logger *zap.Logger) *zap.Logger {
	if logger.Level() >= zap.WarnLevel {
		return logger
	}
	return logger.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
}

func hostPort(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
