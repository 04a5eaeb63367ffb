package turnstone

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.temporal.io/sdk/client"
	sdkworker "go.temporal.io/sdk/worker"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/admission"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/blob"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/channel/jobs"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/cluster"
	"github.com/turnstone-run/turnstone/internal/codec"
	"github.com/turnstone-run/turnstone/internal/definitions/library"
	"github.com/turnstone-run/turnstone/internal/direct"
	"github.com/turnstone-run/turnstone/internal/gateway"
	probes "github.com/turnstone-run/turnstone/internal/health"
	"github.com/turnstone-run/turnstone/internal/inbox"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/results"
	"github.com/turnstone-run/turnstone/internal/retrieval"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/stream"
	"github.com/turnstone-run/turnstone/internal/stream/pgstream"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// temporalPatience is how long a start waits for Temporal, as long as for PostgreSQL: both may be starting too.
const temporalPatience = 30 * time.Second

// The adapters satisfy the ports: asserted here, where both are known.
var (
	_ turns.TurnStore   = (*postgres.Store)(nil)
	_ turns.EventLog    = (*pgstream.Log)(nil)
	_ turns.EventLog    = (*stream.MemoryLog)(nil)
	_ turns.Blobs       = (*blob.Store)(nil)
	_ turns.Runs        = (*inbox.Runs)(nil)
	_ turns.Driver      = (*direct.Driver)(nil)
	_ turns.Models      = (*llm.Models)(nil)
	_ turns.Tools       = (*tool.Registry)(nil)
	_ turns.Middleware  = (*middleware.Set)(nil)
	_ turns.Registry    = (*catalog.Registry)(nil)
	_ turns.Schemas     = (*schema.Checker)(nil)
	_ turns.Knowledge   = (*retrieval.Library)(nil)
	_ jobs.Results      = (*inbox.Inbox)(nil)
	_ retrieval.Store   = (*postgres.KnowledgeStore)(nil)
	_ catalog.Store     = (*postgres.CatalogStore)(nil)
	_ gateway.Agents    = (*catalog.Registry)(nil)
	_ gateway.Documents = (*catalog.Registry)(nil)
)

// Settings is the configuration that files, environment and flags give.
type Settings = app.Config

// Middleware is a middleware of the embedding program, under the name that agents use.
type Middleware = middleware.Named

// Config is what [New] needs: settings, and what the user adds in Go. Agents of the catalog name it; the shipped analyst has all of it.
type Config struct {
	Settings   *Settings
	Toolkits   []agent.Toolkit  // besides the built-in ones, that need nothing
	Factories  []ToolkitFactory // likewise, that need something
	Providers  []Provider       // of models, besides the built-in ones: configuration and documents may name them
	Middleware []Middleware     // besides the built-in ones
	Channels   []Channel        // ways in besides the gateway and the jobs of Redis
	Observers  []agent.Observer // are told what turns do, besides traces and metrics
	Env        []string         // as in os.Environ, for TEMPORAL_* variables and the env: references of auth profiles; nil: none
	Logger     *zap.Logger      // nil: as the settings say
}

// Service is a worker and a gateway in one process; the settings turn either off.
type Service struct {
	cfg    Config
	logger *zap.Logger

	pool      *pgxpool.Pool
	log       turns.EventLog
	closeLog  func()
	blobs     *blob.Store
	parts     *app.Parts
	library   *library.Library
	temporal  client.Client
	namespace string
	worker    sdkworker.Worker
	direct    *direct.Driver
	gateway   *gateway.Gateway
	failed    chan error
	stop      context.CancelFunc
	stopJobs  func()
	tasks     sync.WaitGroup
	copies    errgroup.Group // answers of the web chat on their way to Telegram

	stopChannels func(context.Context)

	telemetry instrumentation
	codec     *codec.Codec // of what Temporal keeps
	callers   callers
	bot       *telegram.Channel // nil: none
	schedules *cluster.AgentSchedules
	collector *results.Collector
	upkeep    upkeep
}

// New checks the configuration; nothing is opened yet.
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
		cfg: cfg, logger: logger, failed: make(chan error, 3), stop: func() {}, stopJobs: func() {}, stopChannels: func(context.Context) {}, closeLog: func() {},
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
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop = stop
	if err := s.openTelemetry(ctx); err != nil {
		return err
	}
	store, err := s.openStore(ctx)
	if err != nil {
		return err
	}
	if err := s.openTemporal(ctx); err != nil {
		return err
	}
	if err := s.openCallers(store); err != nil {
		return err
	}
	watch := &cluster.AttributeWatch{Temporal: s.temporal, Namespace: s.namespace, Logger: s.logger}
	if err := watch.Check(ctx); err != nil {
		return fmt.Errorf("look at the namespace: %w", err)
	}
	s.tasks.Go(func() { watch.Run(background) })
	if err := s.openLibrary(background, store); err != nil {
		return err
	}
	if err := s.openSchedules(background, store); err != nil {
		return err
	}
	if err := s.openCatalog(ctx, background, store); err != nil {
		return err
	}
	s.collect(background, store)
	s.forgetPayloads(background)
	return s.compose(ctx, background, store, watch)
}

