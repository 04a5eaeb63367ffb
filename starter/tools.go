package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) toolsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "tools", Short: "Tools that were made of repeated pipelines", Args: cobra.NoArgs,
		Long: `Tools that were made of repeated pipelines. A pipeline that a tenant used again becomes a tool, with what varied as its parameters. A change
takes effect with the next turn.`,
		Example: `  starter tools list
  starter tools rename fetch_flights_sorted cheap_flights
  starter tools describe cheap_flights "Flights of a route, the cheapest first."
  starter tools disable cheap_flights`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.toolsListCommand(), a.toolsRenameCommand(), a.toolsDescribeCommand(),
		a.toolsSwitchCommand("enable", "Give a tool to agents again", true), a.toolsSwitchCommand("disable", "Keep a tool from agents", false))
	return cmd
}

func (a *app) toolsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tools, disabled ones included", Args: cobra.NoArgs,
		Example: "  starter tools list\n  starter tools list -o json | jq '.[].parameters'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, 0, "NAME STATE VERSION USES UPDATED DESCRIPTION", compositeRow, func(agent.Page) ([]agent.Composite, string, error) {
					found, err := c.Composites(ctx)
					return found, "", err
				})
			})
		},
	}
}

func compositeRow(c *agent.Composite) []string {
	state := "enabled"
	if !c.Enabled {
		state = "disabled"
	}
	return []string{c.Name, state, strconv.FormatInt(c.Version, 10), strconv.FormatInt(c.Uses, 10), moment(c.UpdatedAt), c.Description}
}

func (a *app) toolsRenameCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rename <tool> <name>", Short: "Give a tool another name", Args: cobra.ExactArgs(2),
		Long:    "Give a tool another name: 1 to 64 of a-z, 0-9 and _.",
		Example: "  starter tools rename fetch_flights_sorted cheap_flights",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeTool(cmd.Context(), args[0], agent.CompositeChange{Name: &args[1]}, "renamed "+args[0])
		},
	}
}

func (a *app) toolsDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe <tool> <text>", Short: "Say what a tool is for, as models read it", Args: cobra.MinimumNArgs(2),
		Example: `  starter tools describe cheap_flights "Flights of a route, the cheapest first."`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args[1:], " ")
			return a.changeTool(cmd.Context(), args[0], agent.CompositeChange{Description: &text}, "described")
		},
	}
}

func (a *app) toolsSwitchCommand(word, short string, on bool) *cobra.Command {
	return &cobra.Command{
		Use: word + " <tool>", Short: short, Args: cobra.ExactArgs(1),
		Example: "  starter tools " + word + " cheap_flights",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeTool(cmd.Context(), args[0], agent.CompositeChange{Enabled: &on}, word+"d")
		},
	}
}

func (a *app) changeTool(ctx context.Context, which string, change agent.CompositeChange, done string) error {
	return a.call(ctx, func(ctx context.Context, c *client.Client) error {
		changed, err := c.ChangeComposite(ctx, which, change)
		if err != nil {
			return err
		}
		if a.output == "json" {
			return a.printJSON(changed)
		}
		if change.Name != nil {
			done += " to"
		}
		a.say("%s %s", done, wide(changed.Name))
		return nil
	})
}
