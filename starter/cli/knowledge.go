package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/cmdline"
)

func (a *app) knowledgeCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "knowledge", Short: "Documents that ask agents answer from",
		Long: `Documents that ask agents answer from. A collection is a catalog document of kind KnowledgeCollection; what is in it is added, listed,
searched and deleted here.`,
		Example: `  starter knowledge add handbook docs/ faq.jsonl
  starter knowledge search handbook "how many days off?"
  starter knowledge list handbook
  starter knowledge delete handbook docs/old.md`,
	}, a.knowledgeAddCommand(), a.knowledgeListCommand(), a.knowledgeSearchCommand(), a.knowledgeDeleteCommand())
}

func (a *app) knowledgeListCommand() *cobra.Command {
	return listCommand(a, &cobra.Command{
		Use: "list <collection>", Short: "List the documents of a collection", Args: cobra.ExactArgs(1),
		Example: "  starter knowledge list handbook\n  starter knowledge list handbook -o json | jq '.[].id'",
	}, listing[agent.KnowledgeDocument]{
		header: "DOCUMENT TITLE TYPE BYTES CHUNKS UPDATED",
		row: func(d *agent.KnowledgeDocument) []string {
			return []string{d.ID, orDash(d.Title), orDash(d.MIMEType), formatInt(d.Bytes), formatInt(d.Chunks), formatTime(d.UpdatedAt)}
		},
		fetch: func(ctx context.Context, c *client.Client, args []string, p agent.Page) ([]agent.KnowledgeDocument, string, error) {
			page, err := c.Knowledge(ctx, args[0], p)
			return page.Documents, page.Next, err
		},
	})
}

func (a *app) knowledgeSearchCommand() *cobra.Command {
	var top int
	cmd := &cobra.Command{
		Use: "search <collection> <text>", Short: "Find passages as an agent of the collection would", Args: cobra.MinimumNArgs(2),
		Example: `  starter knowledge search handbook "how many days off?" --top 3`,
		RunE: printAnswer(a, func(ctx context.Context, c *client.Client, args []string) ([]agent.Passage, error) {
			if err := refuseNegative("top", top, 0); err != nil {
				return nil, err
			}
			passages, err := c.SearchKnowledge(ctx, args[0], strings.Join(args[1:], " "), top)
			return append([]agent.Passage{}, passages...), err
		}, a.printPassages),
	}
	cmd.Flags().IntVar(&top, "top", 0, "at most so many; 0: as many as an agent gets")
	return cmd
}

func (a *app) printPassages(passages *[]agent.Passage) error {
	for i, p := range *passages {
		from := p.DocumentID
		if p.Title != "" {
			from = p.Title + " — " + from
		}
		if p.Page > 0 {
			from += fmt.Sprintf(", page %d", p.Page)
		}
		a.printLine("[%d] %s  (%.4f)\n    %s", i+1, clipName(from), p.Score, cmdline.OneLine(p.Text, 400))
	}
	if len(*passages) == 0 {
		a.printNote("nothing found")
	}
	return nil
}

func (a *app) knowledgeDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete <collection> <document>…", Short: "Delete documents of a collection", Args: cobra.MinimumNArgs(2),
		Example: "  starter knowledge delete handbook docs/old.md",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			for _, id := range args[1:] {
				if err := c.DeleteKnowledge(ctx, args[0], id); err != nil {
					return err
				}
				if a.output != "json" {
					a.printLine("deleted %s", clipName(id))
				}
			}
			return a.print(args[1:], func() error { return nil })
		}),
	}
}
