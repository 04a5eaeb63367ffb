// Package embedded is a Temporal server with its Web UI in this process.
//
// This package alone links the Temporal server, which takes as long to compile as all the rest.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

// retention keeps closed turns for a week.
const retention = 7 * 24 * time.Hour

// Server is a Temporal server, and its Web UI, in this process. Stop must not overlap with other methods.
type Server struct {
	server  temporal.Server
	ui      *webUI // nil without UI
	lock    *pgdev.Lock
	address string
}

// Start starts a server and waits until it takes workflows: under a second. Several may run in one process,
// each on its own folder. ctx bounds the start only.
//
// Errors: devstack.ErrPortInUse, pgdev.ErrInUse, or a database that cannot be opened. A port that another process takes
// in the short moment between the check and its use ends this process: the server's own code does that.
func Start(ctx context.Context, cfg devstack.TemporalConfig) (devstack.Temporal, error) {
	if cfg.Logger == nil {
		cfg.Logger = zap.NewNop()
	}
	var ui devstack.Port
	if cfg.EnableUI {
		ui = devstack.Port{Purpose: "the Temporal Web UI", Number: cfg.UIPort}
	}
	internal := devstack.Port{Purpose: "a part of Temporal"}
	chosen, err := devstack.ChoosePorts(cfg.AnyPort, devstack.Port{Purpose: "Temporal", Number: cfg.FrontendPort}, ui, internal, internal, internal, internal)
	if err != nil {
		return nil, err
	}
	ports := servicePorts{
		frontend: chosen[0], frontendHTTP: chosen[2], history: chosen[3], matching: chosen[4], worker: chosen[5],
	}
	s := &Server{address: devstack.HostPort(ports.frontend)}
	if err := s.start(ctx, cfg, ports, chosen[1]); err != nil {
		return nil, fmt.Errorf("embedded Temporal server: %w", errors.Join(err, s.Stop()))
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, cfg devstack.TemporalConfig, ports servicePorts, uiPort int) error {
	var database string
	if cfg.DataDir != "" {
		lock, err := devstack.LockFolder(cfg.DataDir)
		if err != nil {
			return err
		}
		s.lock = lock
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
	s.server = server
	if err := devstack.AwaitFrontend(ctx, s.address, cfg.SearchAttributes); err != nil {
		return err
	}
	if !cfg.EnableUI {
		return nil
	}
	// Only now: the UI's first request goes to the frontend.
	s.ui, err = startWebUI(ctx, uiPort, s.address, cfg)
	return err
}

// Address returns the host:port of the frontend for clients.
func (s *Server) Address() string { return s.address }

// Namespace returns the devstack.Namespace, which exists.
func (s *Server) Namespace() string { return devstack.Namespace }

// UIURL returns the address of the Web UI, such as http://127.0.0.1:8233; empty without UI.
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.url
}

// Stop ends the UI and the server, and releases the data directory. Stop workers and clients first: those left
// would try to reconnect for ever. It takes about a second, in which open requests may end, and cannot be cut
// short. Stopping again does nothing.
func (s *Server) Stop() error {
	if s.ui != nil {
		s.ui.stop()
		s.ui = nil
	}
	var err error
	if s.server != nil {
		err = s.server.Stop()
		s.server = nil
	}
	if s.lock != nil {
		err = errors.Join(err, s.lock.Release())
		s.lock = nil
	}
	return err
}

// prepareDatabase makes the schema of a new database file, and the namespace.
func prepareDatabase(conf *config.Config, database string, cfg devstack.TemporalConfig) error {
	store := conf.Persistence.DataStores[storeName].SQL
	if database != "" {
		if err := makeSchema(store, database); err != nil {
			return err
		}
	}
	ns, err := sqlite.NewNamespaceConfig(clusterName, devstack.Namespace, false, cfg.SearchAttributes)
	if err != nil {
		return fmt.Errorf("namespace %q: %w", devstack.Namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(retention)
	if err := sqlite.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("namespace %q: %w", devstack.Namespace, err)
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
