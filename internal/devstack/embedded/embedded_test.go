package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/common/headers"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
	"github.com/turnstone-run/turnstone/internal/devstack/pgdev"
)

// serverArg is the argument with which the test binary runs a server until a test kills it.
const serverArg = "run-a-server"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serverArg {
		runServer(os.Args[2])
	}
	if len(os.Args) > 2 && os.Args[1] == cliArg {
		actAsTemporal(os.Args[2:])
	}
	os.Exit(m.Run())
}

// runServer starts a server in dir, runs a workflow, prints "done" and waits.
func runServer(dir string) {
	ctx := context.Background()
	server, err := embedded.Start(ctx, devstack.TemporalConfig{DataDir: dir, SearchAttributes: attributes()})
	if err == nil {
		err = runGreeting(ctx, server, "killed", "acme")
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println("done")
	select {}
}

func attributes() map[string]enumspb.IndexedValueType {
	keyword := enumspb.INDEXED_VALUE_TYPE_KEYWORD
	return map[string]enumspb.IndexedValueType{"TurnstoneTenant": keyword, "TurnstoneAgent": keyword, "TurnstoneSession": keyword}
}

func greet(ctx workflow.Context, name string) (string, error) {
	// The workflow sets a search attribute, as a turn does. If the server did not know the attribute, the workflow would hang.
	tenant := temporal.NewSearchAttributeKeyKeyword("TurnstoneTenant")
	if err := workflow.UpsertTypedSearchAttributes(ctx, tenant.ValueSet(name)); err != nil {
		return "", err
	}
	return "hello " + name, nil
}

func TestEmbeddedServer(t *testing.T) {
	t.Parallel()
	exerciseServer(t, embedded.Start)
}

// exerciseServer tests an implementation of [devstack.StartTemporal] with several servers in the same folder, one after the other.
func exerciseServer(t *testing.T, start devstack.StartTemporal) {
	t.Helper()
	cfg := devstack.TemporalConfig{DataDir: t.TempDir()}

	// The first server has no search attributes, as in an earlier release.
	first := startServer(t, start, cfg)
	_, err := start(t.Context(), cfg)
	require.ErrorIs(t, err, pgdev.ErrInUse, "one server per folder")
	_, err = start(t.Context(), devstack.TemporalConfig{FrontendPort: portOf(t, first.Address())})
	require.ErrorIs(t, err, devstack.ErrPortInUse)
	require.Empty(t, first.UIURL())
	require.NoError(t, first.Stop())
	require.NoError(t, first.Stop(), "stopping twice is harmless")
	_, err = new(net.Dialer).DialContext(t.Context(), "tcp", first.Address())
	require.Error(t, err, "the server still answers")

	cfg.SearchAttributes, cfg.EnableUI = attributes(), true
	second := startServer(t, start, cfg)
	require.NoError(t, runGreeting(t.Context(), second, "kept", "acme"))
	require.Contains(t, fetch(t, second.UIURL()), "/_app/immutable/")
	require.NoError(t, second.Stop())

	third := startServer(t, start, cfg)
	requireKept(t, third, "kept", "acme")
	require.NoError(t, third.Stop())

	cfg.SearchAttributes = map[string]enumspb.IndexedValueType{"TurnstoneTenant": enumspb.INDEXED_VALUE_TYPE_INT}
	_, err = start(t.Context(), cfg)
	require.ErrorContains(t, err, "TurnstoneTenant is a Keyword")
}

func TestStateOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := exec.CommandContext(t.Context(), os.Args[0], serverArg, dir)
	out, err := owner.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, owner.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "done\n", line)
	require.NoError(t, owner.Process.Kill())
	require.Error(t, owner.Wait())

	server := startTemporal(t, devstack.TemporalConfig{DataDir: dir, SearchAttributes: attributes()})
	requireKept(t, server, "killed", "acme")
	require.NoError(t, runGreeting(t.Context(), server, "after", "globex"))
}

func TestInterruptedFirstStartBeginsAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "100% a?b #1") // characters with a meaning in URIs
	require.NoError(t, os.Mkdir(dir, 0o700))
	database := filepath.Join(dir, "temporal-"+headers.ServerVersion+".db")
	require.NoError(t, os.WriteFile(database, nil, 0o600)) // a file without tables is a valid database
	require.NoError(t, os.WriteFile(database+".incomplete", nil, 0o600))

	server := startTemporal(t, devstack.TemporalConfig{DataDir: dir, SearchAttributes: attributes()})
	require.NoError(t, runGreeting(t.Context(), server, "fresh", "acme"))
	require.NoFileExists(t, database+".incomplete")
	info, err := os.Stat(database)
	require.NoError(t, err)
	require.NotZero(t, info.Size(), "the data is where it should be")
}

