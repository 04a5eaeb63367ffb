package telegram

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	decideTime = 20 * time.Second
	findTries  = 4 // see findQuestion
	findPause  = 300 * time.Millisecond
	maxArgs    = 3000 // units of arguments that are shown
	maxNote    = 600  // units of the description of a call
)

// questionTitle begins every question.
const questionTitle = "Approval needed: "

// The first part of a button's data. With at most 64 bytes the data cannot name the approval: the message does, and the data holds a hash to check.
const (
	pressApprove = "approve"
	pressReject  = "reject"
)

func pressData(kind, approval string) string {
	sum := sha256.Sum256([]byte(approval))
	return kind + ":" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// questionText returns the text of a question.
func questionText(a *agent.Approval) piece {
	var w writer
	w.write(questionTitle)
	from := w.at
	w.write(clipUnits(sanitize(a.ToolName), 200))
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypeBold})
	if note := clipUnits(strings.TrimSpace(sanitize(a.Description)), maxNote); note != "" {
		w.write("\n" + note)
	}
	args := indentJSON(a.Args)
	shown := clipUnits(args, maxArgs)
	w.write("\n\n")
	from = w.at
	w.write(shown)
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypePre, Language: "json"})
	if shown != args {
		w.write(fmt.Sprintf("\n\nThese are not all arguments: %d more characters do not fit here. See starter approvals list.", units(args)-units(shown)))
	}
	if a.ExpiresAt != nil {
		w.write("\n\nUntil " + a.ExpiresAt.UTC().Format("2006-01-02 15:04 MST"))
	}
	return w.piece()
}

func indentJSON(args json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, args, "", "  ") != nil {
		return sanitize(string(args))
	}
	return sanitize(out.String())
}

// withText returns p with a text below it.
func (p piece) withText(text string) piece {
	return piece{text: p.text + "\n\n" + sanitize(text), entities: p.entities}
}

// keyboard is the buttons below a message. The library's type would send empty fields of each button.
type keyboard struct {
	Rows [][]key `json:"inline_keyboard"`
}

type key struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// decisionButtons returns a button for each decision that a question allows, or nil.
func decisionButtons(a *agent.Approval) *keyboard {
	var row []key
	if isAllowed(a.Allowed, agent.DecisionApprove) {
		row = append(row, key{"Approve", pressData(pressApprove, a.ApprovalID)})
	}
	if isAllowed(a.Allowed, agent.DecisionReject) {
		row = append(row, key{"Reject", pressData(pressReject, a.ApprovalID)})
	}
	if len(row) == 0 {
		return nil
	}
	return &keyboard{Rows: [][]key{row}}
}

func isAllowed(kinds []agent.DecisionKind, kind agent.DecisionKind) bool {
	return len(kinds) == 0 || slices.Contains(kinds, kind)
}

// handlePress handles the press of a button.
func (c *Channel) handlePress(ctx context.Context, in agent.Inbox, q *models.CallbackQuery) error {
	chat, message := pressedMessage(q)
	kind, _, _ := strings.Cut(q.Data, ":")
	asked, err := c.findQuestion(ctx, chat, message)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		c.answerPress(ctx, q, textOutOfDate)
		return nil
	case err != nil:
		return err
	}
	d := agent.Decision{ApprovalID: asked.ApprovalID}
	switch {
	case !equalSecrets(q.Data, pressData(kind, asked.ApprovalID)):
		c.answerPress(ctx, q, textOutOfDate)
		return nil
	case kind == pressApprove:
		d.Decision = agent.DecisionApprove
	case kind == pressReject:
		d.Decision = agent.DecisionReject
	default: // not the data of one of our buttons
		c.answerPress(ctx, q, textOutOfDate)
		return nil
	}
	text, err := c.decide(ctx, in, &asked, &q.From, d)
	if err != nil {
		return err
	}
	c.answerPress(ctx, q, text)
	return nil
}

// findQuestion returns the question of a message of ours. It tries again, because a message is sent a moment before it is recorded.
func (c *Channel) findQuestion(ctx context.Context, chat, message int64) (agent.ChatQuestion, error) {
	for try := 1; ; try++ {
		asked, err := c.cfg.Store.ChatQuestion(ctx, c.account, chatOf(chat), message)
		if agent.CodeOf(err) != agent.CodeNotFound || try == findTries || !pause(ctx, findPause) {
			return asked, err
		}
	}
}

// pressedMessage returns the message with the button.
func pressedMessage(q *models.CallbackQuery) (chat, message int64) {
	switch {
	case q.Message.Message != nil:
		return q.Message.Message.Chat.ID, int64(q.Message.Message.ID)
	case q.Message.InaccessibleMessage != nil:
		return q.Message.InaccessibleMessage.Chat.ID, int64(q.Message.InaccessibleMessage.MessageID)
	default:
		return 0, 0
	}
}

