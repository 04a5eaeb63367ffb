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
	looks      = 4 // for a question, see lookUp
	lookAgain  = 300 * time.Millisecond
	maxArgs    = 3000 // units of arguments that are shown
	maxNote    = 600  // units of what a policy says about a call
)

// questionTitle begins every question.
const questionTitle = "Approval needed: "

// The outcome of pressing a button, as data of it: at most 64 bytes, so the approval is only checked against, and found by the message.
const (
	pressApprove = "approve"
	pressReject  = "reject"
)

func pressData(kind, approval string) string {
	sum := sha256.Sum256([]byte(approval))
	return kind + ":" + base64.RawURLEncoding.EncodeToString(sum[:16])
}

// questionText shows what is to be decided.
func questionText(a *agent.Approval) piece {
	var w writer
	w.write(questionTitle)
	from := w.at
	w.write(clipUnits(sanitize(a.ToolName), 200))
	w.mark(from, models.MessageEntity{Type: models.MessageEntityTypeBold})
	if note := clipUnits(strings.TrimSpace(sanitize(a.Description)), maxNote); note != "" {
		w.write("\n" + note)
	}
	args := pretty(a.Args)
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

func pretty(args json.RawMessage) string {
	var out bytes.Buffer
	if json.Indent(&out, args, "", "  ") != nil {
		return sanitize(string(args))
	}
	return sanitize(out.String())
}

// with adds words below a piece.
func (p piece) with(words string) piece {
	return piece{text: p.text + "\n\n" + sanitize(words), entities: p.entities}
}

// keyboard are buttons below a message. The library's own would say more of each button than it is.
type keyboard struct {
	Rows [][]key `json:"inline_keyboard"`
}

type key struct {
	Text string `json:"text"`
	Data string `json:"callback_data"`
}

// buttons are those of the decisions that a question allows; nil: none.
func buttons(a *agent.Approval) *keyboard {
	var row []key
	if allows(a.Allowed, agent.DecisionApprove) {
		row = append(row, key{"Approve", pressData(pressApprove, a.ApprovalID)})
	}
	if allows(a.Allowed, agent.DecisionReject) {
		row = append(row, key{"Reject", pressData(pressReject, a.ApprovalID)})
	}
	if len(row) == 0 {
		return nil
	}
	return &keyboard{Rows: [][]key{row}}
}

func allows(kinds []agent.DecisionKind, kind agent.DecisionKind) bool {
	return len(kinds) == 0 || slices.Contains(kinds, kind)
}

// press is a press of a button.
func (c *Channel) press(ctx context.Context, in agent.Inbox, q *models.CallbackQuery) error {
	chat, message := placeOf(q)
	kind, _, _ := strings.Cut(q.Data, ":")
	asked, err := c.lookUp(ctx, chat, message)
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound:
		c.reply200(ctx, q, sayOutOfDate)
		return nil
	case err != nil:
		return err
	}
	d := agent.Decision{ApprovalID: asked.ApprovalID}
	switch {
	case !same(q.Data, pressData(kind, asked.ApprovalID)):
		c.reply200(ctx, q, sayOutOfDate)
		return nil
	case kind == pressApprove:
		d.Decision = agent.DecisionApprove
	case kind == pressReject:
		d.Decision = agent.DecisionReject
	default: // the data of a button that we never made
		c.reply200(ctx, q, sayOutOfDate)
		return nil
	}
	words, err := c.decide(ctx, in, &asked, &q.From, d)
	if err != nil {
		return err
	}
	c.reply200(ctx, q, words)
	return nil
}

// lookUp finds what a message of ours asked. The message stands there a moment before it is on record.
func (c *Channel) lookUp(ctx context.Context, chat, message int64) (agent.ChatQuestion, error) {
	for look := 1; ; look++ {
		asked, err := c.cfg.Store.ChatQuestion(ctx, c.account, chatOf(chat), message)
		if agent.CodeOf(err) != agent.CodeNotFound || look == looks || !pause(ctx, lookAgain) {
			return asked, err
		}
	}
}

// placeOf says where the message with the button stands.
func placeOf(q *models.CallbackQuery) (chat, message int64) {
	switch {
	case q.Message.Message != nil:
		return q.Message.Message.Chat.ID, int64(q.Message.Message.ID)
	case q.Message.InaccessibleMessage != nil:
		return q.Message.InaccessibleMessage.Chat.ID, int64(q.Message.InaccessibleMessage.MessageID)
	default:
		return 0, 0
	}
}