// openStore connects to PostgreSQL, brings its schema up to date and opens the event log and the blob store.
func (s *Service) openStore(ctx context.Context) (*postgres.Store, error) {
	set := s.cfg.Settings
	pg := postgres.Config{URL: set.Database.URL.Reveal(), MaxConns: int32(set.Database.MaxConns), Logger: s.logger} //nolint:gosec // validated
	var err error
	if s.pool, err = postgres.Open(ctx, pg); err != nil {
		return nil, err
	}
	if err := postgres.Migrate(ctx, s.pool); err != nil {
		return nil, err
	}
	if err := s.openLog(ctx); err != nil {
		return nil, err
	}
	pg.SeparateLog = set.Events.Log == app.LogMemory
	pg.CatalogPoll = set.Catalog.Poll
	pg.BlobGrace = set.Storage.CollectAfter
	store := postgres.NewStore(s.pool, pg)
	if s.blobs, err = blob.Open(ctx, set.Storage.BlobURL.Reveal(), blob.WithLedger(store.ContentStore)); err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	return store, nil
}

// openLog opens the event log: in the database, or in this process for one that has no other.
func (s *Service) openLog(ctx context.Context) error {
	set := s.cfg.Settings.Events
	if set.Log == app.LogMemory {
		s.log = stream.NewMemoryLog()
		return nil
	}
	var relay *pgstream.Relay
	if set.Relay.Enabled {
		relay = &pgstream.Relay{Address: set.Relay.Address, Advertise: set.Relay.Advertise}
	}
	log, err := pgstream.New(ctx, pgstream.Config{
		Pool: s.pool, Logger: s.logger, Watch: s.telemetry.counts, Retention: s.unswept(set.Retention), Flush: set.FlushInterval, Relay: relay,
	})
	if err != nil {
		return err
	}
	s.log, s.closeLog = log, log.Stop
	return nil
}

func (s *Service) openTemporal(ctx context.Context) error {
	options, err := app.TemporalOptions(s.cfg.Settings.Temporal, s.cfg.Env)
	if err != nil {
		return err
	}
	options.Logger = app.TemporalLogger(s.logger)
	if options, err = s.encode(options); err != nil {
		return err
	}
	if options, err = s.telemetry.instrumentClient(options, s); err != nil {
		return err
	}
	s.namespace = options.Namespace
	s.temporal, err = backoff.Retry(ctx, func() (client.Client, error) { return client.DialContext(ctx, options) },
		backoff.WithMaxElapsedTime(temporalPatience))
	if err != nil {
		return fmt.Errorf("connect to Temporal at %s: %w", options.HostPort, err)
	}
	return nil
}

// compose wires activities, worker and gateway.
func (s *Service) compose(ctx, background context.Context, store *postgres.Store, watch *cluster.AttributeWatch) error {
	set := s.cfg.Settings
	parts := s.parts
	// Not under Worker Versioning: an eager start takes the worker that asks, whichever version is current.
	eager := set.Temporal.EagerStart && set.Temporal.WorkerVersioning.Deployment == ""
	runs := &inbox.Runs{Temporal: s.temporal, TaskQueue: set.Temporal.TaskQueue, Eager: eager, SearchAttributes: watch.KnowsTurns}
	library, err := retrieval.New(retrieval.Config{Store: store.KnowledgeStore, Embedders: parts.Models.Embedder, Logger: s.logger})
	if err != nil {
		return err
	}
	outcomes := &probes.Outcomes{}
	var countFallback func(agent.Fallback)
	if set.Worker.Enabled { // a gateway alone counts none
		countFallback = s.telemetry.counts.DirectFallback
	}
	cases, err := turns.New(turns.Config{
		Registry: parts.Registry, Models: watchedModels{parts.Models, outcomes}, Tools: parts.Tools, Middleware: parts.Middleware, Store: store, Log: s.log,
		Blobs: s.blobs, Runs: runs, Schemas: schema.New(), Knowledge: library, DirectFallback: countFallback,
		Observer: s.telemetry.observer, Logger: s.logger, MaxMessageBytes: int(set.Turn.MaxMessageBytes), QueueLength: set.Turn.QueueLength,
		BatchInterval: set.Events.BatchInterval, MaxInlineBytes: int(set.Storage.MaxInlineBytes),
		OnUnavailable: agent.OnUnavailable(set.Turn.OnUnavailable),
		OutputBytes:   int(set.Turn.OutputBytes), HistoryOutputBytes: int(set.Turn.HistoryOutputBytes), TurnEvents: set.Turn.ContinueAsNewEvents,
		ConversationEvents: set.Conversation.ContinueAsNewEvents, SearchAttributes: watch.KnowsTurns, StatusAttributes: watch.KnowsStatus,
		FailsWorkflow: set.Temporal.FailWorkflows, MessageSummaries: set.Temporal.MessageSummaries,
		ModelCalls: agent.ModelCalls(set.Temporal.ModelCalls), ProviderWait: set.Turn.ProviderWait, StartsHere: eager && set.Worker.Enabled,
	})
	if err != nil {
		return err
	}
	health := &health{
		service: s, queue: set.Temporal.TaskQueue, namespace: s.namespace, attributes: watch.KnowsAll, exporting: s.telemetry.traceStatus(),
	}
	var driver turns.Driver
	if set.Worker.Enabled { // a gateway alone calls no model
		health.outcomes = outcomes
		if s.direct, err = direct.New(direct.Config{
			Turns: cases, Start: runs.TakeOver, Watch: s.telemetry.counts, Logger: s.logger, MaxTurns: set.Turn.DirectTurns, MaxTime: set.Turn.DirectMax,
		}); err != nil {
			return err
		}
		driver = s.direct
	}
	if s.swept() {
		health.retention = s.upkeep.scheduled
	}
	gate, err := s.newGate(store, cases.EndOrphan)
	if err != nil {
		return err
	}
	box := inbox.New(inbox.Config{
		Inbox: turns.NewInbox(turns.InboxConfig{
			Turns: cases, Driver: driver, Admission: gate, Capacity: admission.NewCapacity(set.Turn.BeginWithin),
			Audit: s.callers.trail, DirectChannels: set.Gateway.DirectChannels,
		}),
		Runs: runs, Store: store, Blobs: s.blobs, Health: health.check, Library: library, Catalog: parts.Registry, Models: parts.Models,
		Results: s.rows(store), Definitions: s.library,
	})
	if err := s.watchInstallation(store, gate); err != nil {
		return err
	}
	if err := s.openUpkeep(background, store, cases, box); err != nil {
		return err
	}
	if err := s.openBot(store); err != nil {
		return err
	}
	if set.Worker.Enabled {
		if err := s.startWorker(store, cases, box, watch); err != nil {
			return err
		}
	}
	if set.Gateway.Enabled {
		if err := s.startGateway(ctx, background, store, box); err != nil {
			return err
		}
	}
	if err := s.startJobs(ctx, box); err != nil {
		return err
	}
	s.startChannels(ctx, box)
	return nil
}

