package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// runFunc is the type of cobra.Command.RunE.
type runFunc = func(cmd *cobra.Command, args []string) error

// commandGroup returns cmd as a command that has subcommands and prints its help.
func commandGroup(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = cobra.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(commands...)
	return cmd
}

// listGroup returns a command that lists things, with the subcommand "list", which does the same, and others.
func listGroup(name string, list func(use string) *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd := list(name)
	cmd.AddCommand(list("list"))
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
		httpClient, err := newHTTPClient(a.ca)
		if err != nil {
			return nil, usageError{fmt.Errorf("--ca: %w", err)}
		}
		cfg.HTTP = httpClient
	}
	return client.New(cfg)
}

// withClient returns a command body that calls do with a client of the server. Ctrl-C cancels the context of do.
func (a *app) withClient(do func(ctx context.Context, c *client.Client, args []string) error) runFunc {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		return a.untilInterrupted(cmd.Context(), func(ctx context.Context) error { return do(ctx, c, args) })
	}
}

// untilInterrupted calls do with a context that Ctrl-C cancels, with errInterrupted as its cause.
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

// requestFunc makes a request for the arguments of a command and returns the server's answer.
type requestFunc[T any] func(ctx context.Context, c *client.Client, args []string) (T, error)

// printAnswer returns a command body that makes a request and prints the answer: as JSON with --output json, else with printText.
func printAnswer[T any](a *app, request requestFunc[T], printText func(*T) error) runFunc {
	return a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		answer, err := request(ctx, c, args)
		if err != nil {
			return err
		}
		return a.print(answer, func() error { return printText(&answer) })
	})
}

// printAnswerText is printAnswer with a function that returns the text.
func printAnswerText[T any](a *app, request requestFunc[T], text func(*T) string) runFunc {
	return printAnswer(a, request, func(answer *T) error {
		a.printLine("%s", text(answer))
		return nil
	})
}

// confirmRequest returns a command body that makes a request about the first argument and then prints that argument: in text, a format with one
// %s, or as the member field of a JSON object.
func (a *app) confirmRequest(field, text string, request func(ctx context.Context, c *client.Client, name string) error) runFunc {
	return a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
		if err := request(ctx, c, args[0]); err != nil {
			return err
		}
		return a.printResult(map[string]string{field: args[0]}, text, args[0])
	})
}

// printResult prints v with --output json, else the formatted text.
func (a *app) printResult(v any, format string, args ...any) error {
	return a.print(v, func() error {
		a.printLine(format, args...)
		return nil
	})
}

// print prints v with --output json, else it calls printText.
func (a *app) print(v any, printText func() error) error {
	if a.output == "json" {
		return a.printJSON(v)
	}
	return printText()
}

// requireTurnID is a [cobra.PositionalArgs] that refuses a first argument that is no turn id.
func requireTurnID(_ *cobra.Command, args []string) error {
	if !agent.ValidName(args[0]) {
		return fmt.Errorf("%q is no turn id", args[0])
	}
	return nil
}

// requireSessionID is a [cobra.PositionalArgs] that refuses a first argument that is no session id.
func requireSessionID(_ *cobra.Command, args []string) error {
	if !agent.SessionID(args[0]).Valid() {
		return fmt.Errorf("%q is no session id", args[0])
	}
	return nil
}

// refuseNegative returns an error if the value of a flag is negative. The error says that the flag wants minimum or more.
func refuseNegative[T int | int64 | time.Duration](flag string, value T, minimum int) error {
	if value < 0 {
		return usageError{fmt.Errorf("--%s is %v, want %d or more", flag, value, minimum)}
	}
	return nil
}

// requireOneOf returns an error if the value of a flag is not in a list such as "text, json or csv".
func requireOneOf(flag, value, list string) error {
	if !slices.Contains(splitList(list), value) {
		return usageError{fmt.Errorf("--%s is %q, want %s", flag, value, list)}
	}
	return nil
}

// splitList returns the words of a list such as "text, json or csv".
func splitList(list string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(list, " or ", ", "), func(r rune) bool { return r == ',' || r == ' ' })
}

// applyFlags calls the functions, by the names of flags, whose flags the command line sets.
func applyFlags(flags *pflag.FlagSet, apply map[string]func()) {
	flags.Visit(func(f *pflag.Flag) {
		if set := apply[f.Name]; set != nil {
			set()
		}
	})
}

// pollPauses are the pauses between the calls of [poll]: each is half longer than the one before, up to longest.
type pollPauses struct{ first, longest time.Duration }

// poll calls ask until it reports that it is done, an error occurs or ctx ends.
func poll[T any](ctx context.Context, p pollPauses, ask func() (v T, done bool, err error)) (T, error) {
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
