package embedded_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack"
	"github.com/turnstone-run/turnstone/internal/devstack/embedded"
)

// cliArg is the argument with which the test binary acts as a temporal command.
const cliArg = "act-as-temporal"

// actAsTemporal parses the flags of `temporal server start-dev` and runs the embedded server until SIGTERM.
func actAsTemporal(args []string) {
	flags := flag.NewFlagSet("start-dev", flag.ExitOnError)
	cfg := devstack.TemporalConfig{}
	flags.IntVar(&cfg.FrontendPort, "port", 0, "")
	flags.IntVar(&cfg.UIPort, "ui-port", 0, "")
	headless := flags.Bool("headless", false, "")
	database := flags.String("db-filename", "", "")
	for _, ignored := range []string{"ip", "namespace", "log-level", "http-port", "ui-codec-endpoint"} {
		flags.String(ignored, "", "")
	}
	flags.Func("dynamic-config-value", "", func(string) error { return nil })
	_ = flags.Parse(args[2:]) // after "server start-dev"
	cfg.EnableUI = !*headless
	if *database != "" {
		cfg.DataDir = filepath.Join(filepath.Dir(*database), "server")
	}
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	server, err := embedded.Start(ctx, cfg)
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	<-ctx.Done()
	_ = server.Stop()
	os.Exit(0)
}

// installTemporal installs a temporal command in PATH. It prints a version, and its server is the embedded one.
func installTemporal(t *testing.T, version string) {
	t.Helper()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = --version ] && { echo '%s'; exit; }\nexec '%s' %s \"$@\"\n", version, os.Args[0], cliArg)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "temporal"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

func TestFindTemporalCLI(t *testing.T) {
	for name, c := range map[string]struct{ version, refused string }{
		"the oldest":    {"temporal version 1.5.1 (Server 1.29.0, UI 2.42.1)", ""},
		"newer version": {"temporal version 1.9.1 (Server 1.32.1-155.0, UI 2.55.0)", ""},
		"too old":       {"temporal version 1.1.0 (Server 1.25.0, UI 2.31.2)", "want v1.29.0 or later"},
		"other program": {"temporal, a calendar", "does not name its server"},
	} {
		t.Run(name, func(t *testing.T) {
			installTemporal(t, c.version)
			_, err := devstack.FindTemporalCLI(t.Context())
			if c.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, devstack.ErrNoTemporalCLI)
			require.ErrorContains(t, err, c.refused)
		})
	}
	t.Setenv("PATH", t.TempDir())
	_, err := devstack.FindTemporalCLI(t.Context())
	require.ErrorIs(t, err, devstack.ErrNoTemporalCLI)
}

func TestTemporalCLI(t *testing.T) {
	installTemporal(t, "temporal version 1.9.1 (Server 1.32.1, UI 2.55.0)")
	cli, err := devstack.FindTemporalCLI(t.Context())
	require.NoError(t, err)
	exerciseServer(t, cli.Start)
}

// TestTemporalCLIThatEnds checks that the error of a server that does not start has the output of the server.
func TestTemporalCLIThatEnds(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\n[ \"$1\" = --version ] && { echo '(Server 1.32.1)'; exit; }\necho 'unknown flag: --http-port'; exit 1\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "temporal"), []byte(script), 0o700))
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	cli, err := devstack.FindTemporalCLI(t.Context())
	require.NoError(t, err)
	_, err = cli.Start(t.Context(), devstack.TemporalConfig{})
	require.ErrorContains(t, err, "ended while starting (exit status 1): unknown flag: --http-port")
}
