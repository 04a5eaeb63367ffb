package telegram

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const submitTime = 30 * time.Second // to submit one message

// Texts of the bot itself.
const (
	textNotLinked = "I do not know you yet. Ask whoever runs this service for a link, or for a code, and send it to me: /link CODE"
	textNotNow    = "Something went wrong and I could not take this. Please send it again later."
	textOnlyText  = "I can read text and pictures only."
	textGroups    = "I only talk in private chats. Please write to me there."
	textTooMuch   = "That is too much at once. Please try again in a while."
	textTooLarge  = "That is too large for me."
	textOutOfDate = "This question is out of date."
)

// handleUpdate handles one update. An error means that the same update may succeed later.
func (c *Channel) handleUpdate(ctx context.Context, u *models.Update) error {
	in := c.inbox.Load()
	if in == nil {
		return agent.Errorf(agent.CodeUnavailable, "", "%w", errClosed)
	}
	switch {
	case u.CallbackQuery != nil:
		c.metrics.updates.WithLabelValues("press").Inc()
		return c.handlePress(ctx, *in, u.CallbackQuery)
	case u.Message != nil:
		return c.handleMessage(ctx, *in, u.ID, u.Message)
	default:
		c.metrics.updates.WithLabelValues("other").Inc()
		return nil
	}
}

// sendApology answers an update that was given up.
func (c *Channel) sendApology(ctx context.Context, u *models.Update) {
	if u.Message != nil && u.Message.Chat.Type == models.ChatTypePrivate {
		c.sendText(ctx, u.Message.Chat.ID, textNotNow)
	}
}

func (c *Channel) handleMessage(ctx context.Context, in agent.Inbox, update int64, m *models.Message) error {
	if m.From == nil || m.From.IsBot {
		return nil
	}
	if m.Chat.Type != models.ChatTypePrivate {
		return c.handleGroupMessage(ctx, in, m)
	}
	if m.ReplyToMessage != nil && m.Text != "" {
		if taken, err := c.handleReply(ctx, in, m); taken || err != nil {
			return err
		}
	}
	if strings.HasPrefix(m.Text, "/") {
		c.metrics.updates.WithLabelValues("command").Inc()
		return c.runCommand(ctx, in, m)
	}
	c.metrics.updates.WithLabelValues("message").Inc()
	return c.submitTurn(ctx, in, update, m)
}

// handleGroupMessage refuses messages to the bot in groups, where everybody would act as the user that the group is linked to. In the approvers'
// group a reply may answer a question.
func (c *Channel) handleGroupMessage(ctx context.Context, in agent.Inbox, m *models.Message) error {
	if m.Chat.ID == c.cfg.ApproverChat && m.ReplyToMessage != nil && m.Text != "" {
		if taken, err := c.handleReply(ctx, in, m); taken || err != nil {
			return err
		}
	}
	if c.isFromBot(m.ReplyToMessage) || (c.botName() != "" && strings.Contains(strings.ToLower(m.Text+" "+m.Caption), "@"+strings.ToLower(c.botName()))) {
		c.sendText(ctx, m.Chat.ID, textGroups)
	}
	return nil
}

// isFromBot reports whether the bot wrote a message.
func (c *Channel) isFromBot(m *models.Message) bool {
	return m != nil && m.From != nil && strconv.FormatInt(m.From.ID, 10) == c.account
}

// principal returns the principal of a private chat; ok is false if the chat may not talk to the bot.
func (c *Channel) principal(ctx context.Context, chat int64) (p agent.Principal, ok bool, err error) {
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

// sessionID returns the session of a chat's current conversation.
func (c *Channel) sessionID(ctx context.Context, chat int64) (agent.SessionID, error) {
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

// submitTurn submits a message as a turn.
func (c *Channel) submitTurn(ctx context.Context, in agent.Inbox, update int64, m *models.Message) error {
	chat := m.Chat.ID
	p, ok, err := c.principal(ctx, chat)
	switch {
	case err != nil:
		return err
	case !ok:
		c.sendText(ctx, chat, textNotLinked)
		return nil
	}
	blocks, err := c.messageBlocks(ctx, m)
	if err != nil || len(blocks) == 0 {
		return c.explainUnreadable(ctx, chat, err)
	}
	session, err := c.sessionID(ctx, chat)
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
		return c.explainRefusal(ctx, bounded, chat, err)
	}
	return c.answers.owe(ctx, agent.ChatTurn{
		Chat: chatOf(chat), Account: c.account, TurnID: receipt.TurnID, Tenant: p.Tenant, UserID: p.Subject,
	})
}

// senderOf returns the name of a person of Telegram.
func senderOf(u *models.User) string { return Name + "/" + strconv.FormatInt(u.ID, 10) }

// explainRefusal tells a person why a message was refused. It returns the error if a retry may help instead.
func (c *Channel) explainRefusal(ctx, bounded context.Context, chat int64, err error) error {
	if late := agent.Interrupted(bounded, "submit message"); late != nil {
		return late
	}
	var text string
	switch agent.CodeOf(err) {
	case agent.CodeUnavailable, agent.CodeInternal, agent.CodeCancelled, agent.CodeNotFound:
		return err
	case agent.CodeRateLimited:
		text = textTooMuch
		if wait := retryAfter(err); wait > 0 {
			text = fmt.Sprintf("That is too much at once. Please try again in %s.", roughDuration(wait))
		}
	case agent.CodeOverflow:
		text = textTooLarge
	case agent.CodeDenied, agent.CodeUnauthenticated:
		text = "You may not do that."
	default:
		text = "I cannot take this message."
	}
	c.cfg.Logger.Info("message refused", zap.Int64("chat", chat), zap.Error(err))
	c.sendText(ctx, chat, text)
	return nil
}

func roughDuration(d time.Duration) string {
	switch {
	case d <= time.Minute:
		return fmt.Sprintf("%d seconds", max(1, int(d.Round(time.Second)/time.Second)))
	case d <= 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Round(time.Minute)/time.Minute))
	default:
		return fmt.Sprintf("%d hours", int(d.Round(time.Hour)/time.Hour))
	}
}

// explainUnreadable tells a person why a message could not be read. It returns the error if a retry may help instead.
func (c *Channel) explainUnreadable(ctx context.Context, chat int64, err error) error {
	switch {
	case err == nil:
		c.sendText(ctx, chat, textOnlyText)
	case agent.CodeOf(err) == agent.CodeOverflow:
		c.sendText(ctx, chat, textTooLarge)
	case isPermanent(err):
		c.sendText(ctx, chat, "I could not read this file.")
	default:
		return err
	}
	return nil
}

// messageBlocks returns the text of a message, or its picture and caption; nothing for messages of other kinds.
func (c *Channel) messageBlocks(ctx context.Context, m *models.Message) ([]agent.Block, error) {
	if strings.TrimSpace(m.Text) != "" {
		return []agent.Block{agent.Text(m.Text)}, nil
	}
	var file string
	switch {
	case len(m.Photo) > 0:
		best := -1
		for i, size := range m.Photo { // choose the largest size that is allowed
			if int64(size.FileSize) <= c.cfg.MaxImageBytes && (best < 0 || size.Width*size.Height > m.Photo[best].Width*m.Photo[best].Height) {
				best = i
			}
		}
		if best < 0 {
			return nil, fileTooLarge(c.cfg.MaxImageBytes)
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
