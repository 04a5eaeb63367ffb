package e2e_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/offline"
	"github.com/turnstone-run/turnstone/internal/postgres/postgrestest"
	"github.com/turnstone-run/turnstone/workflows"
)

// shared is what all tests of the process use: a Temporal server, the sample API and the offline model. Each test has a task queue
// and a database of its own.
var shared struct {
	stack *devstack.Stack
	model *offline.Server
}

func TestMain(m *testing.M) {
	if folder := os.Getenv(temporalFolder); folder != "" {
		os.Exit(serveTemporal(folder))
	}
	if addr := os.Getenv(relayAddr); addr != "" {
		os.Exit(serveRelay(addr))
	}
	os.Exit(runTests(m))
}

// The test binary started with these variables is a Temporal server, so that a test can kill one without another program to link.
const (
	temporalFolder = "TURNSTONE_E2E_TEMPORAL_FOLDER"
	temporalPort   = "TURNSTONE_E2E_TEMPORAL_PORT"
)

// serveTemporal runs a Temporal server until standard input ends, as it does when the test that holds the other end is gone.
func serveTemporal(folder string) int {
	port, err := strconv.Atoi(os.Getenv(temporalPort))
	if err == nil {
		_, err = devstack.StartTemporal(context.Background(), devstack.TemporalConfig{
			DataDir: folder, FrontendPort: port, SearchAttributes: workflows.SearchAttributes(),
		})
	}
	if err == nil {
		_, err = io.Copy(io.Discard, os.Stdin)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "Temporal:", err)
		return 1
	}
	return 0
}

func runTests(m *testing.M) int {
	ctx := context.Background()
	var err error
	shared.stack, err = devstack.Start(ctx, devstack.Config{
		AnyPort: true, Flights: &devstack.FlightsConfig{},
		Temporal: &devstack.TemporalConfig{SearchAttributes: workflows.SearchAttributes()},
	})
	if err == nil {
		shared.model, err = offline.Start(ctx, "127.0.0.1:0", offline.Config{FlightsURL: shared.stack.Flights.URL() + "/flights", TokenDelay: -1})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "start stack:", err)
		return 1
	}
	code := m.Run()
	stop, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := shared.model.Close(stop); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := shared.stack.Close(stop); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return code
}

var unfit = regexp.MustCompile(`[^A-Za-z0-9_.-]`)

// settingsFor is the configuration of a test: its own queue, database and blobs, any free ports.
func settingsFor(t testing.TB, change ...func(*app.Config)) *app.Config {
	t.Helper()
	s := app.Default()
	s.HTTP.Addr, s.GRPC.Addr = "127.0.0.1:0", "127.0.0.1:0"
	s.Temporal.Address, s.Temporal.Namespace = shared.stack.Temporal.Address(), shared.stack.Temporal.Namespace()
	s.Temporal.TaskQueue = unfit.ReplaceAllString(t.Name(), "-")
	s.Storage.BlobURL = app.Secret("file://" + t.TempDir())
	s.LLM.Provider, s.LLM.Model, s.LLM.BaseURL = app.ProviderOffline, offline.ModelName, shared.model.BaseURL()
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

// nothingRemembered is for turns that are to be the same: none of them is answered out of the result cache.
func nothingRemembered(c *app.Config) { c.Tools.Pipeline.CacheTTL = 0 }

// system is a running service with a client of its HTTP door.
type system struct {
	*turnstone.Service
	t      testing.TB
	set    *app.Config
	client *client.Client
}

func start(t testing.TB, change ...func(*app.Config)) *system {
	t.Helper()
	return startWith(t, settingsFor(t, change...))
}

func startWith(t testing.TB, set *app.Config) *system {
	t.Helper()
	return startService(t, turnstone.Config{Settings: set, Logger: testLogger(t)})
}

// startService is [startWith] for a service with code of its own.
func startService(t testing.TB, cfg turnstone.Config) *system {
	t.Helper()
	service, err := turnstone.New(cfg)
	require.NoError(t, err)
	require.NoError(t, service.Start(t.Context()))
	s := &system{Service: service, t: t, set: cfg.Settings}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, service.Stop(ctx))
	})
	s.client, err = client.New(client.Config{Server: "http://" + service.HTTPAddr()})
	require.NoError(t, err)
	return s
}

// testLogger shows warnings of a failed test; the services outlive the test's own log by a moment, so it writes to stderr.
func testLogger(t testing.TB) *zap.Logger {
	t.Helper()
	cfg := zap.NewDevelopmentConfig()
	cfg.Level = zap.NewAtomicLevelAt(zapcore.WarnLevel)
	cfg.DisableStacktrace = true
	logger, err := cfg.Build()
	require.NoError(t, err)
	return logger.Named(t.Name())
}
