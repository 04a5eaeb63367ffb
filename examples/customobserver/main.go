// Command customobserver is a Turnstone worker with an observer of its own: turns that worked for long are written to standard error.
// The worker takes the same settings as the shipped one (docs/reference/configuration.md); docs/guides/extending.md says how to try it.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Environ()); err != nil && !errors.Is(err, turnstone.ErrHelp) {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred that matters once the process ends
	}
}

func run(ctx context.Context, args, env []string) error {
	settings, err := turnstone.Load(args, env)
	if err != nil {
		return err
	}
	service, err := turnstone.New(turnstone.Config{
		Settings: settings, Env: env, Observers: []agent.Observer{longTurns{to: os.Stderr, from: time.Minute}},
	})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// longTurns tells of turns that worked for long; the time that people took to answer does not count.
type longTurns struct {
	agent.Unobserved

	to   io.Writer
	from time.Duration
}

func (l longTurns) Ended(_ context.Context, e agent.TurnEnded) {
	if took := time.Duration(e.Output.ExecutionTimeMS) * time.Millisecond; took >= l.from {
		fmt.Fprintf(l.to, "turn %s of %s worked for %s\n", e.Turn.TurnID, e.Turn.Agent, took)
	}
}
