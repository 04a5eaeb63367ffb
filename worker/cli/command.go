// Package cli is the command line of the worker, for the programs worker and turnstone.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/internal/app"
)

// Run runs a command line of this process, which is called by the name program, and returns its exit code. SIGINT and SIGTERM drain the worker.
func Run(program string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &command{program: program, out: os.Stdout, env: os.Environ()}
	root := c.root()
	root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of this process
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	return 0
}

// command is one run of the worker's command line, with what it takes from its process.
type command struct {
	program string
	out     io.Writer
	env     []string
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use: "worker", Short: "Runs agent turns on a Temporal server", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		Version: app.Version(), Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: c.program},
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := c.load(cmd)
			if err != nil {
				return err
			}
			return c.run(cmd.Context(), settings)
		},
	}
	app.AddFlags(root.PersistentFlags())
	root.AddCommand(
		&cobra.Command{
			Use: "config", Short: "Print the effective configuration, secrets redacted", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				settings, err := c.load(cmd)
				if err != nil {
					return err
				}
				return settings.Print(c.out)
			},
		},
		&cobra.Command{
			Use: "health", Short: "Ask a running worker whether a turn can run", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				settings, err := c.load(cmd)
				if err != nil {
					return err
				}
				return c.health(cmd.Context(), &settings.HTTP)
			},
		})
	return root
}

func (c *command) load(cmd *cobra.Command) (*app.Config, error) {
	return app.Load(app.Sources{Flags: cmd.Flags(), Env: c.env, Dir: "."})
}

func (c *command) run(ctx context.Context, settings *app.Config) error {
	service, err := turnstone.New(turnstone.Config{Settings: settings, Env: c.env})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}
