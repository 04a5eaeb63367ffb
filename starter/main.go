// Command starter talks to a running Turnstone: it starts turns, follows them, answers their approvals, fetches their results,
// and edits the catalog of agents. It is a client of the HTTP API, and of the queue of jobs, and contains no server.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/redis/go-redis/v9"
	"golang.org/x/term"
)

func main() {
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	redis.SetLogger(silence{}) // what fails is said once, as the command's own error
	a := &app{
		in: os.Stdin, out: os.Stdout, errOut: os.Stderr, interrupts: interrupts, server: os.Getenv("TURNSTONE_SERVER"),
		key: os.Getenv("TURNSTONE_KEY"), env: os.Environ(),
		redis: os.Getenv("TURNSTONE_JOBS_REDIS_URL"), terminals: [2]bool{term.IsTerminal(int(os.Stdout.Fd())), term.IsTerminal(int(os.Stderr.Fd()))},
		color: term.IsTerminal(int(os.Stdout.Fd())) && wantsColor(os.Environ()), version: buildVersion(),
	}
	os.Exit(a.run(context.Background(), os.Args[1:]))
}

// silence is a logger of Redis clients that says nothing.
type silence struct{}

// Printf implements the logger of go-redis.
func (silence) Printf(context.Context, string, ...any) {}
