// Package embedded runs a Temporal server with its Web UI in this process.
//
// It is the only package that links the Temporal server, which takes as long to compile as everything else together.
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

// retention is how long the server keeps closed workflows.
const retention = 7 * 24 * time.Hour

// Server is a running Temporal server. It implements [devstack.Temporal].
type Server struct {
	server  temporal.Server
	ui      *webUI // nil without Web UI
	lock    *pgdev.Lock
	address string
}

// Start starts a server and waits until it accepts workflows, which takes less than a second. Several servers may run in one process, each with its
// own folder. ctx bounds the start only.
//
// Errors are devstack.ErrPortInUse, pgdev.ErrInUse or those of opening the database. If another process takes a port after Start has checked it, the
// server's code ends this process.
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
		temporal.WithLogger(log.NewZapLogger(warningsOnly(cfg.Logger))),
		temporal.WithAuthorizer(authorization.NewNoopAuthorizer()),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		temporal.WithCustomMetricsHandler(metrics.NoopMetricsHandler), // or the server registers metrics for the whole process
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
	// The Web UI needs the frontend for its first request.
	s.ui, err = startWebUI(ctx, uiPort, s.address, cfg)
	return err
}

// Address implements [devstack.Temporal].
func (s *Server) Address() string { return s.address }

// UIURL implements [devstack.Temporal].
func (s *Server) UIURL() string {
	if s.ui == nil {
		return ""
	}
	return s.ui.url
}

// Stop implements [devstack.Temporal]. It takes about a second, in which open requests can end.
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

// prepareDatabase creates the schema of a new database file, and the namespace.
func prepareDatabase(conf *config.Config, database string, cfg devstack.TemporalConfig) error {
	store := conf.Persistence.DataStores[storeName].SQL
	if database != "" {
		if err := createSchema(store, database); err != nil {
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

// createSchema creates the tables of a new file. A marker file beside it exists until they are complete. If the marker is there already, createSchema
// starts again with an empty file.
func createSchema(store *config.SQL, database string) error {
	marker := database + ".incomplete"
	_, databaseErr := os.Stat(database)
	_, markerErr := os.Stat(marker)
	if databaseErr == nil && markerErr != nil {
		return nil //nolint:nilerr // a database without a marker is complete
	}
	if databaseErr != nil && !errors.Is(databaseErr, os.ErrNotExist) {
		return fmt.Errorf("database: %w", databaseErr)
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

// warningsOnly returns a logger that drops lines below the level warn.
func warningsOnly(logger *zap.Logger) *zap.Logger {
	if logger.Level() >= zap.WarnLevel {
		return logger
	}
	return logger.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
}
