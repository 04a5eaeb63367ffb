// Command starter talks to a running Turnstone: it starts turns, follows them, answers their approvals and fetches their
// results. It is a client of the HTTP API and contains no server.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	a := &app{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr, interrupts: interrupts, server: os.Getenv("TURNSTONE_SERVER"), env: os.Environ(),
		version: buildVersion(),
	}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}
