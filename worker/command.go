package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/internal/app"
)

// command is one run of the worker's command line, with what it takes from its process.
type command struct {
	out io.Writer
	env []string
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use: "worker", Short: "Runs agent turns on a Temporal server", Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		Version: app.Version(),
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
