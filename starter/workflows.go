package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) workflowsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "workflows", Short: "Processes that are kept as graphs, changed by patches and run", Args: cobra.NoArgs,
		Long: `Processes that are kept as graphs, changed by patches and run. A definition has a tag and an owner; where one owner has the tag, --owner may be
left out. Every change makes a version, and runs keep the version that they began with.`,
		Example: `  starter workflows put main -f main.yaml
  starter workflows patch main --op 'replace /nodes/0/config/subject "Price drop!"' --description "a better subject"
  starter workflows history main
  starter workflows revert main patch_0193…
  starter workflows run main --input '{"price":480}' --wait
  starter workflows runs --tag main --status failed`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.workflowsListCommand(), a.workflowsGetCommand(), a.workflowsPutCommand(), a.workflowsPatchCommand(),
		a.workflowsHistoryCommand(), a.workflowsRevertCommand(), a.workflowsDeleteCommand(), a.workflowsRunCommand(), a.workflowsRunsCommand(),
		a.workflowsShowCommand(), a.workflowsCancelCommand())
	return cmd
}

// keyFlag is the owner of a definition.
func keyFlag(cmd *cobra.Command, owner *string) {
	cmd.Flags().StringVar(owner, "owner", "", "owner of the definition (default: the one who has the tag)")
}

// keyArg checks a tag before it becomes part of an address.
func keyArg(tag, owner string) (agent.WorkflowKey, error) {
	if _, err := nameArg(tag); err != nil {
		return agent.WorkflowKey{}, err
	}
	return agent.WorkflowKey{Tag: tag, Owner: owner}, nil
}

func limitArg(limit int) error {
	if limit < 0 {
		return usageError{fmt.Errorf("--limit is %d, want 0 or more", limit)}
	}
	return nil
}

func (a *app) workflowsListCommand() *cobra.Command {
	var q agent.WorkflowQuery
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List the definitions", Args: cobra.NoArgs,
		Example: "  starter workflows list\n  starter workflows list -o json | jq -r '.[].workflow_tag'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := limitArg(limit); err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, limit, "TAG OWNER VERSION NODES SCHEDULES UPDATED BY", workflowRow, func(p agent.Page) ([]agent.StoredWorkflow, string, error) {
					q.Page = p
					page, err := c.Workflows(ctx, q)
					return page.Workflows, page.Next, err
				})
			})
		},
	}
	cmd.Flags().StringVar(&q.Owner, "owner", "", "only of this owner")
	cmd.Flags().IntVar(&limit, "limit", listed, "at most so many; 0: all")
	return cmd
}

func workflowRow(w *agent.StoredWorkflow) []string {
	var d agent.WorkflowDefinition
	nodes, schedules := "?", "?"
	if json.Unmarshal(w.Definition, &d) == nil {
		nodes, schedules = strconv.Itoa(len(d.Nodes)), strconv.Itoa(len(d.Schedules))
	}
	return []string{w.Tag, w.Owner, strconv.FormatInt(w.Version, 10), nodes, schedules, moment(w.UpdatedAt), dash(w.UpdatedBy)}
}

func (a *app) workflowsGetCommand() *cobra.Command {
	var owner string
	var version int64
	cmd := &cobra.Command{
		Use: "get <tag>", Short: "Print a definition as YAML that can be put again", Args: cobra.ExactArgs(1),
		Long: `Print a definition as YAML that can be put again. With --output json it is what is stored: the definition with its version, hash and the patch
that made it.`,
		Example: "  starter workflows get main > main.yaml\n  starter workflows get main --version 3 -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := keyArg(args[0], owner)
			if err != nil {
				return err
			}
			if version < 0 {
				return usageError{fmt.Errorf("--version is %d, want 1 or more", version)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				w, err := c.Workflow(ctx, key, version)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(w)
				}
				text, err := toYAML(w.Definition)
				if err != nil {
					return err
				}
				fmt.Fprint(a.out, text)
				a.note("version %d of %s, owner %s, %s", w.Version, w.Tag, w.Owner, w.PatchID)
				return nil
			})
		},
	}
	keyFlag(cmd, &owner)
	cmd.Flags().Int64Var(&version, "version", 0, "an earlier version (default: the newest)")
	return cmd
}

func (a *app) workflowsHistoryCommand() *cobra.Command {
	var owner string
	var limit int
	cmd := &cobra.Command{
		Use: "history <tag>", Short: "List the changes of a definition, newest first", Args: cobra.ExactArgs(1),
		Example: "  starter workflows history main\n  starter workflows history main -o json | jq '.[0].operations'",
		RunE: func(cmd *cobra.Command, args []string) error {
			key, err := keyArg(args[0], owner)
			if err != nil {
				return err
			}
			if err := limitArg(limit); err != nil {
				return err
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, limit, "PATCH VERSION AT BY CHANGE DESCRIPTION", patchRow, func(p agent.Page) ([]agent.WorkflowPatch, string, error) {
					page, err := c.WorkflowPatches(ctx, key, p)
					return page.Patches, page.Next, err
				})
			})
		},
	}
	keyFlag(cmd, &owner)
	cmd.Flags().IntVar(&limit, "limit", listed, "at most so many; 0: all")
	return cmd
}

func patchRow(p *agent.WorkflowPatch) []string {
	return []string{p.PatchID, strconv.FormatInt(p.Version, 10), moment(p.At), dash(p.By), changeOf(p), dash(p.Description)}
}

// changeOf says in a few words what a patch did.
func changeOf(p *agent.WorkflowPatch) string {
	var operations []json.RawMessage
	switch {
	case p.Revert != "":
		return "reverts " + p.Revert
	case len(p.Operations) == 0, bytes.Equal(p.Operations, []byte("null")), json.Unmarshal(p.Operations, &operations) != nil:
		return "whole"
	default:
		return count(len(operations), "operation")
	}
}
