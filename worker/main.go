// Command worker runs turns on a Temporal server and, unless told otherwise, serves the gateway. It links no Temporal server.
//
//	worker          # run, configured by turnstone.yaml, environment and flags
//	worker config   # print the effective configuration, secrets redacted
//	worker health   # ask a running worker; exit status 0 when a turn can run
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &command{out: os.Stdout, env: os.Environ()}
	if err := c.root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred that matters once the process ends
	}
}
