package turnstonetest

import (
	"context"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
	"github.com/turnstone-run/turnstone/internal/devstack/offline"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/workflows"
)

const (
	runTime  = time.Minute // for one turn
	stopTime = 30 * time.Second
)

// sharedStack has the servers that all tests of the process share.
type sharedStack struct {
	temporal *devstack.Stack
	model    *offline.Server
}

// startShared starts the Temporal server, the sample API and the offline model once. They end with the process.
//
//nolint:gochecknoglobals // one server for all tests of the process: it takes a second to start
var startShared = sync.OnceValues(func() (s sharedStack, err error) {
	ctx := context.Background()
	s.temporal, err = devstack.Start(ctx, devstack.Config{
		AnyPort: true, Flights: &devstack.FlightsConfig{}, StartTemporal: embedded.Start,
		Temporal: &devstack.TemporalConfig{SearchAttributes: workflows.SearchAttributes()},
	})
	if err == nil {
		s.model, err = offline.Start(ctx, "127.0.0.1:0", offline.Config{FlightsURL: s.temporal.Flights.URL() + "/flights", TokenDelay: -1})
	}
	return s, err
})

func sharedParts(t testing.TB) sharedStack {
	t.Helper()
	s, err := startShared()
	if err != nil {
		t.Fatalf("turnstonetest: start Temporal: %v", err)
	}
	return s
}

// FlightsURL returns the address of a small HTTP API with flights, for tools that fetch.
func FlightsURL(t testing.TB) string {
	t.Helper()
	return sharedParts(t).temporal.Flights.URL()
}

var notInQueueName = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// Settings returns the settings of a test's service: a task queue, database and blobs of its own, free ports, and the offline model of `go run
// ./dev`. Each change is applied in turn; the database is made if none has set Database.URL.
func Settings(t testing.TB, change ...func(*turnstone.Settings)) *turnstone.Settings {
	t.Helper()
	parts := sharedParts(t)
	s := app.Default()
	s.HTTP.Addr, s.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	s.Temporal.Address, s.Temporal.Namespace = parts.temporal.Temporal.Address(), parts.temporal.Temporal.Namespace()
	s.Temporal.TaskQueue = notInQueueName.ReplaceAllString(t.Name(), "-")
	s.Storage.BlobURL = app.Secret("file://" + t.TempDir())
	s.LLM.Provider, s.LLM.Model, s.LLM.BaseURL = app.ProviderOffline, offline.ModelName, parts.model.BaseURL()
	s.Egress.AllowPrivate = []string{"127.0.0.1/32"} // servers of tests, which documents and models name
	s.ShutdownTimeout = 15 * time.Second
	s.Turn.BeginWithin = 0  // a slow machine is to refuse nothing
	s.Turn.ProviderWait = 0 // a provider that fails ends its turn, unless a test says otherwise
	for _, c := range change {
		c(&s)
	}
	if s.Database.URL == "" {
		s.Database.URL = app.Secret(postgrestest.New(t))
	}
	return &s
}

// Stack is a running service and a client of its HTTP API.
type Stack struct {
	*turnstone.Service

	Client   *client.Client
	Settings *turnstone.Settings

	t testing.TB
}

// Start starts a service, which ends with the test. Without cfg.Settings it runs on [Settings] with the changes; without cfg.Logger warnings go to
// standard error.
func Start(t testing.TB, cfg turnstone.Config, change ...func(*turnstone.Settings)) *Stack {
	t.Helper()
	if cfg.Settings == nil {
		cfg.Settings = Settings(t, change...)
	}
	if cfg.Logger == nil {
		cfg.Logger = Logger(t)
	}
	service, err := turnstone.New(cfg)
	if err == nil {
		err = service.Start(t.Context())
	}
	if err != nil {
		t.Fatalf("turnstonetest: start the service: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTime)
		defer cancel()
		if err := service.Stop(ctx); err != nil {
			t.Errorf("turnstonetest: stop the service: %v", err)
		}
	})
	s := &Stack{Service: service, Settings: cfg.Settings, t: t}
	if s.Client, err = client.New(client.Config{Server: "http://" + service.HTTPAddr()}); err != nil {
		t.Fatalf("turnstonetest: %v", err)
	}
	return s
}

// Run runs a turn and returns its result and its events. A turn that has not ended within a minute fails the test.
func (s *Stack) Run(req agent.TurnRequest) (agent.AgentStepOutput, []agent.Event) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), runTime)
	defer cancel()
	receipt, err := s.Client.Start(ctx, req)
	if err != nil {
		s.t.Fatalf("start a turn: %v", err)
	}
	return s.Follow(ctx, receipt.TurnID)
}

// Follow waits for the end of a turn and returns its result and its events.
func (s *Stack) Follow(ctx context.Context, id agent.TurnID) (agent.AgentStepOutput, []agent.Event) {
	s.t.Helper()
	var events []agent.Event
	for e, err := range s.Client.Follow(ctx, id, 0) {
		if err != nil {
			s.t.Fatalf("follow turn %s: %v", id, err)
		}
		events = append(events, e)
	}
	if n := len(events); n == 0 || events[n-1].Result == nil {
		s.t.Fatalf("turn %s has no terminal event among %d", id, n)
	}
	return *events[len(events)-1].Result, events
}

// Logger returns a logger that writes warnings to standard error: services outlive their test's own log by a moment.
func Logger(t testing.TB) *zap.Logger {
	t.Helper()
	cfg := zap.NewDevelopmentConfig()
	cfg.Level = zap.NewAtomicLevelAt(zapcore.WarnLevel)
	cfg.DisableStacktrace = true
	logger, err := cfg.Build()
	if err != nil {
		t.Fatal(fmt.Errorf("turnstonetest: %w", err))
	}
	return logger.Named(t.Name())
}
