// Package cli is the command line that runs the embedded stack. The programs dev and turnstone use it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/cmdline"
	"github.com/turnstone-run/turnstone/internal/devstack"
)

// defaultPrompt is the prompt of the demo.
const defaultPrompt = "fetch flights from NYC to LAX, sort by price, show top 3"

// ChooseTemporal returns the function that starts the Temporal server. It is called once, before a stack starts.
type ChooseTemporal func(ctx context.Context) (devstack.StartTemporal, error)

// Run runs a command line of the named program and returns the exit code.
func Run(program string, args []string, choose ChooseTemporal) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	d := &dev{program: program, chooseTemporal: choose, out: os.Stdout, notes: os.Stderr, env: os.Environ()}
	cancelNote := context.AfterFunc(ctx, func() {
		stop() // so that a second Ctrl-C ends the process at once
		fmt.Fprintln(os.Stderr, "· stopping, Ctrl-C again to stop at once…")
	})
	defer cancelNote()
	return cmdline.Run(ctx, d.root(), args, os.Stderr)
}

// standalone is the name of the program that has only the commands of this package.
const standalone = "dev"

// commonFlags are the flags that help shows. docs/reference/configuration.md describes all.
//
//nolint:gochecknoglobals // a constant in all but syntax
var commonFlags = []string{
	"help", "data", "ephemeral", "any-port", "no-worker", "keep", "model", "verbose", "http-addr", "grpc-addr", "temporal-port", "ui-port", "flights-port",
	"redis-port", "mail-port", "auth-keys", "catalog-folder", "config", "database-url",
}

// dev is one run of the command line with its streams, environment and flags.
type dev struct {
	program        string // name by which the program was called
	chooseTemporal ChooseTemporal
	out, notes     io.Writer
	env            []string

	flags     *pflag.FlagSet
	data      string
	ephemeral bool
	model     string
	keep      bool
	verbose   bool
	anyPort   bool
	noWorker  bool
	ports     ports
}

func (d *dev) root() *cobra.Command {
	root := &cobra.Command{
		Use: "dev", Short: "Turnstone with everything it needs, in one process", Args: cobra.NoArgs,
		Long: `Runs the embedded Temporal server with its Web UI, a private PostgreSQL, an offline model, a sample API, the worker and the
gateway until Ctrl-C. State is kept in --data and comes back with it.

A real model is used when OPENAI_API_KEY or ANTHROPIC_API_KEY is set, or when turnstone.yaml names one.`,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: d.program},
		RunE:        func(cmd *cobra.Command, _ []string) error { return d.serve(cmd.Context()) },
	}
	root.PersistentFlags().StringVar(&d.model, "model", "", "model to use instead of the configured one")
	root.PersistentFlags().BoolVar(&d.verbose, "verbose", false, "show the log of worker and gateway")
	root.Flags().StringVar(&d.data, "data", "", "folder for the state (default: .turnstone here, or /var/lib/turnstone for root)")
	root.Flags().BoolVar(&d.ephemeral, "ephemeral", false, "keep nothing")
	root.Flags().BoolVar(&d.anyPort, "any-port", false, "take free ports where the preferred ones are in use")
	root.Flags().BoolVar(&d.noWorker, "no-worker", false, "run the gateway alone: turns wait for a worker of your own")
	d.ports.register(root.PersistentFlags())
	app.AddFlags(root.PersistentFlags())
	root.PersistentPreRun = func(cmd *cobra.Command, _ []string) { d.flags = cmd.Flags() }
	root.AddCommand(d.demoCommand(), cmdline.VersionCommand(d.program))
	if d.program != standalone {
		cmdline.Rename(root, "go run ./dev", d.program)
	}
	cmdline.Finish(root, commonFlags, nil)
	return root
}

func (d *dev) demoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo [prompt]", Short: "Run the main job and end", Args: cobra.MaximumNArgs(1),
		Example: `  go run ./dev demo
  go run ./dev demo "fetch flights from SFO to JFK under $300, only id and price"
  go run ./dev demo --keep`,
		RunE: func(cmd *cobra.Command, args []string) error {
			prompt := defaultPrompt
			if len(args) == 1 {
				prompt = args[0]
			}
			return d.demo(cmd.Context(), prompt)
		},
	}
	cmd.Flags().BoolVar(&d.keep, "keep", false, "leave the stack up until Ctrl-C")
	return cmd
}

// serve runs a stack until ctx ends.
func (d *dev) serve(ctx context.Context) error {
	if !d.ephemeral && d.data == "" {
		d.data = defaultData()
	}
	inst, err := d.start(ctx, stackOptions{data: d.data, ephemeral: d.ephemeral, anyPort: d.anyPort})
	if err != nil {
		return err
	}
	return d.keepRunning(ctx, inst, "\nCtrl-C stops everything.")
}

// keepRunning prints where everything is and a note, and waits until ctx ends.
func (d *dev) keepRunning(ctx context.Context, inst *instance, note string) error {
	if err := inst.printAddresses(ctx, d.out, d.program); err != nil {
		return inst.stopAfter(ctx, err)
	}
	fmt.Fprintln(d.out, note)
	return inst.wait(ctx)
}

// demo runs one turn on an ephemeral stack.
func (d *dev) demo(ctx context.Context, prompt string) error {
	inst, err := d.start(ctx, stackOptions{ephemeral: true, anyPort: true})
	if err != nil {
		return err
	}
	err = inst.runTurn(ctx, d.out, prompt)
	if err == nil && d.keep {
		return d.keepRunning(ctx, inst, "\nThe stack stays up; Ctrl-C stops everything.")
	}
	return inst.stopAfter(ctx, err)
}

// stopAfter stops everything and returns err joined with the errors of stopping.
func (inst *instance) stopAfter(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	return errors.Join(err, inst.stop(ctx))
}

// stopTimeout bounds stopping everything.
const stopTimeout = 40 * time.Second
