package telegram

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const submitTime = 30 * time.Second // of one submission

// What the bot says by itself.
const (
	sayNotLinked = "I do not know you yet. Ask whoever runs this service for a link, or for a code, and send it to me: /link CODE"
	sayNotNow    = "Something went wrong and I could not take this. Please send it again later."
	sayOnlyText  = "I can read text and pictures only."
	sayGroups    = "I only talk in private chats. Please write to me there."
	sayTooMuch   = "That is too much at once. Please try again in a while."
	sayTooLarge  = "That is too large for me."
	sayOutOfDate = "This question is out of date."
)

// update deals with one update. An error says that the same update may go well later.
func (c *Channel) update(ctx context.Context, u *models.Update) error {
	in := c.inbox.Load()
	if in == nil {
		return agent.Errorf(agent.CodeUnavailable, "", "%w", errClosed)
	}
	switch {
	case u.CallbackQuery != nil:
		c.metrics.updates.WithLabelValues("press").Inc()
		return c.press(ctx, *in, u.CallbackQuery)
	case u.Message != nil:
		return c.message(ctx, *in, u.ID, u.Message)
	default:
		c.metrics.updates.WithLabelValues("other").Inc()
		return nil
	}
}

// apologise is for an update that was given up.
func (c *Channel) apologise(ctx context.Context, u *models.Update) {
	if u.Message != nil && u.Message.Chat.Type == models.ChatTypePrivate {
		c.say(ctx, u.Message.Chat.ID, sayNotNow)
	}
}

func (c *Channel) message(ctx context.Context, in agent.Inbox, update int64, m *models.Message) error {
	if m.From == nil || m.From.IsBot {
		return nil
	}
	if m.Chat.Type != models.ChatTypePrivate {
		return c.group(ctx, in, m)
	}
	if m.ReplyToMessage != nil && m.Text != "" {
		if taken, err := c.reply(ctx, in, m); taken || err != nil {
			return err
		}
	}
	if strings.HasPrefix(m.Text, "/") {
		c.metrics.updates.WithLabelValues("command").Inc()
		return c.command(ctx, in, m)
	}
	c.metrics.updates.WithLabelValues("message").Inc()
	return c.turn(ctx, in, update, m)
}

// group answers whoever speaks to the bot in a group: there everybody would speak as the user that the group is linked to. In the approvers'
// group a reply may answer a question.
func (c *Channel) group(ctx context.Context, in agent.Inbox, m *models.Message) error {
	if m.Chat.ID == c.cfg.ApproverChat && m.ReplyToMessage != nil && m.Text != "" {
		if taken, err := c.reply(ctx, in, m); taken || err != nil {
			return err
		}
	}
	if c.own(m.ReplyToMessage) || (c.name() != "" && strings.Contains(strings.ToLower(m.Text+" "+m.Caption), "@"+strings.ToLower(c.name()))) {
		c.say(ctx, m.Chat.ID, sayGroups)
	}
	return nil
}

// own reports whether a message is the bot's.
func (c *Channel) own(m *models.Message) bool {
	return m != nil && m.From != nil && strconv.FormatInt(m.From.ID, 10) == c.account
}

// who says as whom a private chat speaks; ok is false for one that may not.
func (c *Channel) who(ctx context.Context, chat int64) (p agent.Principal, ok bool, err error) {
	link, err := c.cfg.Store.ChatLink(ctx, chatOf(chat))
	switch {
	case err == nil:
		return link.Principal(), true, nil
	case agent.CodeOf(err) != agent.CodeNotFound:
		return agent.Principal{}, false, err
	}
	id := strconv.FormatInt(chat, 10)
	return agent.Principal{
		Method: Name, Tenant: c.cfg.Tenant, Subject: "telegram-" + id, Credential: Name + "/" + id,
		Scopes: []string{string(agent.ActionTurnsRun), string(agent.ActionTurnsRead), string(agent.ActionTurnsCancel), string(agent.ActionToolsUse)},
	}, c.cfg.Unlinked, nil
}

// session names the conversation that a chat is in.
func (c *Channel) session(ctx context.Context, chat int64) (agent.SessionID, error) {
	thread, err := c.cfg.Store.ChatThread(ctx, chatOf(chat))
	if err != nil {
		return "", err
	}
	id := "telegram-" + strconv.FormatInt(chat, 10)
	if thread != 0 {
		id += "-" + strconv.FormatInt(thread, 10)
	}
	return agent.SessionID(id), nil
}

