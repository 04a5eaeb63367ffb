package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
	"github.com/turnstone-run/turnstone/turnstonetest"
	"github.com/turnstone-run/turnstone/workflows"
)

func TestMain(m *testing.M) {
	if folder := os.Getenv(temporalFolder); folder != "" {
		os.Exit(serveTemporal(folder))
	}
	if addr := os.Getenv(relayAddr); addr != "" {
		os.Exit(serveRelay(addr))
	}
	// Tests mostly wait: more of them run at once than there are processors, unless the command line says otherwise.
	if err := flag.Set("test.parallel", strconv.Itoa(max(testsAtOnce, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(programs.folder); err != nil {
		fmt.Fprintln(os.Stderr, "remove programs:", err)
	}
	os.Exit(code)
}

// testsAtOnce keeps two processors busy and leaves them time for the tests whose bounds are seconds.
const testsAtOnce = 8

// The test binary started with these variables is a Temporal server, so that a test can kill one without another program to link.
const (
	temporalFolder = "TURNSTONE_E2E_TEMPORAL_FOLDER"
	temporalPort   = "TURNSTONE_E2E_TEMPORAL_PORT"
)

// serveTemporal runs a Temporal server until standard input ends, as it does when the test that holds the other end is gone.
func serveTemporal(folder string) int {
	port, err := strconv.Atoi(os.Getenv(temporalPort))
	if err == nil {
		_, err = embedded.Start(context.Background(), devstack.TemporalConfig{
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

// programs holds the paths of what [makeOnce] has made, by source.
var programs struct {
	sync.Mutex

	folder string
	made   map[string]string
}

// makeOnce returns the path at which the first caller for a source had a program made, for all tests of the process.
func makeOnce(t testing.TB, source string, makeProgram func(path string)) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if path, made := programs.made[source]; made {
		return path
	}
	if programs.made == nil {
		var err error
		programs.folder, err = os.MkdirTemp("", "e2e-programs-")
		require.NoError(t, err)
		programs.made = map[string]string{}
	}
	path := filepath.Join(programs.folder, strconv.Itoa(len(programs.made)))
	makeProgram(path)
	programs.made[source] = path
	return path
}

// build makes a binary out of a package or file.
func build(t testing.TB, source string) string {
	t.Helper()
	return makeOnce(t, source, func(path string) {
		out, err := exec.Command("go", "build", "-o", path, source).CombinedOutput()
		require.NoError(t, err, "%s", out)
	})
}

// nothingRemembered is for turns that are to be the same: none of them is answered out of the result cache.
func nothingRemembered(c *app.Config) { c.Tools.Pipeline.CacheTTL = 0 }

// system is a running service with a client of its HTTP door.
type system struct {
	*turnstonetest.Stack

	t      testing.TB
	set    *app.Config
	client *client.Client
}

func start(t testing.TB, change ...func(*app.Config)) *system {
	t.Helper()
	return startWith(t, turnstonetest.Settings(t, change...))
}

func startWith(t testing.TB, set *app.Config) *system {
	t.Helper()
	return startService(t, turnstone.Config{Settings: set})
}

// startService is [startWith] for a service with code of its own.
func startService(t testing.TB, cfg turnstone.Config) *system {
	t.Helper()
	stack := turnstonetest.Start(t, cfg)
	return &system{Stack: stack, t: t, set: stack.Settings, client: stack.Client}
}