func TestServersInOneProcessDoNotMeet(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	cfg := devstack.TemporalConfig{SearchAttributes: attributes(), EnableUI: true, Logger: zap.New(core)}
	one, two := startTemporal(t, cfg), startTemporal(t, cfg)
	require.NotEqual(t, one.Address(), two.Address())
	require.NoError(t, runGreeting(t.Context(), one, "lonely", "acme"))

	c, err := dial(t.Context(), two)
	require.NoError(t, err)
	_, err = c.DescribeWorkflowExecution(t.Context(), "lonely", "")
	require.ErrorContains(t, err, "not found")
	c.Close()

	script := regexp.MustCompile(`/_app/immutable/entry/start\.[^"]+\.js`)
	for _, server := range []devstack.Temporal{one, two} {
		page := fetch(t, server.UIURL())
		require.Regexp(t, script, page)
		require.NotEmpty(t, fetch(t, server.UIURL()+script.FindString(page)), "the page's script is served")
		require.Regexp(t, `"name": ?"default"`, fetch(t, server.UIURL()+"/api/v1/namespaces/default"), "the UI reaches its server")
	}
	require.Empty(t, logs.All(), "a healthy server is quiet")
}

func TestBusyPort(t *testing.T) {
	t.Parallel()
	taken := startTemporal(t, devstack.TemporalConfig{})
	port := portOf(t, taken.Address())

	_, err := embedded.Start(t.Context(), devstack.TemporalConfig{UIPort: port, EnableUI: true})
	require.ErrorIs(t, err, devstack.ErrPortInUse)
	require.ErrorContains(t, err, "Web UI")

	other := startTemporal(t, devstack.TemporalConfig{FrontendPort: port, AnyPort: true})
	require.NotEqual(t, taken.Address(), other.Address())
}

func startTemporal(t *testing.T, cfg devstack.TemporalConfig) devstack.Temporal {
	t.Helper()
	return startServer(t, embedded.Start, cfg)
}

func startServer(t *testing.T, start devstack.StartTemporal, cfg devstack.TemporalConfig) devstack.Temporal {
	t.Helper()
	began := time.Now()
	server, err := start(t.Context(), cfg)
	require.NoError(t, err)
	t.Logf("started in %s", time.Since(began).Round(time.Millisecond))
	t.Cleanup(func() {
		began := time.Now()
		require.NoError(t, server.Stop())
		t.Logf("stopped in %s", time.Since(began).Round(time.Millisecond))
	})
	return server
}

func dial(ctx context.Context, server devstack.Temporal) (client.Client, error) {
	return client.DialContext(ctx, client.Options{HostPort: server.Address(), Namespace: devstack.Namespace, Logger: quiet{}})
}

// runGreeting starts a worker, runs one workflow and stops the worker.
func runGreeting(ctx context.Context, server devstack.Temporal, id, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	c, err := dial(ctx, server)
	if err != nil {
		return err
	}
	defer c.Close()
	w := worker.New(c, "greetings", worker.Options{})
	w.RegisterWorkflow(greet)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()

	agent := temporal.NewSearchAttributeKeyKeyword("TurnstoneAgent")
	run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: id, TaskQueue: "greetings",
		TypedSearchAttributes: temporal.NewSearchAttributes(agent.ValueSet("greeter")),
	}, greet, name)
	if err != nil {
		return err
	}
	var answer string
	if err := run.Get(ctx, &answer); err != nil {
		return err
	}
	if answer != "hello "+name {
		return fmt.Errorf("workflow %s answered %q", id, answer)
	}
	return nil
}

// requireKept checks that the server has a greeting that an earlier server ran.
func requireKept(t *testing.T, server devstack.Temporal, id, name string) {
	t.Helper()
	c, err := dial(t.Context(), server)
	require.NoError(t, err)
	defer c.Close()
	var answer string
	require.NoError(t, c.GetWorkflow(t.Context(), id, "").Get(t.Context(), &answer))
	require.Equal(t, "hello "+name, answer)
	requireListed(t, c, fmt.Sprintf("TurnstoneTenant = %q AND TurnstoneAgent = 'greeter'", name), id)
}

// requireListed waits until the visibility store answers query with exactly the workflow id.
func requireListed(t *testing.T, c client.Client, query, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		list, err := c.ListWorkflow(context.Background(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
		found := list.GetExecutions()
		return err == nil && len(found) == 1 && found[0].GetExecution().GetWorkflowId() == id
	}, 30*time.Second, 50*time.Millisecond, "%s lists exactly %s", query, id)
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	return string(body)
}

// quiet is a logger that drops the log lines of the SDK.
type quiet struct{}

var _ log.Logger = quiet{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
