// Command process is a worker with a custom process workflow, which uses Turnstone's agents as steps. It needs only Turnstone's package workflows: the
// turns run on Turnstone's workers in the same Temporal namespace. docs/guides/processes.md says how to try it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/worker"
)

const usage = `Usage: process

Runs the workflow WriteDigest on the task queue digests until Ctrl-C. TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE say where; with "go run ./dev"
running, nothing has to be set. Start one with:

  temporal workflow start --type WriteDigest --task-queue digests --workflow-id digest-1 --input '{"topics":["tides","lighthouses"]}'
`

func main() {
	flag.Usage = func() { fmt.Fprint(flag.CommandLine.Output(), usage) }
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // the deferred call has no effect after the process ends
	}
}

// run runs the worker until ctx ends. TEMPORAL_* variables or temporal.toml configure the connection to Temporal.
func run(ctx context.Context) error {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return fmt.Errorf("load client options: %w", err)
	}
	temporal, err := client.DialContext(ctx, options)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer temporal.Close()
	w := worker.New(temporal, "digests", worker.Options{})
	w.RegisterWorkflow(WriteDigest)
	if err := w.Start(); err != nil {
		return err
	}
	defer w.Stop()
	fmt.Fprint(os.Stderr, usage)
	<-ctx.Done()
	return nil
}
