// Package cli is the command line of the worker. The programs worker and turnstone use it.
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

// Run runs a command line of the named program and returns the exit code. SIGINT and SIGTERM drain the worker.
func Run(program string, args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c := &command{program: program, out: os.Stdout, env: os.Environ()}
	return cmdline.Run(ctx, c.root(), args, os.Stderr)
}

// commonFlags are the flags that help shows. docs/reference/configuration.md describes all.
//
//nolint:gochecknoglobals // a constant in all but syntax
var commonFlags = []string{
	"help", "config", "database-url", "temporal-address", "temporal-namespace", "temporal-task-queue", "http-addr", "grpc-addr", "auth-keys",
	"storage-blob-url", "data-dir", "llm-provider", "llm-model", "catalog-folder", "gateway-enabled", "worker-enabled", "log-level", "log-format",
}

// command is one run of the command line with its output and environment.
type command struct {
	program string
	out     io.Writer
	env     []string
}

func (c *command) root() *cobra.Command {
	root := c.newCommand("worker", "Runs agent turns on a Temporal server", c.run)
	root.Version, root.Annotations = app.Version(), map[string]string{cobra.CommandDisplayNameAnnotation: c.program}
	app.AddFlags(root.PersistentFlags())
	root.AddCommand(
		c.newCommand("config", "Print the effective configuration, secrets redacted", func(_ context.Context, s *app.Config) error { return s.Print(c.out) }),
		c.newCommand("health", "Ask a running worker whether a turn can run", c.health),
		c.newCommand("migrate", "Migrate the database and end; a worker that starts does so too", c.migrate),
		cmdline.VersionCommand(c.program))
	cmdline.Finish(root, commonFlags, nil)
	return root
}

// newCommand returns a command without arguments that loads the settings and runs.
func (c *command) newCommand(name, short string, run func(context.Context, *app.Config) error) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		settings, err := c.load(cmd)
		if err != nil {
			return err
		}
		return run(cmd.Context(), settings)
	}}
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
		defer model.Close(context.WithoutCancel(ctx)) //nolint:errcheck // all turns have ended
	}
	service, err := turnstone.New(turnstone.Config{Settings: settings, Env: c.env})
	if err != nil {
		return err
	}
	return service.Run(ctx)
}
