// Package cli is the command line of the worker, for the programs worker and turnstone.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules name time zones, and a small image has no database of them

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

// Run runs a command line of this process, which is called by the name program, and returns its exit code. SIGINT and SIGTERM drain the worker.
func Run(program string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &command{program: program, out: os.Stdout, env: os.Environ()}
	return cmdline.Run(ctx, c.root(), args, os.Stderr)
}

// commonFlags are the settings that help shows; docs/reference/configuration.md has all.
//
//nolint:gochecknoglobals // a constant in all but syntax
var commonFlags = []string{
	"help", "config", "database-url", "temporal-address", "temporal-namespace", "temporal-task-queue", "http-addr", "grpc-addr", "auth-keys",
	"storage-blob-url", "data-dir", "llm-provider", "llm-model", "catalog-folder", "gateway-enabled", "worker-enabled", "log-level", "log-format",
}

// command is one run of the worker's command line, with what it takes from its process.
type command struct {
	program string
	out     io.Writer
	env     []string
}

func (c *command) root() *cobra.Command {
	root := &cobra.Command{
		Use: "worker", Short: "Runs agent turns on a Temporal server", Args: cobra.NoArgs,
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
		},
		&cobra.Command{
			Use: "migrate", Short: "Migrate the database and end; a worker that starts does so too", Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				settings, err := c.load(cmd)
				if err != nil {
					return err
				}
				return c.migrate(cmd.Context(), settings)
			},
		}, cmdline.VersionCommand(c.program))
	cmdline.Finish(root, commonFlags, nil)
	return root
}

func (c *command) load(cmd *cobra.Command) (*app.Config, error) {
	return app.Load(app.Sources{Flags: cmd.Flags(), Env: c.env, Dir: "."})
}

func (c *command) run(ctx context.Context, settings *app.Config) error {
	if settings.WantsOfflineModel() {
		model, err := c.startOfflineModel(ctx, settings)
		if err != nil {
			return err
		}
		defer model.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the turns that it served have ended
	}
	service, err := turnstone.New(turnstone.Config{Settings: settings, Env: c.env})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}
