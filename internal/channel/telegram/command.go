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

// runCommand runs the command in a message that begins with a slash.
func (c *Channel) runCommand(ctx context.Context, in agent.Inbox, m *models.Message) error {
	name, argument, _ := strings.Cut(strings.TrimSpace(m.Text), " ")
	name, _, _ = strings.Cut(strings.ToLower(name), "@") // /help@the_bot
	argument = strings.TrimSpace(argument)
	chat := m.Chat.ID
	switch name {
	case "/start":
		if argument != "" {
			return c.linkChat(ctx, m, argument)
		}
		return c.sendWelcome(ctx, chat)
	case "/link":
		if argument == "" {
			c.sendText(ctx, chat, "Send the code too: /link CODE")
			return nil
		}
		return c.linkChat(ctx, m, argument)
	case "/unlink":
		return c.unlinkChat(ctx, m)
	case "/new":
		return c.beginConversation(ctx, m)
	case "/cancel":
		return c.cancelTurn(ctx, in, m)
	case "/whoami":
		return c.sendIdentity(ctx, chat)
	case "/help":
		c.sendText(ctx, chat, help)
	default:
		c.sendText(ctx, chat, "I do not know that command.\n\n"+help)
	}
	return nil
}

func (c *Channel) sendWelcome(ctx context.Context, chat int64) error {
	_, ok, err := c.principal(ctx, chat)
	switch {
	case err != nil:
		return err
	case ok:
		c.sendText(ctx, chat, "Hello! "+help)
	default:
		c.sendText(ctx, chat, "Hello! "+textNotLinked)
	}
	return nil
}

// linkChat links the chat to the user of a code. It begins a new conversation, because the earlier messages may be another user's.
func (c *Channel) linkChat(ctx context.Context, m *models.Message, code string) error {
	chat := m.Chat.ID
	link, err := c.cfg.Store.RedeemLink(ctx, chatOf(chat), code)
	unknown := agent.Principal{Method: Name, Subject: senderOf(m.From), Credential: senderOf(m.From)}
	switch agent.CodeOf(err) {
	case "":
	case agent.CodeNotFound, agent.CodeInvalid:
		c.recordAudit(&unknown, agent.ActionLinksWrite, "link/"+chatName(chat), agent.AuditDenied)
		c.sendText(ctx, chat, "That code is not good, was used already, or is too old. Ask for a new one.")
		return nil
	case agent.CodeRateLimited:
		c.recordAudit(&unknown, agent.ActionLinksWrite, "link/"+chatName(chat), agent.AuditDenied)
		c.sendText(ctx, chat, fmt.Sprintf("Too many wrong codes. Try again in %s.", roughDuration(retryAfter(err))))
		return nil
	case agent.CodeConflict:
		c.sendText(ctx, chat, "You have too many chats already. Ask for one of them to be unlinked.")
		return nil
	default:
		return err
	}
	if err := c.cfg.Store.SetChatThread(ctx, chatOf(chat), int64(m.ID)); err != nil {
		return err
	}
	p := link.Principal()
	c.recordAudit(&p, agent.ActionLinksWrite, "link/"+chatName(chat), agent.AuditAllowed)
	c.cfg.Logger.Info("chat linked", zap.Int64("chat", chat), zap.String("tenant", link.Tenant), zap.String("user", link.UserID))
	c.sendText(ctx, chat, fmt.Sprintf("This chat now speaks for %s. Write to me!", link.UserID))
	return nil
}

func chatName(chat int64) string { c := chatOf(chat); return c.Channel + "/" + c.ChatID }

// unlinkChat removes the link of the chat and begins a new conversation.
func (c *Channel) unlinkChat(ctx context.Context, m *models.Message) error {
	chat := m.Chat.ID
	link, err := c.cfg.Store.ChatLink(ctx, chatOf(chat))
	if err == nil {
		err = c.cfg.Store.Unlink(ctx, link.Tenant, link.Chat)
	}
	switch agent.CodeOf(err) {
	case "":
	case agent.CodeNotFound:
		c.sendText(ctx, chat, "This chat is not linked.")
		return nil
	default:
		return err
	}
	if err := c.cfg.Store.SetChatThread(ctx, chatOf(chat), int64(m.ID)); err != nil {
		return err
	}
	p := link.Principal()
	c.recordAudit(&p, agent.ActionLinksWrite, "link/"+chatName(chat), agent.AuditAllowed)
	c.sendText(ctx, chat, "I have forgotten who you are.")
	return nil
}

// beginConversation begins a new conversation. Its number is the message's, so that the same message again changes nothing.
func (c *Channel) beginConversation(ctx context.Context, m *models.Message) error {
	if _, ok, err := c.requirePrincipal(ctx, m.Chat.ID); !ok {
		return err
	}
	if err := c.cfg.Store.SetChatThread(ctx, chatOf(m.Chat.ID), int64(m.ID)); err != nil {
		return err
	}
	c.sendText(ctx, m.Chat.ID, "A new conversation. What is it about?")
	return nil
}

// cancelTurn cancels the oldest turn of the chat that has not ended. Turns of a chat run one after the other, so that is the one that runs.
func (c *Channel) cancelTurn(ctx context.Context, in agent.Inbox, m *models.Message) error {
	chat := m.Chat.ID
	p, ok, err := c.requirePrincipal(ctx, chat)
	if !ok {
		return err
	}
	if !p.MayAny(agent.ActionTurnsCancel) {
		c.sendText(ctx, chat, "You may not do that.")
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
		bounded, stop := context.WithTimeout(ctx, submitTimeout)
		err := in.Cancel(bounded, owed[i].TurnID, agent.CancelRequest{Reason: "cancelled in Telegram", By: actorName(&p, m.From)})
		stop()
		switch agent.CodeOf(err) {
		case "":
			c.recordAudit(&p, agent.ActionTurnsCancel, "turn/"+string(owed[i].TurnID), agent.AuditAllowed)
			return nil // the turn's answer says that it was stopped
		case agent.CodeConflict, agent.CodeNotFound: // it has just ended
		default:
			return err
		}
	}
	c.sendText(ctx, chat, "There is nothing to stop.")
	return nil
}

// actorName returns the name under which a decision or a cancellation is recorded: the user, or the Telegram account of a person without one.
func actorName(p *agent.Principal, from *models.User) string {
	if p.Subject != "" {
		return p.Subject
	}
	return senderOf(from)
}

// sendIdentity answers /whoami.
func (c *Channel) sendIdentity(ctx context.Context, chat int64) error {
	link, err := c.cfg.Store.ChatLink(ctx, chatOf(chat))
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return err
	}
	if err != nil {
		text := "This chat is not linked."
		if c.cfg.Unlinked {
			text += " You may talk to me as a guest."
		}
		c.sendText(ctx, chat, fmt.Sprintf("%s\nChat: %d", text, chat))
		return nil
	}
	session, err := c.sessionID(ctx, chat)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("User: %s\nTenant: %s\n", link.UserID, link.Tenant)
	if link.Role != "" {
		text += "Role: " + link.Role + "\n"
	}
	c.sendText(ctx, chat, fmt.Sprintf("%sMay: %s\nChat: %d\nConversation: %s", text, strings.Join(link.Scopes, ", "), chat, session))
	return nil
}
