package turnstone

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/codec"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/direct"
	"github.com/turnstone-run/turnstone/internal/gateway"
	probes "github.com/turnstone-run/turnstone/internal/health"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// Settings is the configuration that files, environment and flags give.
type Settings = app.Config

// Middleware is a middleware of the embedding program, under the name that agents use.
type Middleware = middleware.Named

// Config configures [New]: settings, and what the embedding program adds in Go. Agents of the catalog use toolkits, providers and middleware by
// name; the shipped agent "analyst" has all of them.
type Config struct {
	Settings   *Settings
	Toolkits   []agent.Toolkit  // besides the built-in ones
	Factories  []ToolkitFactory // of toolkits that need a client, a store or a connection
	Providers  []Provider       // of models, besides the built-in ones
	Middleware []Middleware     // besides the built-in ones
	Channels   []Channel        // besides the gateway, Telegram and the jobs of Redis
	Observers  []agent.Observer // besides traces and metrics
	Env        []string         // as in os.Environ, for TEMPORAL_* variables and the env: references of auth profiles; nil: none
	Logger     *zap.Logger      // nil: as the settings say
}

// Service is a worker and a gateway in one process; the settings turn either off.
type Service struct {
	cfg    Config
	logger *zap.Logger

	// What Start opens, in this order.
	telemetry instrumentation
	pool      *pgxpool.Pool
	log       turns.EventLog
	closeLog  func()
	store     *postgres.Store
	blobs     *blob.Store
	codec     *codec.Codec // of what Temporal keeps
	namespace string
	temporal  client.Client
	callers   callers
	watch     *cluster.AttributeWatch
	library   *library.Library
	schedules *cluster.AgentSchedules
	parts     *app.Parts
	collector *results.Collector
	runs      *inbox.Runs
	outcomes  *probes.Outcomes // of calls of models
	turns     *turns.Turns
	direct    *direct.Driver // nil in a gateway alone
	gate      *admission.Gate
	inbox     *inbox.Inbox
	upkeep    upkeep
	bot       *telegram.Channel // nil: none
	worker    sdkworker.Worker  // nil in a gateway alone
	gateway   *gateway.Gateway  // nil in a worker alone

	failed       chan error
	endTasks     context.CancelFunc
	tasks        sync.WaitGroup // background tasks
	copies       errgroup.Group // answers of the web chat on their way to Telegram
	stopJobs     func()
	stopChannels func(context.Context)
}

// New returns a service with a checked configuration. It opens nothing.
func New(cfg Config) (*Service, error) {
	if cfg.Settings == nil {
		return nil, errors.New("turnstone: no settings")
	}
	if err := cfg.Settings.Database.Check(); err != nil {
		return nil, err
	}
	if err := checkChannels(cfg.Channels); err != nil {
		return nil, err
	}
	if err := app.CheckProviders(cfg.Settings, cfg.Providers); err != nil {
		return nil, err
	}
	logger := cfg.Logger
	if logger == nil {
		var err error
		if logger, err = app.Logger(cfg.Settings.Log, app.Secrets(cfg.Settings, cfg.Env)...); err != nil {
			return nil, err
		}
	}
	for _, warning := range cfg.Settings.Warnings() {
		logger.Warn(warning)
	}
	return &Service{
		cfg: cfg, logger: logger, failed: make(chan error, 3),
		endTasks: func() {}, stopJobs: func() {}, stopChannels: func(context.Context) {}, closeLog: func() {},
	}, nil
}

// Run starts the service, waits until ctx ends or something fails for good, and stops it within [Settings.StopTimeout].
func (s *Service) Run(ctx context.Context) error {
	defer app.SetMinHeap(s.cfg.Settings.MinHeap)()
	if err := s.Start(ctx); err != nil {
		return err
	}
	var failure error
	select {
	case <-ctx.Done():
		s.logger.Info("draining")
	case failure = <-s.Failed():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Settings.StopTimeout())
	defer cancel()
	return errors.Join(failure, s.Stop(ctx))
}

// Failed returns the channel of errors that end the service from within.
func (s *Service) Failed() <-chan error { return s.failed }

// Start opens what the service needs, in the order of dependency, and begins to poll and to serve. What was opened is closed again
// when a later part fails.
func (s *Service) Start(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
	}()
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	s.endTasks = end
	// Each gets ctx, and a context for tasks that go on until Stop.
	for _, open := range []func(ctx, background context.Context) error{
		s.openTelemetry, s.openStorage, s.openTemporal, s.openCallers, s.openLibrary, s.openSchedules, s.openCatalog, s.openTurns, s.openUpkeep,
		s.openBot, s.startWorker, s.startGateway, s.startJobs, s.startChannels,
	} {
		if err := open(ctx, background); err != nil {
			return err
		}
	}
	return nil
}

// Temporal is the service's client, for programs that start or inspect workflows beside it. Nil before Start.
func (s *Service) Temporal() client.Client { return s.temporal }

// Stop drains: first the doors, then the direct turns, which become durable, then the worker, then what both need. Stopping twice does nothing.
func (s *Service) Stop(ctx context.Context) error {
	return errors.Join(s.stopDoors(ctx), s.stopTurns(ctx), s.stopTasks(), s.closeConnections(ctx))
}

// stopDoors ends the channels, the jobs and the gateway: no turn is accepted any more.
func (s *Service) stopDoors(ctx context.Context) (err error) {
	var doors sync.WaitGroup
	doors.Go(s.stopJobs)
	doors.Go(func() { s.stopChannels(ctx) })
	if s.gateway != nil {
		closing, cancel := context.WithTimeout(ctx, s.cfg.Settings.ShutdownTimeout)
		defer cancel()
		err = s.gateway.Shutdown(closing)
	}
	doors.Wait()
	return err
}

// stopTurns hands the direct turns over and drains the worker.
func (s *Service) stopTurns(ctx context.Context) (err error) {
	if s.direct != nil {
		err = s.direct.Stop(ctx)
		s.direct = nil
	}
	if s.worker != nil {
		s.worker.Stop()
		s.worker = nil
	}
	return err
}

func (s *Service) stopTasks() error {
	s.endTasks()
	s.tasks.Wait()
	return s.copies.Wait()
}

func (s *Service) closeConnections(ctx context.Context) error {
	faults := []error{s.callers.close(ctx)}
	if s.parts != nil {
		faults = append(faults, s.parts.Close())
		s.parts = nil
	}
	if s.temporal != nil {
		s.temporal.Close()
		s.temporal = nil
	}
	s.closeLog()
	s.closeLog = func() {}
	faults = append(faults, s.telemetry.close(ctx))
	if s.blobs != nil {
		faults = append(faults, s.blobs.Close())
		s.blobs = nil
	}
	if s.pool != nil {
		s.pool.Close()
		s.pool = nil
	}
	return errors.Join(faults...)
}
