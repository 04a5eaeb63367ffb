// Command customobserver is a Turnstone worker with a custom observer, which writes a line about each long turn to standard error. The worker has the
// same settings as the shipped one (docs/reference/configuration.md). docs/guides/extending.md says how to try it.
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
		os.Exit(1) //nolint:gocritic // the deferred call has no effect after the process ends
	}
}

func run(ctx context.Context, args, env []string) error {
	settings, err := turnstone.Load(args, env)
	if err != nil {
		return err
	}
	service, err := turnstone.New(turnstone.Config{
		Settings: settings, Env: env, Observers: []agent.Observer{longTurns{out: os.Stderr, minTime: time.Minute}},
	})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}

// longTurns writes a line about each turn that worked for minTime or longer. The time in which a turn waits for a person does not count.
type longTurns struct {
	agent.Unobserved

	out     io.Writer
	minTime time.Duration
}

func (l longTurns) Ended(_ context.Context, e agent.TurnEnded) {
	if took := time.Duration(e.Output.ExecutionTimeMS) * time.Millisecond; took >= l.minTime {
		fmt.Fprintf(l.out, "turn %s of %s worked for %s\n", e.Turn.TurnID, e.Turn.Agent, took)
	}
}
