// Command dev runs everything on a machine that has nothing: a Temporal server with its Web UI, a private PostgreSQL, an offline model, a sample
// API, the worker and the gateway.
//
//	go run ./dev demo ["a prompt of your own"]   # the main job, ends by itself
//	go run ./dev                                 # keeps running until Ctrl-C
//
// The Temporal server is that of the temporal command if one is installed. Otherwise this program is replaced by ./dev/embedded, which has a
// server in it and takes twice as long to compile.
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

// embedded is the package of the program with a server in it.
const embedded = "github.com/turnstone-run/turnstone/dev/embedded"

func main() { os.Exit(cli.Run("dev", os.Args[1:], chooseTemporal)) }

// chooseTemporal returns the server of the temporal command. Without that it does not return, unless the other program cannot be built.
func chooseTemporal(ctx context.Context) (devstack.StartTemporal, error) {
	found, err := devstack.FindTemporalCLI(ctx)
	if err == nil {
		return found.Start, nil
	}
	fmt.Fprintf(os.Stderr, "· %v: compiling an embedded server, which takes some minutes the first time…\n", err)
	program, err := buildEmbedded(ctx)
	if err != nil {
		return nil, err
	}
	return nil, syscall.Exec(program, append([]string{"dev"}, os.Args[1:]...), os.Environ()) //nolint:gosec // what was just built
}

// buildEmbedded builds the program, where it is not up to date, and returns its path.
func buildEmbedded(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("place for the embedded server: %w", err)
	}
	program := filepath.Join(cache, "turnstone", "dev-embedded")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, embedded) //nolint:gosec // a path of ours
	if _, source, _, ok := runtime.Caller(0); ok && filepath.IsAbs(source) {
		build.Dir = filepath.Dir(source) // this program may run in another folder than its module's
	}
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return "", fmt.Errorf("build %s: %w", embedded, err)
	}
	return program, nil
}
