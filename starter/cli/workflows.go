package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) workflowsCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "workflows", Short: "Processes that are kept as graphs, changed by patches and run",
		Long: `Processes that are kept as graphs, changed by patches and run. A definition has a tag and an owner; where one owner has the tag, --owner may be
left out. Every change makes a version, and runs keep the version that they began with.`,
		Example: `  starter workflows put main -f main.yaml
  starter workflows patch main --op 'replace /nodes/0/config/subject "Price drop!"' --description "a better subject"
  starter workflows history main
  starter workflows revert main patch_0193…
  starter workflows run main --input '{"price":480}' --wait
  starter workflows runs --tag main --status failed`,
	}, a.workflowsListCommand(), a.workflowsGetCommand(), a.workflowsPutCommand(), a.workflowsPatchCommand(),
		a.workflowsHistoryCommand(), a.workflowsRevertCommand(), a.workflowsDeleteCommand(), a.workflowsRunCommand(), a.workflowsRunsCommand(),
		a.workflowsShowCommand(), a.workflowsCancelCommand())
}

// ownerFlag adds the flag --owner.
func ownerFlag(cmd *cobra.Command, owner *string) {
	cmd.Flags().StringVar(owner, "owner", "", "owner of the definition (default: the one who has the tag)")
}

// workflowKey returns the key of a definition, or an error if the tag is no valid name.
func workflowKey(tag, owner string) (agent.WorkflowKey, error) {
	_, err := requireName(tag)
	return agent.WorkflowKey{Tag: tag, Owner: owner}, err
}

func (a *app) workflowsListCommand() *cobra.Command {
	var q agent.WorkflowQuery
	cmd := listCommand(a, &cobra.Command{
		Use: "list", Short: "List the definitions",
		Example: "  starter workflows list\n  starter workflows list -o json | jq -r '.[].workflow_tag'",
	}, listing[agent.StoredWorkflow]{
		header: "TAG OWNER VERSION NODES SCHEDULES UPDATED BY", row: workflowRow,
		fetch: fetchWorkflows(&q),
	})
	cmd.Flags().StringVar(&q.Owner, "owner", "", "only of this owner")
	return cmd
}

func fetchWorkflows(q *agent.WorkflowQuery) fetchFunc[agent.StoredWorkflow] {
	return func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.StoredWorkflow, string, error) {
		q.Page = p
		page, err := c.Workflows(ctx, *q)
		return page.Workflows, page.Next, err
	}
}

func workflowRow(w *agent.StoredWorkflow) []string {
	var d agent.WorkflowDefinition
	nodes, schedules := "?", "?"
	if json.Unmarshal(w.Definition, &d) == nil {
		nodes, schedules = formatInt(len(d.Nodes)), formatInt(len(d.Schedules))
	}
	return []string{w.Tag, w.Owner, formatInt(w.Version), nodes, schedules, formatTime(w.UpdatedAt), orDash(w.UpdatedBy)}
}

func (a *app) workflowsGetCommand() *cobra.Command {
	var owner string
	var version int64
	cmd := &cobra.Command{
		Use: "get <tag>", Short: "Print a definition as YAML that can be put again", Args: cobra.ExactArgs(1),
		Long: `Print a definition as YAML that can be put again. With --output json it is what is stored: the definition with its version, hash and the patch
that made it.`,
		Example: "  starter workflows get main > main.yaml\n  starter workflows get main --version 3 -o json",
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) (agent.StoredWorkflow, error) {
			key, err := workflowKey(args[0], owner)
			if err := cmp.Or(err, refuseNegative("version", version, 1)); err != nil {
				return agent.StoredWorkflow{}, err
			}
			return c.Workflow(ctx, key, version)
		}, func(w *agent.StoredWorkflow) error {
			if err := a.printYAML(w.Definition); err != nil {
				return err
			}
			a.printNote("version %d of %s, owner %s, %s", w.Version, w.Tag, w.Owner, w.PatchID)
			return nil
		}),
	}
	ownerFlag(cmd, &owner)
	cmd.Flags().Int64Var(&version, "version", 0, "an earlier version (default: the newest)")
	return cmd
}

func (a *app) workflowsHistoryCommand() *cobra.Command {
	var owner string
	cmd := listCommand(a, &cobra.Command{
		Use: "history <tag>", Short: "List the changes of a definition, newest first", Args: cobra.ExactArgs(1),
		Example: "  starter workflows history main\n  starter workflows history main -o json | jq '.[0].operations'",
	}, listing[agent.WorkflowPatch]{
		header: "PATCH VERSION AT BY CHANGE DESCRIPTION",
		row: func(p *agent.WorkflowPatch) []string {
			return []string{p.PatchID, formatInt(p.Version), formatTime(p.At), orDash(p.By), patchSummary(p), orDash(p.Description)}
		},
		fetch: func(ctx context.Context, c *client.Client, args []string, p agent.Page) ([]agent.WorkflowPatch, string, error) {
			key, err := workflowKey(args[0], owner)
			if err != nil {
				return nil, "", err
			}
			page, err := c.WorkflowPatches(ctx, key, p)
			return page.Patches, page.Next, err
		},
	})
	ownerFlag(cmd, &owner)
	return cmd
}

// patchSummary describes a patch in a few words.
func patchSummary(p *agent.WorkflowPatch) string {
	var operations []json.RawMessage
	switch {
	case p.Revert != "":
		return "reverts " + p.Revert
	case len(p.Operations) == 0, bytes.Equal(p.Operations, []byte("null")), json.Unmarshal(p.Operations, &operations) != nil:
		return "whole"
	default:
		return quantity(len(operations), "operation")
	}
}
