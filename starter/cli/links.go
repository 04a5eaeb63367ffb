package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

// linksPage is the largest number of links in a response.
const linksPage = 500

func (a *app) linksCommand() *cobra.Command {
	return commandGroup(&cobra.Command{
		Use: "links", Short: "Which chats speak for which users",
		Example: "  starter links create ann\n  starter links list\n  starter links delete 123456789",
	}, a.linksCreateCommand(), a.linksListCommand(), a.linksDeleteCommand())
}

func (a *app) linksCreateCommand() *cobra.Command {
	l := agent.Link{Chat: agent.Chat{Channel: "telegram"}}
	cmd := &cobra.Command{
		Use: "create <user>", Short: "Make a code by which a chat becomes a user's", Args: cobra.ExactArgs(1),
		Long:    "Make a code by which a chat becomes a user's. Whoever sends it to the bot first, within a quarter of an hour, speaks for the user.",
		Example: "  starter links create ann\n  starter links create ann --role trader --scope turns.run:analyst --scope turns.read",
		RunE: printAnswerText(a, func(ctx context.Context, c *client.Client, args []string) (client.LinkOffer, error) {
			l.UserID = args[0]
			return c.OfferLink(ctx, l)
		}, func(offer *client.LinkOffer) string {
			text := fmt.Sprintf("send the bot: /link %s   (until %s)", offer.Code, formatTime(offer.ExpiresAt))
			if offer.URL != "" {
				text += "\nor open:      " + offer.URL
			}
			return text
		}),
	}
	cmd.Flags().StringVar(&l.Channel, "channel", l.Channel, "channel of the chat")
	cmd.Flags().StringVar(&l.Role, "role", "", "role that routing sees")
	cmd.Flags().StringArrayVar(&l.Scopes, "scope", nil, "what the chat may do; repeat for several")
	return cmd
}

func (a *app) linksListCommand() *cobra.Command {
	var q agent.LinkQuery
	cmd := listCommand(a, &cobra.Command{Use: "list", Short: "List the links", Example: "  starter links list --user ann"}, listing[agent.Link]{
		header: "CHAT CHANNEL USER ROLE LINKED SCOPES",
		row: func(l *agent.Link) []string {
			return []string{l.ChatID, l.Channel, l.UserID, orDash(l.Role), formatTime(l.LinkedAt), strings.Join(l.Scopes, " ")}
		},
		fetch: fetchLinks(&q),
	})
	cmd.Flags().StringVar(&q.Channel, "channel", "", "only of this channel")
	cmd.Flags().StringVar(&q.UserID, "user", "", "only of this user")
	return cmd
}

func fetchLinks(q *agent.LinkQuery) fetchFunc[agent.Link] {
	return func(ctx context.Context, c *client.Client, _ []string, p agent.Page) ([]agent.Link, string, error) {
		q.PageSize, q.PageToken = min(p.Size, linksPage), p.Token
		page, err := c.Links(ctx, *q)
		return page.Links, page.Next, err
	}
}

func (a *app) linksDeleteCommand() *cobra.Command {
	chat := agent.Chat{Channel: "telegram"}
	cmd := &cobra.Command{
		Use: "delete <chat>", Short: "End a link", Args: cobra.ExactArgs(1),
		Example: "  starter links delete 123456789\n  starter links delete --channel telegram -- -1001234567890   # a group: what begins with - stands behind --",
		RunE: a.withClient(func(ctx context.Context, c *client.Client, args []string) error {
			chat.ChatID = args[0]
			if err := c.DeleteLink(ctx, chat); err != nil {
				return err
			}
			return a.printResult(map[string]string{"channel": chat.Channel, "chat_id": chat.ChatID}, "unlinked %s", chat.ChatID)
		}),
	}
	cmd.Flags().StringVar(&chat.Channel, "channel", chat.Channel, "channel of the chat")
	return cmd
}
