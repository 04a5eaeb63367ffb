package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

func (a *app) planCommand() *cobra.Command {
	return commandGroup(&cobra.Command{Use: "plan", Short: "Compiled agents", Example: "  starter plan show analyst"}, a.planShowCommand())
}

func (a *app) planShowCommand() *cobra.Command {
	var diagram bool
	cmd := &cobra.Command{
		Use: "show <agent|sha256:…>", Short: "Print the plan of an agent, or of a hash", Args: cobra.ExactArgs(1),
		Long: `Print the plan that an agent is compiled to at present, or the one of a hash, such as a turn's. With --output json it is the
canonical bytes, of which the hash is made; with --mermaid a flowchart (https://mermaid.js.org).`,
		Example: `  starter plan show analyst
  starter plan show analyst -o json | sha256sum
  starter plan show analyst --mermaid > analyst.mmd`,
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			if diagram && a.output == "json" {
				return usageError{fmt.Errorf("--mermaid and --output json exclude each other")}
			}
			body, err := a.plan(ctx, c, args[0])
			if err != nil {
				return err
			}
			return a.printPlan(body, diagram)
		}),
	}
	cmd.Flags().BoolVar(&diagram, "mermaid", false, "a Mermaid flowchart")
	return cmd
}

// plan returns the plan with a hash, or the present plan of an agent.
func (a *app) plan(ctx context.Context, c *client.Client, hashOrAgent string) ([]byte, error) {
	if strings.HasPrefix(hashOrAgent, "sha256:") {
		return c.Plan(ctx, hashOrAgent)
	}
	name, err := requireName(hashOrAgent)
	if err != nil {
		return nil, err
	}
	body, _, err := c.AgentPlan(ctx, a.tenant, name)
	return body, err
}

func (a *app) printPlan(body []byte, diagram bool) error {
	if a.output == "json" {
		if _, err := a.out.Write(body); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	if !diagram {
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, body, "", "  "); err != nil {
			return fmt.Errorf("decode plan: %w", err)
		}
		fmt.Fprintln(a.out, cmdline.Printable(pretty.String()))
		return nil
	}
	var p agent.Plan
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("decode plan: %w", err)
	}
	fmt.Fprint(a.out, flowchart(&p))
	return nil
}
