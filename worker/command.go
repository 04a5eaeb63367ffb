package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/internal/app"
)

// healthTimeout bounds "worker health": a container's health check waits for it.
const healthTimeout = 3 * time.Second

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
				return c.health(cmd.Context(), settings)
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

// health asks the gateway on this machine; an address that listens everywhere is asked by loopback.
func (c *command) health(ctx context.Context, settings *app.Config) error {
	host, port, err := net.SplitHostPort(settings.HTTP.Addr)
	if err != nil {
		return fmt.Errorf("http.addr: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	if _, err := io.Copy(c.out, io.LimitReader(resp.Body, 64<<10)); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New("not healthy: " + resp.Status)
	}
	return nil
}