// answerPress ends a press. It logs errors only: Telegram forgets presses after a while.
func (c *Channel) answerPress(ctx context.Context, q *models.CallbackQuery, text string) {
	ctx, cancel := context.WithTimeout(ctx, decideTime)
	defer cancel()
	if err := retry(ctx, func() error { return c.api.answerPress(ctx, q.ID, text, false) }); err != nil {
		c.cfg.Logger.Debug("press not answered", zap.Error(err))
	}
}

// handleReply handles a reply to a question: its text answers in place of the tool. isAnswer is false for a reply to anything else.
func (c *Channel) handleReply(ctx context.Context, in agent.Inbox, m *models.Message) (isAnswer bool, err error) {
	to := m.ReplyToMessage
	if !c.isFromBot(to) || !strings.HasPrefix(to.Text, questionTitle) {
		return false, nil
	}
	asked, err := c.findQuestion(ctx, m.Chat.ID, int64(to.ID))
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound: // it answers a question, so it is no message to the agent
		c.sendText(ctx, m.Chat.ID, textOutOfDate)
		return true, nil
	case err != nil:
		return true, err
	}
	c.metrics.updates.WithLabelValues("press").Inc()
	if !isAllowed(asked.Allowed, agent.DecisionRespond) {
		c.sendText(ctx, m.Chat.ID, "This question cannot be answered with text: use its buttons.")
		return true, nil
	}
	text, err := c.decide(ctx, in, &asked, m.From, agent.Decision{
		ApprovalID: asked.ApprovalID, Decision: agent.DecisionRespond, Message: m.Text,
	})
	if err == nil && text != "" {
		c.sendText(ctx, m.Chat.ID, text)
	}
	return true, err
}

// decide submits a decision if the person may make it, and returns the text to answer. An error means that a retry may help.
func (c *Channel) decide(ctx context.Context, in agent.Inbox, asked *agent.ChatQuestion, from *models.User, d agent.Decision) (text string, err error) {
	p, ok, err := c.decidingPrincipal(ctx, asked, from)
	if err != nil {
		return "", err
	}
	if !ok {
		c.recordAudit(&p, agent.ActionApprovalsDecide, "turn/"+string(asked.TurnID), agent.AuditDenied)
		return "This is not yours to decide.", nil
	}
	d.By = actorName(&p, from)
	bounded, cancel := context.WithTimeout(ctx, decideTime)
	defer cancel()
	err = in.Decide(bounded, asked.TurnID, d)
	switch agent.CodeOf(err) {
	case "":
		c.recordAudit(&p, agent.ActionApprovalsDecide, "turn/"+string(asked.TurnID), agent.AuditAllowed)
		return map[agent.DecisionKind]string{
			agent.DecisionApprove: "Approved.", agent.DecisionReject: "Rejected.", agent.DecisionRespond: "Answered.",
		}[d.Decision], nil
	case agent.CodeConflict:
		return "This is decided already, or the turn is over.", nil
	case agent.CodeNotFound:
		return "The turn is over.", nil
	case agent.CodeDenied, agent.CodeInvalid, agent.CodeOverflow:
		c.recordAudit(&p, agent.ActionApprovalsDecide, "turn/"+string(asked.TurnID), agent.AuditFailed)
		return "This decision is not allowed.", nil
	default:
		return "", err
	}
}

// decidingPrincipal returns the principal as which a person decides, and whether they may. In the turn's own chat that is the user of the turn, who
// must still be linked to the chat. In the approvers' chat it is the person's own user. Nobody decides without a link, or beyond its scopes.
func (c *Channel) decidingPrincipal(ctx context.Context, asked *agent.ChatQuestion, from *models.User) (p agent.Principal, ok bool, err error) {
	p, isLinked, err := c.principal(ctx, from.ID)
	if err != nil {
		return p, false, err
	}
	may := p.Tenant == asked.Tenant && p.May(agent.ActionApprovalsDecide, asked.Tool)
	if c.cfg.ApproverChat != 0 && asked.ChatID == strconv.FormatInt(c.cfg.ApproverChat, 10) {
		_, err := c.cfg.Store.ChatLink(ctx, chatOf(from.ID))
		if agent.CodeOf(err) == agent.CodeNotFound { // not linked: unlinking a chat must not lift the limits of its link
			return p, false, nil
		}
		return p, may && err == nil, err
	}
	isOwner := asked.ChatID == asked.Owner && strconv.FormatInt(from.ID, 10) == asked.Owner
	return p, isOwner && isLinked && may && p.Subject == asked.UserID, nil
}