// turn makes a turn of a message.
func (c *Channel) turn(ctx context.Context, in agent.Inbox, update int64, m *models.Message) error {
	chat := m.Chat.ID
	p, ok, err := c.who(ctx, chat)
	switch {
	case err != nil:
		return err
	case !ok:
		c.say(ctx, chat, sayNotLinked)
		return nil
	}
	blocks, err := c.blocks(ctx, m)
	if err != nil || len(blocks) == 0 {
		return c.unreadable(ctx, chat, err)
	}
	session, err := c.session(ctx, chat)
	if err != nil {
		return err
	}
	metadata := map[string]any{
		"chat_id": strconv.FormatInt(chat, 10), "chat_type": string(m.Chat.Type), "message_id": strconv.Itoa(m.ID),
	}
	for key, value := range map[string]string{"username": m.From.Username, "language": m.From.LanguageCode} {
		if value != "" {
			metadata[key] = value
		}
	}
	request := agent.TurnRequest{
		Agent: c.cfg.Agent, SessionID: session, Channel: Name, OnBusy: agent.OnBusyQueue, Approvals: c.cfg.Approvals,
		Context:        agent.InvocationContext{Tenant: p.Tenant, UserID: p.Subject, UserRole: p.Role, Metadata: metadata},
		IdempotencyKey: fmt.Sprintf("%s/%s/%d", Name, c.account, update),
	}
	if len(blocks) == 1 && blocks[0].Type == agent.BlockText {
		request.Message = blocks[0].Text
	} else {
		request.Messages = []agent.Message{{Role: agent.RoleUser, Blocks: blocks}}
	}
	bounded, cancel := context.WithTimeout(ctx, submitTime)
	defer cancel()
	receipt, err := in.Submit(bounded, agent.Envelope{
		Channel: Name, Sender: senderOf(m.From), Principal: p, RequestID: fmt.Sprintf("telegram-%s-%d", c.account, update), Request: request,
	})
	if err != nil {
		return c.refused(ctx, bounded, chat, err)
	}
	return c.answers.owe(ctx, agent.ChatTurn{
		Chat: chatOf(chat), Account: c.account, TurnID: receipt.TurnID, Tenant: p.Tenant, UserID: p.Subject,
	})
}

// senderOf names a person of Telegram.
func senderOf(u *models.User) string { return Name + "/" + strconv.FormatInt(u.ID, 10) }

// refused tells a person why there is no turn, where that is about what he sent; anything else may go well later.
func (c *Channel) refused(ctx, bounded context.Context, chat int64, err error) error {
	if late := agent.Interrupted(bounded, "submit message"); late != nil {
		return late
	}
	var words string
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeInternal, agent.CodeCancelled, agent.CodeNotFound:
		return err
	case agent.CodeRateLimited:
		words = sayTooMuch
		if e, ok := errors.AsType[*agent.Error](err); ok && e.RetryAfter > 0 {
			words = fmt.Sprintf("That is too much at once. Please try again in %s.", roughly(e.RetryAfter))
		}
	case agent.CodeOverflow:
		words = sayTooLarge
	case agent.CodeDenied, agent.CodeUnauthenticated:
		words = "You may not do that."
	default:
		words = "I cannot take this message."
	}
	c.cfg.Logger.Info("message refused", zap.Int64("chat", chat), zap.Error(err))
	c.say(ctx, chat, words)
	return nil
}

func roughly(d time.Duration) string {
	switch {
	case d <= time.Minute:
		return fmt.Sprintf("%d seconds", max(1, int(d.Round(time.Second)/time.Second)))
	case d <= 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Round(time.Minute)/time.Minute))
	default:
		return fmt.Sprintf("%d hours", int(d.Round(time.Hour)/time.Hour))
	}
}

// unreadable is for a message that no blocks could be made of.
func (c *Channel) unreadable(ctx context.Context, chat int64, err error) error {
	switch {
	case err == nil:
		c.say(ctx, chat, sayOnlyText)
	case agent.CodeOf(err) == agent.CodeOverflow:
		c.say(ctx, chat, sayTooLarge)
	case rejected(err):
		c.say(ctx, chat, "I could not read this file.")
	default:
		return err
	}
	return nil
}

// blocks are what a message says: its text, or its picture with its caption. None: it says something else.
func (c *Channel) blocks(ctx context.Context, m *models.Message) ([]agent.Block, error) {
	if strings.TrimSpace(m.Text) != "" {
		return []agent.Block{agent.Text(m.Text)}, nil
	}
	var file string
	switch {
	case len(m.Photo) > 0:
		best := -1
		for i, size := range m.Photo { // of the sizes that fit the largest
			if int64(size.FileSize) <= c.cfg.MaxImageBytes && (best < 0 || size.Width*size.Height > m.Photo[best].Width*m.Photo[best].Height) {
				best = i
			}
		}
		if best < 0 {
			return nil, tooBig(c.cfg.MaxImageBytes)
		}
		file = m.Photo[best].FileID
	case m.Document != nil && strings.HasPrefix(m.Document.MimeType, "image/") && m.Animation == nil:
		file = m.Document.FileID
	default:
		return nil, nil
	}
	data, err := c.api.download(ctx, file, c.cfg.MaxImageBytes)
	if err != nil {
		return nil, err
	}
	kind := http.DetectContentType(data)
	switch kind {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	default:
		return nil, nil
	}
	var blocks []agent.Block
	if strings.TrimSpace(m.Caption) != "" {
		blocks = append(blocks, agent.Text(m.Caption))
	}
	return append(blocks, agent.Block{Type: agent.BlockImage, Base64: base64.StdEncoding.EncodeToString(data), MIMEType: kind}), nil
}
