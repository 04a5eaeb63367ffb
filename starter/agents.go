package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// agentsCommand lists agents, by itself and as "agents list".
func (a *app) agentsCommand() *cobra.Command {
	cmd := a.agentsListCommand("agents")
	cmd.AddCommand(a.agentsListCommand("list"))
	return cmd
}

func (a *app) agentsListCommand(use string) *cobra.Command {
	var q agent.AgentQuery
	var labels []string
	var of tenantFlags
	cmd := &cobra.Command{
		Use: use, Short: "List the agents that can be asked", Args: cobra.NoArgs,
		Example: `  starter agents list
  starter agents list --tool execute_pipeline --label team=finance
  starter agents list --all-tenants -o json | jq '.[].plan_hash'`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.Labels, err = labelArgs(labels); err != nil {
				return err
			}
			if q.Tenant, err = of.tenant(a); err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				header, row := "AGENT MODELS TOOLS LIMITS DESCRIPTION", agentRow
				if of.all {
					header, row = "TENANT "+header, func(info *agent.AgentInfo) []string { return append([]string{dash(info.Tenant)}, agentRow(info)...) }
				}
				return list(a, of.limit, header, row, func(p agent.Page) ([]agent.AgentInfo, string, error) {
					q.Page = p
					page, err := c.ListAgents(ctx, q)
					return page.Agents, page.Next, err
				})
			})
		},
	}
	of.register(cmd, listed)
	cmd.Flags().StringVar(&q.NodeID, "node", "", "only of this node")
	cmd.Flags().StringVar(&q.Tool, "tool", "", "only those that are granted this tool")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "only with this label, name=value; all of several")
	return cmd
}

func agentRow(info *agent.AgentInfo) []string {
	name := info.Name
	if info.Default {
		name += " (default)"
	}
	tools := make([]string, len(info.Tools))
	for i := range info.Tools {
		tools[i] = info.Tools[i].Name
	}
	description := info.Description
	if info.Fault != "" {
		description = "cannot run: " + info.Fault
	}
	return []string{
		name, strings.Join(info.Models, ", "), strings.Join(tools, ", "), strings.Join(limits(&info.Limits, &info.RateLimits), ", "), description,
	}
}

// limits says in a few words each what bounds a turn and how often the agent may be asked.
func limits(l *agent.Limits, r *agent.RateLimits) []string {
	out := []string{}
	add := func(set bool, format string, v any) {
		if set {
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

// nodesCommand lists node definitions, by itself and as "nodes list".
func (a *app) nodesCommand() *cobra.Command {
	cmd := a.nodesListCommand("nodes")
	cmd.AddCommand(a.nodesListCommand("list"))
	return cmd
}

func (a *app) nodesListCommand(use string) *cobra.Command {
	var q agent.NodeQuery
	var labels []string
	var limit int
	cmd := &cobra.Command{
		Use: use, Short: "List the node definitions that agents and tools are made of", Args: cobra.NoArgs,
		Example: "  starter nodes list --type toolkit\n  starter nodes list --node http_search -o json | jq '.[].properties'",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if q.Labels, err = labelArgs(labels); err != nil {
				return err
			}
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d, want 0 or more", limit)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, limit, "NODE TYPE TOOLS SOURCE DESCRIPTION", nodeRow, func(p agent.Page) ([]agent.NodeInfo, string, error) {
					q.Page = p
					page, err := c.ListNodes(ctx, q)
					return page.Nodes, page.Next, err
				})
			})
		},
	}
	cmd.Flags().StringVar((*string)(&q.Type), "type", "", "only agent, tool or toolkit")
	cmd.Flags().StringVar(&q.NodeID, "node", "", "only of this id")
	cmd.Flags().StringArrayVar(&labels, "label", nil, "only with this label, name=value; all of several")
	cmd.Flags().IntVar(&limit, "limit", listed, "at most so many; 0: all")
	return cmd
}

func nodeRow(n *agent.NodeInfo) []string {
	tools := make([]string, len(n.Tools))
	for i := range n.Tools {
		tools[i] = n.Tools[i].Name
	}
	return []string{n.NodeID + "@" + n.Version, string(n.Type), strings.Join(tools, ", "), n.Source, n.Description}
}
