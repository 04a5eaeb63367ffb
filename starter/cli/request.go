package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// runFunc is the body of a command.
type runFunc = func(cmd *cobra.Command, args []string) error

// group makes cmd a command that prints its help and holds others.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// client returns a client for the server that the flags name.
func (a *app) client() (*client.Client, error) {
	cfg := client.Config{Server: a.server, Tenant: a.tenant, Key: a.key}
	if a.keyFile != "" {
		key, err := readKey(a.keyFile)
		if err != nil {
			return nil, usageError{fmt.Errorf("--key-file: %w", err)}
		}
		cfg.Key = key
	}
	if a.ca != "" {
		trusting, err := trustingClient(a.ca)
		if err != nil {
			return nil, usageError{fmt.Errorf("--ca: %w", err)}
		}
		cfg.HTTP = trusting
	}
	return client.New(cfg)
}

// send returns a command body that calls do, until Ctrl-C interrupts it.
func (a *app) send(do func(ctx context.Context, c *client.Client, args []string) error) runFunc {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		return a.untilInterrupted(cmd.Context(), func(ctx context.Context) error { return do(ctx, c, args) })
	}
}

// untilInterrupted calls do with a context that Ctrl-C cancels.
func (a *app) untilInterrupted(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-a.interrupts:
			cancel(errInterrupted)
		case <-done:
		}
	}()
	return do(ctx)
}

// askFunc asks the server for an answer.
type askFunc[T any] func(ctx context.Context, c *client.Client, args []string) (T, error)

// view returns a command body that prints one answer of the server, as JSON or as text prints it.
func view[T any](a *app, ask askFunc[T], text func(*T) error) runFunc {
	return a.send(func(ctx context.Context, c *client.Client, args []string) error {
		answer, err := ask(ctx, c, args)
		if err != nil {
			return err
		}
		return a.print(answer, func() error { return text(&answer) })
	})
}

// show is view for a text that format returns.
func show[T any](a *app, ask askFunc[T], format func(*T) string) runFunc {
	return view(a, ask, func(answer *T) error {
		a.printLine("%s", format(answer))
		return nil
	})
}

// act returns a command body that has the server do something and prints the name of what it was done to, as the member field of a JSON
// object. text is a format with one %s.
func (a *app) act(field, text string, do func(ctx context.Context, c *client.Client, name string) error) runFunc {
	return a.send(func(ctx context.Context, c *client.Client, args []string) error {
		if err := do(ctx, c, args[0]); err != nil {
			return err
		}
		return a.done(map[string]string{field: args[0]}, text, args[0])
	})
}

// done prints that an action is done.
func (a *app) done(fields map[string]string, format string, args ...any) error {
	return a.print(fields, func() error {
		fmt.Fprintf(a.out, format+"\n", args...)
		return nil
	})
}

// print prints a value as JSON, or has text print it for people.
func (a *app) print(v any, text func() error) error {
	if a.output == "json" {
		return a.printJSON(v)
	}
	return text()
}

// requireTurnID checks the id of a turn before it becomes part of an address.
func requireTurnID(id string) (agent.TurnID, error) {
	if !agent.ValidName(id) {
		return "", usageError{fmt.Errorf("%q is no turn id", id)}
	}
	return agent.TurnID(id), nil
}

// requireMin refuses a negative value of a flag; least is the smallest one that the error names.
func requireMin[T int | int64 | time.Duration](flag string, value T, least int) error {
	if value < 0 {
		return usageError{fmt.Errorf("--%s is %v, want %d or more", flag, value, least)}
	}
	return nil
}

// polling is the pause between two questions: it grows from the first to the longest.
type polling struct{ first, longest time.Duration }

// poll asks until done is true, an error occurs or ctx ends.
func poll[T any](ctx context.Context, p polling, ask func() (v T, done bool, err error)) (T, error) {
	for pause := p.first; ; pause = min(pause*3/2, p.longest) {
		v, done, err := ask()
		if done || err != nil {
			return v, err
		}
		select {
		case <-ctx.Done():
			return v, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
