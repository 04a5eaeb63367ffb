package telegram

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-telegram/bot/models"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const help = `Write to me, or send a picture, and I will answer.

/new – begin a new conversation
/cancel – stop what I am doing
/link CODE – tell me who you are
/unlink – forget who you are
/whoami – what I know of you
/help – this`

// command does what a message that begins with a slash says.
func (c *Channel) command(ctx context.Context, in agent.Inbox, m *models.Message) error {
	name, rest, _ := strings.Cut(strings.TrimSpace(m.Text), " ")
	name, _, _ = strings.Cut(strings.ToLower(name), "@") // /help@the_bot
	rest = strings.TrimSpace(rest)
	chat := m.Chat.ID
	switch name {
	case "/start":
		if rest != "" {
			return c.link(ctx, m, rest)
		}
		return c.welcome(ctx, chat)
	case "/link":
		if rest == "" {
			c.say(ctx, chat, "Send the code too: /link CODE")
			return nil
		}
		return c.link(ctx, m, rest)
	case "/unlink":
		return c.unlink(ctx, m)
	case "/new":
		return c.begin(ctx, m)
	case "/cancel":
		return c.cancel(ctx, in, m)
	case "/whoami":
		return c.whoami(ctx, chat)
	case "/help":
		c.say(ctx, chat, help)
	default:
		c.say(ctx, chat, "I do not know that command.\n\n"+help)
	}
	return nil
}

func (c *Channel) welcome(ctx context.Context, chat int64) error {
	_, ok, err := c.who(ctx, chat)
	switch {
	case err != nil:
		return err
	case ok:
		c.say(ctx, chat, "Hello! "+help)
	default:
		c.say(ctx, chat, "Hello! "+sayNotLinked)
	}
	return nil
}

// link makes the chat the user's whom the code was made for. It begins a new conversation: what was said before may be another user's.
func (c *Channel) link(ctx context.Context, m *models.Message, code string) error {
	chat := m.Chat.ID
	link, err := c.cfg.Store.RedeemLink(ctx, chatOf(chat), code)
	unknown := agent.Principal{Method: Name, Subject: senderOf(m.From), Credential: senderOf(m.From)}
	switch agent.CodeOf(err) {
	case "":
	case agent.CodeNotFound, agent.CodeInvalid:
		c.record(&unknown, agent.ActionLinksWrite, "link/"+chatName(chat), agent.AuditDenied)
		c.say(ctx, chat, "That code is not good, was used already, or is too old. Ask for a new one.")
		return nil
	case agent.CodeRateLimited:
		c.record(&unknown, agent.ActionLinksWrite, "link/"+chatName(chat), agent.AuditDenied)
		c.say(ctx, chat, fmt.Sprintf("Too many wrong codes. Try again in %s.", roughly(asked(err))))
		return nil
	case agent.CodeConflict:
		c.say(ctx, chat, "You have too many chats already. Ask for one of them to be unlinked.")
		return nil
	default:
		return err
	}
	if err := c.cfg.Store.SetChatThread(ctx, chatOf(chat), int64(m.ID)); err != nil {
		return err
	}
	p := link.Principal()
	c.record(&p, agent.ActionLinksWrite, "link/"+chatName(chat), agent.AuditAllowed)
	c.cfg.Logger.Info("chat linked", zap.Int64("chat", chat), zap.String("tenant", link.Tenant), zap.String("user", link.UserID))
	c.say(ctx, chat, fmt.Sprintf("This chat now speaks for %s. Write to me!", link.UserID))
	return nil
}

func chatName(chat int64) string { c := chatOf(chat); return c.Channel + "/" + c.ChatID }

func (c *Channel) unlink(ctx context.Context, m *models.Message) error {
	chat := m.Chat.ID
	link, err := c.cfg.Store.ChatLink(ctx, chatOf(chat))
	if err == nil {
		err = c.cfg.Store.Unlink(ctx, link.Tenant, link.Chat)
	}
	switch agent.CodeOf(err) {
	case "":
	case agent.CodeNotFound:
		c.say(ctx, chat, "This chat is not linked.")
		return nil
	default:
		return err
	}
	if err := c.cfg.Store.SetChatThread(ctx, chatOf(chat), int64(m.ID)); err != nil {
		return err
	}
	p := link.Principal()
	c.record(&p, agent.ActionLinksWrite, "link/"+chatName(chat), agent.AuditAllowed)
	c.say(ctx, chat, "I have forgotten who you are.")
	return nil
}

// begin begins a new conversation, named after the message that asked for it, so that asking again changes nothing.
func (c *Channel) begin(ctx context.Context, m *models.Message) error {
	_, ok, err := c.who(ctx, m.Chat.ID)
	switch {
	case err != nil:
		return err
	case !ok:
		c.say(ctx, m.Chat.ID, sayNotLinked)
		return nil
	}
	if err := c.cfg.Store.SetChatThread(ctx, chatOf(m.Chat.ID), int64(m.ID)); err != nil {
		return err
	}
	c.say(ctx, m.Chat.ID, "A new conversation. What is it about?")
	return nil
}

// cancel stops the chat's oldest turn, which is the one that runs.
func (c *Channel) cancel(ctx context.Context, in agent.Inbox, m *models.Message) error {
	chat := m.Chat.ID
	p, ok, err := c.who(ctx, chat)
	switch {
	case err != nil:
		return err
	case !ok:
		c.say(ctx, chat, sayNotLinked)
		return nil
	case !p.MayAny(agent.ActionTurnsCancel):
		c.say(ctx, chat, "You may not do that.")
		return nil
	}
	owed, err := c.cfg.Store.OwedTurns(ctx, c.account, chatOf(chat))
	if err != nil {
		return err
	}
	for i := range owed {
		if owed[i].Tenant != p.Tenant || owed[i].UserID != p.Subject {
			continue
		}
		bounded, stop := context.WithTimeout(ctx, submitTime)
		err := in.Cancel(bounded, owed[i].TurnID, agent.CancelRequest{Reason: "cancelled in Telegram", By: by(&p, m.From)})
		stop()
		switch agent.CodeOf(err) {
		case "":
			c.record(&p, agent.ActionTurnsCancel, "turn/"+string(owed[i].TurnID), agent.AuditAllowed)
			return nil // the answer says so
		case agent.CodeConflict, agent.CodeNotFound: // it ended this moment
		default:
			return err
		}
	}
	c.say(ctx, chat, "There is nothing to stop.")
	return nil
}

// by names who decides or cancels: the user, else the person of Telegram.
func by(p *agent.Principal, from *models.User) string {
	if p.Subject != "" {
		return p.Subject
	}
	return senderOf(from)
}

func (c *Channel) whoami(ctx context.Context, chat int64) error {
	link, err := c.cfg.Store.ChatLink(ctx, chatOf(chat))
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return err
	}
	if err != nil {
		words := "This chat is not linked."
		if c.cfg.Unlinked {
			words += " You may talk to me as a guest."
		}
		c.say(ctx, chat, fmt.Sprintf("%s\nChat: %d", words, chat))
		return nil
	}
	session, err := c.session(ctx, chat)
	if err != nil {
		return err
	}
	words := fmt.Sprintf("User: %s\nTenant: %s\n", link.UserID, link.Tenant)
	if link.Role != "" {
		words += "Role: " + link.Role + "\n"
	}
	c.say(ctx, chat, fmt.Sprintf("%sMay: %s\nChat: %d\nConversation: %s", words, strings.Join(link.Scopes, ", "), chat, session))
	return nil
}
