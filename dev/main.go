// Command dev runs everything in one process on a machine that has nothing: the embedded Temporal server with its Web UI, a
// private PostgreSQL, an offline model, a sample API, the worker and the gateway.
//
//	go run ./dev demo ["a prompt of your own"]   # the main job, ends by itself
//	go run ./dev                                 # keeps running until Ctrl-C
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
	d := &dev{out: os.Stdout, notes: os.Stderr, env: os.Environ()}
	context.AfterFunc(ctx, func() {
		stop() // a second Ctrl-C ends the process at once
		fmt.Fprintln(os.Stderr, "· stopping, Ctrl-C again to stop at once…")
	})
	if err := d.root().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred that matters once the process ends
	}
}
