package telegram

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const submitTimeout = 30 * time.Second

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
		return agent.Errorf(agent.CodeUnavailable, "", "%w", errNotServing)
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

// sendApology answers an update that could not be handled.
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
		if isAnswer, err := c.handleReply(ctx, in, m); isAnswer || err != nil {
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
// group, a reply may answer a question.
func (c *Channel) handleGroupMessage(ctx context.Context, in agent.Inbox, m *models.Message) error {
	if m.Chat.ID == c.cfg.ApproverChat && m.ReplyToMessage != nil && m.Text != "" {
		if isAnswer, err := c.handleReply(ctx, in, m); isAnswer || err != nil {
			return err
		}
	}
	if c.isFromBot(m.ReplyToMessage) || c.mentionsBot(m) {
		c.sendText(ctx, m.Chat.ID, textGroups)
	}
	return nil
}

// mentionsBot reports whether a message contains the bot's @username.
func (c *Channel) mentionsBot(m *models.Message) bool {
	name := c.botName()
	return name != "" && strings.Contains(strings.ToLower(m.Text+" "+m.Caption), "@"+strings.ToLower(name))
}

// isFromBot reports whether the bot wrote a message.
func (c *Channel) isFromBot(m *models.Message) bool {
	return m != nil && m.From != nil && strconv.FormatInt(m.From.ID, 10) == c.account
}

// requirePrincipal returns the principal of a private chat. If the chat may not talk to the bot, it tells the chat so, and ok is false. ok is also
// false after an error.
func (c *Channel) requirePrincipal(ctx context.Context, chat int64) (p agent.Principal, ok bool, err error) {
	p, ok, err = c.principal(ctx, chat)
	if err == nil && !ok {
		c.sendText(ctx, chat, textNotLinked)
	}
	return p, ok, err
}

// principal returns the principal of a private chat. ok is false if the chat may not talk to the bot, and after an error.
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
	p, ok, err := c.requirePrincipal(ctx, chat)
	if !ok {
		return err
	}
	blocks, err := c.messageBlocks(ctx, m)
	if err != nil || len(blocks) == 0 {
		return c.explainUnreadable(ctx, chat, err)
	}
	session, err := c.sessionID(ctx, chat)
	if err != nil {
		return err
	}
	request := agent.TurnRequest{
		Agent: c.cfg.Agent, SessionID: session, Channel: Name, OnBusy: agent.OnBusyQueue, Approvals: c.cfg.Approvals,
		Context:        agent.InvocationContext{Tenant: p.Tenant, UserID: p.Subject, UserRole: p.Role, Metadata: messageMetadata(m)},
		IdempotencyKey: fmt.Sprintf("%s/%s/%d", Name, c.account, update),
	}
	if len(blocks) == 1 && blocks[0].Type == agent.BlockText {
		request.Message = blocks[0].Text
	} else {
		request.Messages = []agent.Message{{Role: agent.RoleUser, Blocks: blocks}}
	}
	bounded, cancel := context.WithTimeout(ctx, submitTimeout)
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

// messageMetadata returns the metadata of a message's turn.
func messageMetadata(m *models.Message) map[string]any {
	metadata := map[string]any{
		"chat_id": strconv.FormatInt(m.Chat.ID, 10), "chat_type": string(m.Chat.Type), "message_id": strconv.Itoa(m.ID),
	}
	for key, value := range map[string]string{"username": m.From.Username, "language": m.From.LanguageCode} {
		if value != "" {
			metadata[key] = value
		}
	}
	return metadata
}

// senderOf returns the name of a Telegram user in envelopes and audit records.
func senderOf(u *models.User) string { return Name + "/" + strconv.FormatInt(u.ID, 10) }

// explainRefusal tells a person why a message was refused. If a retry may help, it returns an error instead. bounded is the context of the refused call.
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

// roughDuration returns a duration in whole seconds, minutes or hours.
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

// explainUnreadable tells a person why a message could not be read. If a retry may help, it returns err instead.
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

// messageBlocks returns the text of a message, or its picture and caption. It returns nothing for messages of other kinds.
func (c *Channel) messageBlocks(ctx context.Context, m *models.Message) ([]agent.Block, error) {
	if strings.TrimSpace(m.Text) != "" {
		return []agent.Block{agent.Text(m.Text)}, nil
	}
	file, err := c.imageFile(m)
	if err != nil || file == "" {
		return nil, err
	}
	data, err := c.api.download(ctx, file, c.cfg.MaxImageBytes)
	if err != nil {
		return nil, err
	}
	mimeType := http.DetectContentType(data)
	switch mimeType {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
	default:
		return nil, nil
	}
	var blocks []agent.Block
	if strings.TrimSpace(m.Caption) != "" {
		blocks = append(blocks, agent.Text(m.Caption))
	}
	return append(blocks, agent.Block{Type: agent.BlockImage, Base64: base64.StdEncoding.EncodeToString(data), MIMEType: mimeType}), nil
}

// imageFile returns the id of a message's picture in the largest size that is allowed, or "" if the message has no picture.
func (c *Channel) imageFile(m *models.Message) (string, error) {
	if len(m.Photo) == 0 {
		if m.Document != nil && strings.HasPrefix(m.Document.MimeType, "image/") && m.Animation == nil {
			return m.Document.FileID, nil
		}
		return "", nil
	}
	allowed := slices.DeleteFunc(slices.Clone(m.Photo), func(p models.PhotoSize) bool { return int64(p.FileSize) > c.cfg.MaxImageBytes })
	if len(allowed) == 0 {
		return "", fileTooLarge(c.cfg.MaxImageBytes)
	}
	largest := slices.MaxFunc(allowed, func(a, b models.PhotoSize) int { return a.Width*a.Height - b.Width*b.Height })
	return largest.FileID, nil
}
