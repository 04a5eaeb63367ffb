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

	"github.com/turnstone-run/turnstone/internal/devstack/dirlock"
)

const (
	// loopback is the only address that anything of the embedded stack listens on.
	loopback = "127.0.0.1"

	// readyTimeout bounds the wait for the server's frontend, and then for the UI. Both take under a second.
	readyTimeout = time.Minute

	// defaultRetention keeps closed turns for a working week and its weekend.
	defaultRetention = 7 * 24 * time.Hour
)

// TemporalConfig describes one embedded Temporal server.
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

	// CodecEndpoint is where the Web UI has payloads decoded that are encrypted or kept elsewhere. Empty: nowhere.
	CodecEndpoint string

	// Namespace is created when missing. Default "default".
	Namespace string

	// SearchAttributes are registered in the namespace when missing, also in one that exists already.
	SearchAttributes map[string]enumspb.IndexedValueType

	// Retention is how long closed workflows are kept, in a namespace that this start creates. Default a week.
	Retention time.Duration

	// Logger receives warnings and worse of the server. Nil discards.
	Logger *zap.Logger
}

func (c *TemporalConfig) setDefaults() {
	if c.Namespace == "" {
		c.Namespace = "default"
	}
	if c.Retention == 0 {
		c.Retention = defaultRetention
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
}

// Temporal is a Temporal server, and its Web UI, in this process. Stop must not overlap with other methods.
type Temporal struct {
	server    temporal.Server
	ui        *webUI // nil without UI
	lock      *dirlock.Lock
	address   string
	namespace string
}

// StartTemporal starts a server and waits until it takes workflows: under a second. Several may run in one process,
// each on its own folder. ctx bounds the start only.
//
// Errors: ErrPortInUse, dirlock.ErrInUse, or a database that cannot be opened. A port that another process takes
// in the short moment between the check and its use ends this process: the server's own code does that.
func StartTemporal(ctx context.Context, cfg TemporalConfig) (*Temporal, error) {
	cfg.setDefaults()
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
	t := &Temporal{address: hostPort(ports.frontend), namespace: cfg.Namespace}
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
		lock, err := dirlock.Acquire(cfg.DataDir)
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

// Address is the frontend's host:port for clients.
func (t *Temporal) Address() string { return t.address }

// Namespace is the namespace that was made ready.
func (t *Temporal) Namespace() string { return t.namespace }

// UIURL is the Web UI's address, such as http://127.0.0.1:8233; empty without UI.
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

// makeFolder makes a folder for ourselves alone: histories hold what people said. Its parents stay passable, since
// a database run by another user may live beside it.
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
	namespace, err := sqlite.NewNamespaceConfig(clusterName, cfg.Namespace, false, cfg.SearchAttributes)
	if err != nil {
		return fmt.Errorf("namespace %q: %w", cfg.Namespace, err)
	}
	namespace.Detail.Config.Retention = durationpb.New(cfg.Retention)
	if err := sqlite.CreateNamespaces(store, namespace); err != nil {
		return fmt.Errorf("namespace %q: %w", cfg.Namespace, err)
	}
	return nil
}

// makeSchema makes the tables of a new file. A marker beside it says that they are not complete yet, so that an
// interrupted first start begins again instead of meeting half a schema.
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
