package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/internal/gateway/client"
)

func (a *app) doctorCommand() *cobra.Command {
	var name, profile string
	cmd := &cobra.Command{
		Use: "doctor", Short: "Try out a model: does it answer, stream and call tools as it should?", Args: cobra.NoArgs,
		Long: `Try out the models of an agent with real requests: does the provider answer, stream, call tools, use their results, keep to a schema,
stop when told to? The checks run on the server, which has the keys, and cost a few thousand tokens. Exit code 1: a check failed.`,
		Example: `  starter doctor
  starter doctor --model gpt-4o
  starter doctor --agent analyst -o json | jq '.[] | select(.ok | not)'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error { return a.examine(ctx, c, name, profile) })
		},
	}
	cmd.Flags().StringVarP(&name, "agent", "a", "", "agent whose models are tried (default: the tenant's default agent)")
	cmd.Flags().StringVarP(&profile, "model", "m", "", "only this model profile")
	return cmd
}

func (a *app) examine(ctx context.Context, c *client.Client, name, profile string) error {
	checks := []client.Check{}
	failed := 0
	for check, err := range c.Doctor(ctx, name, profile) {
		if err != nil {
			return err
		}
		checks = append(checks, check)
		if !check.OK {
			failed++
		}
		if a.output != "json" {
			a.say("%s", checkLine(&check))
		}
	}
	if a.output == "json" {
		if err := a.printJSON(checks); err != nil {
			return err
		}
	} else {
		a.say("%s, %d failed", count(len(checks), "check"), failed)
	}
	if failed > 0 {
		return outcome(exitFailed)
	}
	return nil
}

func checkLine(check *client.Check) string {
	line := "✓ " + wide(check.Name)
	if !check.OK {
		line = "✗ " + wide(check.Name)
		if check.Rule != "" {
			line += " (rule " + wide(check.Rule) + ")"
		}
	}
	if check.Detail != "" {
		line += ": " + wide(check.Detail)
	}
	took := time.Duration(check.TookMS * float64(time.Millisecond)).Round(time.Millisecond)
	return line + " — " + took.String()
}