// startGateway serves HTTP and gRPC; a listener that fails later ends the service.
func (s *Service) startGateway(ctx, background context.Context, store *postgres.Store, box *inbox.Inbox) error {
	set := s.cfg.Settings
	doors, err := s.doors(background)
	if err != nil {
		return err
	}
	cfg := gateway.Config{
		HTTPAddr: set.HTTP.Addr, GRPCAddr: set.GRPC.Addr, Ports: s.ports(store, box),
		Metrics: promhttp.HandlerFor(s.telemetry.registry, promhttp.HandlerOpts{}),
		Logger:  s.logger, Version: app.Version(), AllowedHosts: set.HTTP.AllowedHosts, AllowedOrigins: set.HTTP.AllowedOrigins,
		Limits: gateway.Limits{BodyBytes: int64(set.HTTP.MaxBodyBytes), ReadTimeout: set.HTTP.ReadHeaderTimeout}, Doors: doors,
	}
	s.callers.addTo(&cfg)
	s.telemetry.instrumentGateway(&cfg)
	if err := s.addServerTLS(&cfg); err != nil {
		return err
	}
	if s.gateway, err = gateway.New(cfg); err != nil {
		return err
	}
	if err := s.gateway.Start(ctx); err != nil {
		return err
	}
	go func() {
		if err, ok := <-s.gateway.Failed(); ok {
			s.failed <- err
		}
	}()
	return nil
}

// HTTPAddr returns the address at which the gateway serves HTTP, "" without a gateway.
func (s *Service) HTTPAddr() string {
	if s.gateway == nil {
		return ""
	}
	return s.gateway.HTTPAddr()
}

// GRPCAddr returns the address at which the gateway serves gRPC, "" without a gateway.
func (s *Service) GRPCAddr() string {
	if s.gateway == nil {
		return ""
	}
	return s.gateway.GRPCAddr()
}

// Temporal is the service's client, for programs that start or inspect workflows beside it. Nil before Start.
func (s *Service) Temporal() client.Client { return s.temporal }

// Stop drains: first the doors, then the direct turns, which become durable, then the worker, then what both need. Stopping twice does nothing.
func (s *Service) Stop(ctx context.Context) error {
	var faults []error
	var bridging sync.WaitGroup
	bridging.Go(s.stopJobs)
	bridging.Go(func() { s.stopChannels(ctx) })
	if s.gateway != nil {
		closing, cancel := context.WithTimeout(ctx, s.cfg.Settings.ShutdownTimeout)
		faults = append(faults, s.gateway.Shutdown(closing))
		cancel()
	}
	bridging.Wait()
	if s.direct != nil {
		faults = append(faults, s.direct.Stop(ctx))
		s.direct = nil
	}
	if s.worker != nil {
		s.worker.Stop()
		s.worker = nil
	}
	s.stop()
	s.tasks.Wait()
	faults = append(faults, s.copies.Wait())
	faults = append(faults, s.callers.close(ctx))
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
