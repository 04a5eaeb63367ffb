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
	runTime  = time.Minute // longest duration of a turn
	stopTime = 30 * time.Second
)

// sharedStack has the servers that all tests of a process share.
type sharedStack struct {
	temporal *devstack.Stack
	model    *offline.Server
}

// startShared starts the Temporal server, the sample API and the offline model once. They end with the process.
//
//nolint:gochecknoglobals // shared by all tests, because it takes a second to start
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

// FlightsURL returns the base URL of a small HTTP API with flights, for tools that make requests.
func FlightsURL(t testing.TB) string {
	t.Helper()
	return sharedParts(t).temporal.Flights.URL()
}

var notInQueueName = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// Settings returns the settings of a service for a test: with a task queue, a database and a folder for blobs of its own, free ports, and the offline
// model of `go run ./dev`. It applies the changes in their order. It creates no database if a change sets Database.URL.
func Settings(t testing.TB, change ...func(*turnstone.Settings)) *turnstone.Settings {
	t.Helper()
	parts := sharedParts(t)
	s := app.Default()
	s.HTTP.Addr, s.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	s.Temporal.Address, s.Temporal.Namespace = parts.temporal.Temporal.Address(), devstack.Namespace
	s.Temporal.TaskQueue = notInQueueName.ReplaceAllString(t.Name(), "-")
	s.Storage.BlobURL = app.Secret("file://" + t.TempDir())
	s.LLM.Provider, s.LLM.Model, s.LLM.BaseURL = app.ProviderOffline, offline.ModelName, parts.model.BaseURL()
	s.Egress.AllowPrivate = []string{"127.0.0.1/32"} // where the servers of tests listen
	s.ShutdownTimeout = 15 * time.Second
	s.Turn.BeginWithin = 0  // or a slow machine would refuse turns
	s.Turn.ProviderWait = 0 // so that a turn ends when its provider fails
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

// Start starts a service, which ends with the test. If cfg.Settings is nil, it has [Settings] with the changes. If cfg.Logger is nil, it has [Logger].
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

// Run runs a turn and returns its result and its events. The test fails if the turn takes longer than a minute.
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

// Follow waits until a turn has ended and returns its result and its events.
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

// Logger returns a logger that writes warnings to standard error, because a service may write log lines after its test has ended.
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
