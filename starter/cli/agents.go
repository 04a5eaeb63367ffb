package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) agentsListCommand(use string) *cobra.Command {
	var q agent.AgentQuery
	var labels []string
	var allTenants bool
	cmd := listCommand(a, &cobra.Command{
		Use: use, Short: "List the agents that can be asked",
		Example: `  starter agents list
  starter agents list --tool execute_pipeline --label team=finance
  starter agents list --all-tenants -o json | jq '.[].plan_hash'`,
		PreRunE: func(*cobra.Command, []string) (err error) {
			if q.Labels, err = readLabels(labels); err != nil {
				return err
			}
			q.Tenant, err = a.listTenant(allTenants)
			return err
		},
	}, listing[agent.AgentInfo]{
		fetch: fetchAgents(&q),
		print: func(agents []agent.AgentInfo) error {
			header, row := "AGENT MODELS TOOLS LIMITS DESCRIPTION", agentRow
			if allTenants {
				header, row = "TENANT "+header, func(info *agent.AgentInfo) []string { return append([]string{orDash(info.Tenant)}, agentRow(info)...) }
			}
			return printTable(a, header, row, agents)
		},
	})
	allTenantsFlag(cmd, &allTenants)
	cmd.Flags().StringVar(&q.NodeID, "node", "", "only of this node")
	cmd.Flags().StringVar(&q.Tool, "tool", "", "only those that are granted this tool")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "only with this label, name=value; all of several")
	return cmd
}

func fetchAgents(q *agent.AgentQuery) fetchFunc[agent.AgentInfo] {
	return func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.AgentInfo, string, error) {
		q.Page = p
		page, err := c.ListAgents(ctx, *q)
		return page.Agents, page.Next, err
	}
}

func agentRow(info *agent.AgentInfo) []string {
	name := info.Name
	if info.Default {
		name += " (default)"
	}
	description := info.Description
	if info.Fault != "" {
		description = "cannot run: " + info.Fault
	}
	return []string{
		name, strings.Join(info.Models, ", "), toolNames(info.Tools), strings.Join(limitTexts(&info.Limits, &info.RateLimits), ", "), description,
	}
}

// limitTexts describes the limits of a turn and the rate limits of an agent, each in a few words.
func limitTexts(l *agent.Limits, r *agent.RateLimits) []string {
	out := []string{}
	add := func(isSet bool, format string, v any) {
		if isSet {
			out = append(out, fmt.Sprintf(format, v))
		}
	}
	add(l.ModelCalls > 0, "%d model calls", l.ModelCalls)
	add(l.ToolCalls > 0, "%d tool calls", l.ToolCalls)
	add(l.Tokens > 0, "%d tokens", l.Tokens)
	add(l.CostUSD > 0, "$%g", l.CostUSD)
	add(l.WallTimeSec > 0, "%d s", l.WallTimeSec)
	add(r.RequestsPerMinute > 0, "%d requests/min", r.RequestsPerMinute)
	add(r.TokensPerMinute > 0, "%d tokens/min", r.TokensPerMinute)
	add(r.ConcurrentTurns > 0, "%d at once", r.ConcurrentTurns)
	return out
}

func (a *app) nodesListCommand(use string) *cobra.Command {
	var q agent.NodeQuery
	var labels []string
	cmd := listCommand(a, &cobra.Command{
		Use: use, Short: "List the node definitions that agents and tools are made of",
		Example: "  starter nodes list --type toolkit\n  starter nodes list --node http_search -o json | jq '.[].properties'",
		PreRunE: func(*cobra.Command, []string) (err error) {
			q.Labels, err = readLabels(labels)
			return err
		},
	}, listing[agent.NodeInfo]{
		header: "NODE TYPE TOOLS SOURCE DESCRIPTION", row: nodeRow,
		fetch: func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.NodeInfo, string, error) {
			q.Page = p
			page, err := c.ListNodes(ctx, q)
			return page.Nodes, page.Next, err
		},
	})
	cmd.Flags().StringVar((*string)(&q.Type), "type", "", "only agent, tool or toolkit")
	cmd.Flags().StringVar(&q.NodeID, "node", "", "only of this id")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "only with this label, name=value; all of several")
	return cmd
}

func nodeRow(n *agent.NodeInfo) []string {
	return []string{n.NodeID + "@" + n.Version, string(n.Type), toolNames(n.Tools), n.Source, n.Description}
}

func toolNames(tools []agent.ToolInfo) string {
	names := make([]string, len(tools))
	for i := range tools {
		names[i] = tools[i].Name
	}
	return strings.Join(names, ", ")
}