// reply200 ends a press. Telegram forgets presses after a while: that it did is nothing to mend.
func (c *Channel) reply200(ctx context.Context, q *models.CallbackQuery, words string) {
	ctx, cancel := context.WithTimeout(ctx, decideTime)
	defer cancel()
	if err := insist(ctx, func() error { return c.api.answer(ctx, q.ID, words, false) }); err != nil {
		c.cfg.Logger.Debug("press not answered", zap.Error(err))
	}
}

// reply takes a reply to a question: its text answers in the tool's place. taken is false for a reply to anything else.
func (c *Channel) reply(ctx context.Context, in agent.Inbox, m *models.Message) (taken bool, err error) {
	to := m.ReplyToMessage
	if !c.own(to) || !strings.HasPrefix(to.Text, questionTitle) {
		return false, nil
	}
	asked, err := c.lookUp(ctx, m.Chat.ID, int64(to.ID))
	switch {
	case agent.CodeOf(err) == agent.CodeNotFound: // it was meant for the tool, and is no message to the agent
		c.say(ctx, m.Chat.ID, sayOutOfDate)
		return true, nil
	case err != nil:
		return true, err
	}
	c.metrics.updates.WithLabelValues("press").Inc()
	if !allows(asked.Allowed, agent.DecisionRespond) {
		c.say(ctx, m.Chat.ID, "This question cannot be answered with text: use its buttons.")
		return true, nil
	}
	words, err := c.decide(ctx, in, &asked, m.From, agent.Decision{
		ApprovalID: asked.ApprovalID, Decision: agent.DecisionRespond, Message: m.Text,
	})
	if err == nil && words != "" {
		c.say(ctx, m.Chat.ID, words)
	}
	return true, err
}

// decide hands a decision in, if the person may make it. words are the answer to him; an error says that trying again makes sense.
func (c *Channel) decide(ctx context.Context, in agent.Inbox, asked *agent.ChatQuestion, from *models.User, d agent.Decision) (words string, err error) {
	p, ok, err := c.decider(ctx, asked, from)
	if err != nil {
		return "", err
	}
	if !ok {
		c.record(&p, agent.ActionApprovalsDecide, "turn/"+string(asked.TurnID), agent.AuditDenied)
		return "This is not yours to decide.", nil
	}
	d.By = by(&p, from)
	bounded, cancel := context.WithTimeout(ctx, decideTime)
	defer cancel()
	err = in.Decide(bounded, asked.TurnID, d)
	switch agent.CodeOf(err) {
	case "":
		c.record(&p, agent.ActionApprovalsDecide, "turn/"+string(asked.TurnID), agent.AuditAllowed)
		return map[agent.DecisionKind]string{
			agent.DecisionApprove: "Approved.", agent.DecisionReject: "Rejected.", agent.DecisionRespond: "Answered.",
		}[d.Decision], nil
	case agent.CodeConflict:
		return "This is decided already, or the turn is over.", nil
	case agent.CodeNotFound:
		return "The turn is over.", nil
	case agent.CodeDenied, agent.CodeInvalid, agent.CodeOverflow:
		c.record(&p, agent.ActionApprovalsDecide, "turn/"+string(asked.TurnID), agent.AuditFailed)
		return "This decision is not allowed.", nil
	default:
		return "", err
	}
}

// decider says as whom a person decides: in the turn's own chat as its user, who must still be the one for whom the turn runs, and in the
// approvers' chat as himself. Without a link nobody decides, and what a link does not allow is refused in either.
func (c *Channel) decider(ctx context.Context, asked *agent.ChatQuestion, from *models.User) (p agent.Principal, ok bool, err error) {
	p, known, err := c.who(ctx, from.ID)
	if err != nil {
		return p, false, err
	}
	may := p.Tenant == asked.Tenant && p.May(agent.ActionApprovalsDecide, asked.Tool)
	if c.cfg.ApproverChat != 0 && asked.ChatID == strconv.FormatInt(c.cfg.ApproverChat, 10) {
		_, err := c.cfg.Store.ChatLink(ctx, chatOf(from.ID))
		if agent.CodeOf(err) == agent.CodeNotFound { // nobody that is known: a chat cannot shed what its link forbids by unlinking
			return p, false, nil
		}
		return p, may && err == nil, err
	}
	own := asked.ChatID == asked.Owner && strconv.FormatInt(from.ID, 10) == asked.Owner
	return p, own && known && may && p.Subject == asked.UserID, nil
}
