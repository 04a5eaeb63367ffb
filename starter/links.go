package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/client"
)

func (a *app) linksCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "links", Short: "Which chats speak for which users", Args: cobra.NoArgs,
		Example: "  starter links create ann\n  starter links list\n  starter links delete 123456789",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.linksCreateCommand(), a.linksListCommand(), a.linksDeleteCommand())
	return cmd
}

func (a *app) linksCreateCommand() *cobra.Command {
	l := agent.Link{Chat: agent.Chat{Channel: "telegram"}}
	cmd := &cobra.Command{
		Use: "create <user>", Short: "Make a code by which a chat becomes a user's", Args: cobra.ExactArgs(1),
		Long:    "Make a code by which a chat becomes a user's. Whoever sends it to the bot first, within a quarter of an hour, speaks for the user.",
		Example: "  starter links create ann\n  starter links create ann --role trader --scope turns.run:analyst --scope turns.read",
		RunE: func(cmd *cobra.Command, args []string) error {
			l.UserID = args[0]
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				offer, err := c.OfferLink(ctx, l)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(offer)
				}
				a.say("send the bot: /link %s   (until %s)", offer.Code, moment(offer.ExpiresAt))
				if offer.URL != "" {
					a.say("or open:      %s", offer.URL)
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&l.Channel, "channel", l.Channel, "channel of the chat")
	cmd.Flags().StringVar(&l.Role, "role", "", "role that routing sees")
	cmd.Flags().StringArrayVar(&l.Scopes, "scope", nil, "what the chat may do; repeat for several")
	return cmd
}

func (a *app) linksListCommand() *cobra.Command {
	var q agent.LinkQuery
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List the links", Args: cobra.NoArgs,
		Example: "  starter links list --user ann",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d, want 0 or more", limit)}
			}
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				return list(a, limit, "CHAT CHANNEL USER ROLE LINKED SCOPES", linkRow, func(p agent.Page) ([]agent.Link, string, error) {
					q.PageSize, q.PageToken = min(p.Size, linksPage), p.Token
					page, err := c.Links(ctx, q)
					return page.Links, page.Next, err
				})
			})
		},
	}
	cmd.Flags().StringVar(&q.Channel, "channel", "", "only of this channel")
	cmd.Flags().StringVar(&q.UserID, "user", "", "only of this user")
	cmd.Flags().IntVar(&limit, "limit", listed, "at most so many; 0: all")
	return cmd
}

// linksPage is how many links a page has at most.
const linksPage = 500

func linkRow(l *agent.Link) []string {
	return []string{l.ChatID, l.Channel, l.UserID, dash(l.Role), moment(l.LinkedAt), strings.Join(l.Scopes, " ")}
}

func (a *app) linksDeleteCommand() *cobra.Command {
	chat := agent.Chat{Channel: "telegram"}
	cmd := &cobra.Command{
		Use: "delete <chat>", Short: "End a link", Args: cobra.ExactArgs(1),
		Example: "  starter links delete 123456789\n  starter links delete --channel telegram -- -1001234567890   # a group: what begins with - stands behind --",
		RunE: func(cmd *cobra.Command, args []string) error {
			chat.ChatID = args[0]
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if err := c.DeleteLink(ctx, chat); err != nil {
					return err
				}
				return a.done(map[string]string{"channel": chat.Channel, "chat_id": chat.ChatID}, "unlinked %s", chat.ChatID)
			})
		},
	}
	cmd.Flags().StringVar(&chat.Channel, "channel", chat.Channel, "channel of the chat")
	return cmd
}

// messageCommand says something in the session of a turn.
func (a *app) messageCommand() *cobra.Command {
	var r agent.TurnRequest
	cmd := &cobra.Command{
		Use: "message <turn> <text>", Short: "Say something to the session of a turn, running or not", Args: cobra.MinimumNArgs(2),
		Long: `Say something to the session of a turn. It becomes a turn of its own: behind the running one, or, with --on-busy interrupt, in its place.`,
		Example: `  starter message turn-42 "and the return flights"
  starter message turn-42 --on-busy interrupt "stop, I meant LGA"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := turnArg(args[0])
			if err != nil {
				return err
			}
			switch r.OnBusy {
			case "", agent.OnBusyQueue, agent.OnBusyInterrupt, agent.OnBusyReject:
			default:
				return usageError{fmt.Errorf("--on-busy is %q, want queue, interrupt or reject", r.OnBusy)}
			}
			r.Message, r.Channel = strings.Join(args[1:], " "), "cli"
			return a.call(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				posted, err := c.Message(ctx, id, r)
				if err != nil {
					return err
				}
				if a.output == "json" {
					return a.printJSON(posted)
				}
				where := "runs now"
				if posted.Position > 0 {
					where = fmt.Sprintf("is number %d in line", posted.Position)
				}
				a.say("turn %s %s", posted.TurnID, where)
				return nil
			})
		},
	}
	cmd.Flags().StringVar((*string)(&r.OnBusy), "on-busy", "", "queue, interrupt or reject (default queue)")
	cmd.Flags().StringVar(&r.IdempotencyKey, "idempotency-key", "", "the same key is the same message, however often it is sent")
	return cmd
}
