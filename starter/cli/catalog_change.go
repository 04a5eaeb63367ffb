package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

const filesHelp = `Files are YAML or JSON with one or more documents each; "-" is standard input. Of a folder all *.yaml, *.yml and *.json are read,
with those of its subfolders; hidden ones are not.`

func (a *app) applyCommand() *cobra.Command {
	var f changeFlags
	var prune, publish bool
	cmd := &cobra.Command{
		Use: "apply <file|folder|->…", Short: "Make the catalog hold the documents of files", Args: cobra.MinimumNArgs(1),
		Long: "Make the catalog hold the documents of files: all of them, or none when anything is wrong with one.\n\n" + filesHelp,
		Example: `  starter catalog apply catalog/
  starter catalog apply analyst.yaml --dry-run
  starter catalog apply catalog/ --prune --publish --by ci --comment "release 42"
  starter catalog get agent analyst | sed 's/model: small/model: big/' | starter catalog apply -`,
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.ApplyResult, error) {
			files, err := readManifests(ctx, a.in, args)
			if err != nil {
				return agent.ApplyResult{}, err
			}
			return c.Apply(ctx, agent.ApplyRequest{
				Files: files, BaseRevision: f.base, FromEmpty: f.fromEmpty, Prune: prune, DryRun: f.dryRun, Publish: publish, By: a.author(f.by), Comment: f.comment,
			})
		}, applyText),
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&prune, "prune", false, "delete the documents applied before that the files do not hold, of the tenants that they have something of")
	cmd.Flags().BoolVar(&publish, "publish", false, "publish the agents that change")
	return cmd
}

func (a *app) deleteCommand() *cobra.Command {
	var f changeFlags
	var version string
	cmd := &cobra.Command{
		Use: "delete <kind> <name>", Short: "Delete a document", Args: cobra.ExactArgs(2),
		Long: "Delete a document. It is refused while another one needs it. What is built in reappears when a document that hid it is deleted.",
		Example: `  starter catalog delete agent analyst --comment "replaced by analyst-2"
  starter catalog delete node http_search --version 1 --dry-run`,
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (agent.ApplyResult, error) {
			key, err := a.documentKey(args, version)
			if err != nil {
				return agent.ApplyResult{}, err
			}
			return c.Delete(ctx, client.Deletion{Key: key, BaseRevision: f.base, DryRun: f.dryRun, By: a.author(f.by), Comment: f.comment})
		}, applyText),
	}
	f.register(cmd)
	cmd.Flags().StringVar(&version, "version", "", "of a node")
	return cmd
}

func (a *app) publishCommand() *cobra.Command {
	var all bool
	var by string
	cmd := &cobra.Command{
		Use: "publish <agent>… | --all", Short: "Compile agents and store their plans",
		Long: `Compile agents and store their plans by hash, so that no turn has to. With several, those that can be published are, and the exit
code tells that others could not.`,
		Example: "  starter catalog publish analyst\n  starter catalog publish --all --by ci",
		Args: func(_ *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return errors.New("name the agents, or say --all")
			}
			return nil
		},
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			for _, name := range args {
				if _, err := requireName(name); err != nil {
					return err
				}
			}
			if all {
				fetch := fetchAgents(&agent.AgentQuery{Tenant: a.tenant})
				agents, _, err := fetchAll(0, func(p agent.Page) ([]agent.AgentInfo, string, error) { return fetch(ctx, c, nil, p) })
				if err != nil {
					return err
				}
				for i := range agents {
					args = append(args, agents[i].Name)
				}
			}
			return a.publish(ctx, c, args, a.author(by))
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "every agent of the tenant")
	cmd.Flags().StringVar(&by, "by", "", "who, for the record (default: the user of this machine)")
	return cmd
}

// publish publishes one agent after the other. It goes on after an agent that the server refuses, and returns any other error at once.
func (a *app) publish(ctx context.Context, c *client.Client, names []string, by string) error {
	published := []agent.AgentInfo{}
	var refused []error
	for _, name := range names {
		info, err := c.Publish(ctx, a.tenant, name, by)
		if err != nil {
			if exitCode(err) != exitUsage {
				return err
			}
			refused = append(refused, fmt.Errorf("publish agent %q: %w", name, err))
			continue
		}
		published = append(published, info)
		if a.output != "json" {
			hash := info.PlanHash
			if info.Artifact != nil {
				hash = info.Artifact.Hash
			}
			a.printLine("published  %s  %s", clipName(info.Name), clipName(hash))
		}
	}
	if a.output == "json" {
		if err := a.printJSON(published); err != nil {
			return err
		}
	}
	if len(refused) < 2 {
		return errors.Join(refused...)
	}
	for _, err := range refused {
		a.printError(err)
	}
	return exitStatus(exitUsage)
}
