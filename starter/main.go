// Command starter talks to a running Turnstone: it starts turns, follows them, answers their approvals, fetches their results,
// and edits the catalog of agents. It is a client of the HTTP API and contains no server.
package main

import (
	"context"
	"os"
	"os/signal"

	"golang.org/x/term"
)

func main() {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	a := &app{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr, interrupts: interrupts, server: os.Getenv("TURNSTONE_SERVER"), env: os.Environ(),
		color: term.IsTerminal(int(os.Stdout.Fd())) && wantsColor(os.Environ()), version: buildVersion(),
	}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}
