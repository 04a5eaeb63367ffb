// Command dev runs everything on one machine: a Temporal server with its Web UI, a private PostgreSQL, an offline model, a sample API, the worker and
// the gateway.
//
//	go run ./dev demo ["a prompt of your own"]   # run one turn and end
//	go run ./dev                                 # run until Ctrl-C
//
// The Temporal server is that of the temporal command. If the command is not installed, this program builds and runs ./dev/embedded, which has a
// Temporal server and takes twice as long to compile.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/turnstone-run/turnstone/dev/cli"
	"github.com/turnstone-run/turnstone/internal/devstack"
)

// embedded is the package of the program with an embedded Temporal server.
const embedded = "github.com/turnstone-run/turnstone/dev/embedded"

func main() { os.Exit(cli.Run("dev", os.Args[1:], chooseTemporal)) }

// chooseTemporal returns a function that starts the server of the temporal command. If the command is not installed, chooseTemporal replaces this
// process by [embedded], and returns only if that fails.
func chooseTemporal(ctx context.Context) (devstack.StartTemporal, error) {
	command, err := devstack.FindTemporalCLI(ctx)
	if err == nil {
		return command.Start, nil
	}
	fmt.Fprintf(os.Stderr, "· %v: compiling an embedded server, which takes some minutes the first time…\n", err)
	program, err := buildEmbedded(ctx)
	if err != nil {
		return nil, err
	}
	return nil, syscall.Exec(program, append([]string{"dev"}, os.Args[1:]...), os.Environ()) //nolint:gosec // the program that was just built
}

// buildEmbedded builds [embedded], unless it is up to date, and returns its path.
func buildEmbedded(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("place for the embedded server: %w", err)
	}
	program := filepath.Join(cache, "turnstone", "dev-embedded")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, embedded) //nolint:gosec // the path is not user input
	if _, source, _, ok := runtime.Caller(0); ok && filepath.IsAbs(source) {
		build.Dir = filepath.Dir(source) // in the module's folder, wherever this program runs
	}
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", embedded, err)
	}
	return program, nil
}
