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
	decideTimeout       = 20 * time.Second
	findTries           = 4 // see findQuestion
	findPause           = 300 * time.Millisecond
	maxArgsUnits        = 3000 // of the arguments that are shown
	maxDescriptionUnits = 600
)

// questionTitle begins every question.
const questionTitle = "Approval needed: "

// Kinds of buttons.
const (
	pressApprove = "approve"
	pressReject  = "reject"
)

// pressData returns the data of a button. It has room for 64 bytes, too few for the id of an approval. So it has a hash, which is checked against
// the approval of the button's message.
func pressData(kind, approvalID string) string {
	sum := sha256.Sum256([]byte(approvalID))
	return kind + ":" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// questionText returns the text that asks for an approval.
func questionText(a *agent.Approval) piece {
	var w writer
	w.write(questionTitle)
	from := w.units
	w.write(clipUnits(sanitize(a.ToolName), 200))
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypeBold})
	if description := clipUnits(strings.TrimSpace(sanitize(a.Description)), maxDescriptionUnits); description != "" {
		w.write("\n" + description)
	}
	args := indentJSON(a.Args)
	shown := clipUnits(args, maxArgsUnits)
	w.write("\n\n")
	from = w.units
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

// indentJSON returns args with indentation, or unchanged if they are not JSON.
func indentJSON(args json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, args, "", "  ") != nil {
		return sanitize(string(args))
	}
	return sanitize(out.String())
}

// withText returns p with text below it.
func (p piece) withText(text string) piece {
	return piece{text: p.text + "\n\n" + sanitize(text), entities: p.entities}
}

// keyboard holds the buttons below a message. The library's type would also send the empty fields of each button.
type keyboard struct {
	Rows [][]key `json:"inline_keyboard"`
}

type key struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// decisionButtons returns the buttons for the decisions that an approval allows, or nil if it allows neither.
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
	asked, err := c.findQuestion(ctx, chat, message)
	if err != nil && agent.CodeOf(err) != agent.CodeNotFound {
		return err
	}
	text := textOutOfDate
	if d, ok := pressedDecision(q.Data, asked.ApprovalID); ok && err == nil {
		if text, err = c.decide(ctx, in, &asked, &q.From, d); err != nil {
			return err
		}
	}
	c.answerPress(ctx, q, text)
	return nil
}

// pressedDecision returns the decision of a button. ok is false if data is not that of a button for the approval.
func pressedDecision(data, approvalID string) (d agent.Decision, ok bool) {
	switch {
	case equalSecrets(data, pressData(pressApprove, approvalID)):
		return agent.Decision{ApprovalID: approvalID, Decision: agent.DecisionApprove}, true
	case equalSecrets(data, pressData(pressReject, approvalID)):
		return agent.Decision{ApprovalID: approvalID, Decision: agent.DecisionReject}, true
	default:
		return d, false
	}
}

// findQuestion returns the question that one of the bot's messages asks. It tries several times, because a message is sent a moment before it is
// recorded.
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

// answerPress shows a text to the person who pressed a button. An error is only logged: Telegram accepts no answer to an old press.
func (c *Channel) answerPress(ctx context.Context, q *models.CallbackQuery, text string) {
	ctx, cancel := context.WithTimeout(ctx, decideTimeout)
	defer cancel()
	if err := retry(ctx, func() error { return c.api.answerPress(ctx, q.ID, text) }); err != nil {
		c.cfg.Logger.Debug("press not answered", zap.Error(err))
	}
}

// handleReply handles a reply to a question, whose text becomes the tool's result. isAnswer is false if the message replies to anything else.
func (c *Channel) handleReply(ctx context.Context, in agent.Inbox, m *models.Message) (isAnswer bool, err error) {
	to := m.ReplyToMessage
	if !c.isFromBot(to) || !strings.HasPrefix(to.Text, questionTitle) {
		return false, nil
	}
	asked, err := c.findQuestion(ctx, m.Chat.ID, int64(to.ID))
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound: // it answers an old question, so it is not a message to the agent
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

// decide submits a decision if the person may make it, and returns the text to show to the person. After an error, a retry may help.
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
	bounded, cancel := context.WithTimeout(ctx, decideTimeout)
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

// decidingPrincipal returns the principal of a person who answers a question, and whether it may decide. It needs a link whose scopes allow the
// decision. In the turn's own chat, only the user of the turn may decide; in the approvers' chat, any user of the turn's tenant may.
func (c *Channel) decidingPrincipal(ctx context.Context, asked *agent.ChatQuestion, from *models.User) (p agent.Principal, ok bool, err error) {
	p, isLinked, err := c.principal(ctx, from.ID)
	if err != nil {
		return p, false, err
	}
	may := p.Tenant == asked.Tenant && p.May(agent.ActionApprovalsDecide, asked.Tool)
	if c.cfg.ApproverChat != 0 && asked.ChatID == strconv.FormatInt(c.cfg.ApproverChat, 10) {
		_, err := c.cfg.Store.ChatLink(ctx, chatOf(from.ID))
		if agent.CodeOf(err) == agent.CodeNotFound { // a guest has no link whose scopes would restrict it
			return p, false, nil
		}
		return p, may && err == nil, err
	}
	isOwner := asked.ChatID == asked.Owner && strconv.FormatInt(from.ID, 10) == asked.Owner
	return p, isOwner && isLinked && may && p.Subject == asked.UserID, nil
}
