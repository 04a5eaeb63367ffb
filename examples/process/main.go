// Command process is a worker with a process workflow of its own, which uses agents of Turnstone as steps. It needs nothing of Turnstone
// but the workflows package: the turns run on Turnstone's own workers, on the same Temporal namespace. docs/guides/processes.md says how to try
// it.
package main

import (
	"fmt"
	"os"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/worker"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// run works until it is interrupted. Where Temporal is, it takes from TEMPORAL_ADDRESS and the like, or from temporal.toml.
func run() error {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return fmt.Errorf("load client options: %w", err)
	}
	temporal, err := client.Dial(options)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer temporal.Close()
	w := worker.New(temporal, "digests", worker.Options{})
	w.RegisterWorkflow(WriteDigest)
	return w.Run(worker.InterruptCh())
}
