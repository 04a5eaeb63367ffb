package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
	"github.com/turnstone-run/turnstone/internal/termtext"
)

func (a *app) knowledgeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "knowledge", Short: "Documents that ask agents answer from", Args: cobra.NoArgs,
		Long: `Documents that ask agents answer from. A collection is a catalog document of kind KnowledgeCollection; what is in it is added, listed,
searched and deleted here.`,
		Example: `  starter knowledge add handbook docs/ faq.jsonl
  starter knowledge search handbook "how many days off?"
  starter knowledge list handbook
  starter knowledge delete handbook docs/old.md`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.knowledgeAddCommand(), a.knowledgeListCommand(), a.knowledgeSearchCommand(), a.knowledgeDeleteCommand())
	return cmd
}

func (a *app) knowledgeListCommand() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "list <collection>", Short: "List the documents of a collection", Args: cobra.ExactArgs(1),
		Example: "  starter knowledge list handbook\n  starter knowledge list handbook -o json | jq '.[].id'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d, want 0 or more", limit)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, limit, "DOCUMENT TITLE TYPE BYTES CHUNKS UPDATED", knowledgeRow, func(p agent.Page) ([]agent.KnowledgeDocument, string, error) {
					page, err := c.Knowledge(ctx, args[0], p)
					return page.Documents, page.Next, err
				})
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", listed, "at most so many; 0: all")
	return cmd
}

func knowledgeRow(d *agent.KnowledgeDocument) []string {
	return []string{d.ID, dash(d.Title), dash(d.MIMEType), strconv.FormatInt(d.Bytes, 10), strconv.Itoa(d.Chunks), moment(d.UpdatedAt)}
}

func (a *app) knowledgeSearchCommand() *cobra.Command {
	var most int
	cmd := &cobra.Command{
		Use: "search <collection> <text>", Short: "Find passages as an agent of the collection would", Args: cobra.MinimumNArgs(2),
		Example: `  starter knowledge search handbook "how many days off?" --top 3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if most < 0 {
				return usageError{fmt.Errorf("--top is %d, want 0 or more", most)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				passages, err := c.SearchKnowledge(ctx, args[0], strings.Join(args[1:], " "), most)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(append([]agent.Passage{}, passages...))
				}
				for i := range passages {
					a.printPassage(i+1, &passages[i])
				}
				if len(passages) == 0 {
					a.note("nothing found")
				}
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&most, "top", 0, "at most so many; 0: as many as an agent gets")
	return cmd
}

func (a *app) printPassage(n int, p *agent.Passage) {
	from := p.DocumentID
	if p.Title != "" {
		from = p.Title + " — " + from
	}
	if p.Page > 0 {
		from += fmt.Sprintf(", page %d", p.Page)
	}
	a.say("[%d] %s  (%.4f)\n    %s", n, wide(from), p.Score, termtext.OneLine(p.Text, 400))
}

func (a *app) knowledgeDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete <collection> <document>…", Short: "Delete documents of a collection", Args: cobra.MinimumNArgs(2),
		Example: "  starter knowledge delete handbook docs/old.md",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				for _, id := range args[1:] {
					if err := c.DeleteKnowledge(ctx, args[0], id); err != nil {
						return err
					}
					if a.output != "json" {
						a.say("deleted %s", wide(id))
					}
				}
				if a.output == "json" {
					return a.printJSON(args[1:])
				}
				return nil
			})
		},
	}
}
