package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) toolsCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "tools", Short: "Tools that were made of repeated pipelines",
		Long: `Tools that were made of repeated pipelines. A pipeline that a tenant used again becomes a tool, with what varied as its parameters. A change
takes effect with the next turn.`,
		Example: `  starter tools list
  starter tools rename fetch_flights_sorted cheap_flights
  starter tools describe cheap_flights "Flights of a route, the cheapest first."
  starter tools disable cheap_flights`,
	}, a.toolsListCommand(), a.toolsRenameCommand(), a.toolsDescribeCommand(),
		a.toolsEnableCommand("enable", "Give a tool to agents again", true), a.toolsEnableCommand("disable", "Keep a tool from agents", false))
}

func (a *app) toolsListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the tools, disabled ones included", Args: cobra.NoArgs,
		Example: "  starter tools list\n  starter tools list -o json | jq '.[].parameters'",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, _ []string) ([]agent.Composite, error) {
			found, err := c.Composites(ctx)
			return append([]agent.Composite{}, found...), err
		}, func(found *[]agent.Composite) error {
			return printTable(a, "NAME STATE VERSION USES UPDATED DESCRIPTION", compositeRow, *found)
		}),
	}
}

func compositeRow(c *agent.Composite) []string {
	state := "enabled"
	if !c.Enabled {
		state = "disabled"
	}
	return []string{c.Name, state, formatInt(c.Version), formatInt(c.Uses), formatTime(c.UpdatedAt), c.Description}
}

func (a *app) toolsRenameCommand() *cobra.Command {
	return &cobra.Command{
		Use: "rename <tool> <name>", Short: "Give a tool another name", Args: cobra.ExactArgs(2),
		Long:    "Give a tool another name: 1 to 64 of a-z, 0-9 and _.",
		Example: "  starter tools rename fetch_flights_sorted cheap_flights",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeTool(cmd, args, agent.CompositeChange{Name: &args[1]}, "renamed "+args[0]+" to")
		},
	}
}

func (a *app) toolsDescribeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "describe <tool> <text>", Short: "Say what a tool is for, as models read it", Args: cobra.MinimumNArgs(2),
		Example: `  starter tools describe cheap_flights "Flights of a route, the cheapest first."`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text := strings.Join(args[1:], " ")
			return a.changeTool(cmd, args, agent.CompositeChange{Description: &text}, "described")
		},
	}
}

func (a *app) toolsEnableCommand(name, short string, enable bool) *cobra.Command {
	return &cobra.Command{
		Use: name + " <tool>", Short: short, Args: cobra.ExactArgs(1),
		Example: "  starter tools " + name + " cheap_flights",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changeTool(cmd, args, agent.CompositeChange{Enabled: &enable}, name+"d")
		},
	}
}

// changeTool changes the tool in the first argument and prints done, a text such as "described", with its name.
func (a *app) changeTool(cmd *cobra.Command, args []string, change agent.CompositeChange, done string) error {
	return printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.Composite, error) {
		return c.ChangeComposite(ctx, args[0], change)
	}, func(changed *agent.Composite) string { return done + " " + clipName(changed.Name) })(cmd, args)
}
