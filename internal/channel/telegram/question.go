package telegram

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// ask puts the questions that have come, and shows how others were decided. What was decided before anybody was asked is no question.
func (d *delivery) ask(ctx context.Context) error {
	for _, id := range slices.Clone(d.asked) {
		q := d.questions[id]
		if err := d.askOne(ctx, q); err != nil {
			return err
		}
		if q.approval.Decision != "" {
			d.forget(id)
		}
	}
	return nil
}

func (d *delivery) forget(id string) {
	delete(d.questions, id)
	d.asked = slices.DeleteFunc(d.asked, func(other string) bool { return other == id })
}

func (d *delivery) askOne(ctx context.Context, q *question) error {
	switch {
	case q.approval.ApprovalID == "": // put by an earlier process; its event comes
		return nil
	case q.approval.Decision != "":
		return d.resolve(ctx, q, decided(&q.approval))
	case q.put:
		return nil
	}
	if err := d.putQuestion(ctx, q, d.chat); err != nil {
		return err
	}
	if approvers := d.c.cfg.ApproverChat; approvers != 0 && approvers != d.chat {
		if err := d.putQuestion(ctx, q, approvers); err != nil {
			if agent.CodeOf(err) != agent.CodeDenied {
				return err
			}
			d.logger.Error("the approvers' chat does not want to hear from the bot", zap.Error(err))
		}
	}
	q.put = true
	return nil
}

// putQuestion puts a question to a chat, once. In the turn's own chat it has buttons only if its user may decide.
func (d *delivery) putQuestion(ctx context.Context, q *question, chat int64) error {
	at := chatOf(chat)
	if i := slices.IndexFunc(q.messages, func(m agent.ChatQuestion) bool { return m.Chat == at }); i >= 0 {
		return d.c.cfg.Store.AskChat(ctx, q.messages[i]) // again: the first time may have gone wrong
	}
	may := chat != d.chat
	if !may {
		p, ok, err := d.c.who(ctx, chat)
		if err != nil {
			return err
		}
		may = ok && p.Tenant == d.turn.Tenant && p.Subject == d.turn.UserID && p.May(agent.ActionApprovalsDecide, q.approval.ToolName)
	}
	text, keys := questionText(&q.approval), (*keyboard)(nil)
	switch {
	case !may:
		text = text.with("Somebody else has to decide this.")
	default:
		keys = buttons(&q.approval)
		if allows(q.approval.Allowed, agent.DecisionRespond) {
			text = text.with("Reply to this message to answer in the tool's place.")
		}
	}
	id, err := d.c.api.send(ctx, chat, text, keys)
	if err != nil {
		return err
	}
	m := agent.ChatQuestion{
		Chat: at, Account: d.c.account, MessageID: id, TurnID: d.turn.TurnID, ApprovalID: q.approval.ApprovalID, Tool: q.approval.ToolName,
		Owner: d.turn.ChatID, Tenant: d.turn.Tenant, UserID: d.turn.UserID, Allowed: q.approval.Allowed,
	}
	q.messages = append(q.messages, m)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime) // it stands there now, whoever ends
	defer cancel()
	return d.c.cfg.Store.AskChat(ctx, m)
}

// decided says who decided what.
func decided(a *agent.Approval) string {
	words := map[agent.DecisionKind]string{
		agent.DecisionApprove: "Approved", agent.DecisionEdit: "Approved with other arguments", agent.DecisionReject: "Rejected",
		agent.DecisionRespond: "Answered",
	}[a.Decision]
	if a.By == agent.ExpiredBy {
		return "Nobody decided in time: " + words
	}
	if a.By != "" {
		words += " by " + clipUnits(a.By, 200)
	}
	return words
}

// resolve makes the messages of a question say what became of it; without buttons.
func (d *delivery) resolve(ctx context.Context, q *question, words string) error {
	for len(q.messages) > 0 {
		m := q.messages[0]
		chat, text := d.chat, questionText(&q.approval).with(words)
		if m.ChatID != d.turn.ChatID {
			chat = d.c.cfg.ApproverChat
		}
		if m.Chat == chatOf(chat) {
			if err := d.c.api.edit(ctx, chat, m.MessageID, text, nil); err != nil && !rejected(err) {
				return err
			}
		}
		q.messages = q.messages[1:]
	}
	return nil
}

// closeQuestions is for the end of a turn: nothing can be decided any more.
func (d *delivery) closeQuestions(ctx context.Context) error {
	for _, id := range slices.Clone(d.asked) {
		q := d.questions[id]
		words := "The turn is over."
		if q.approval.Decision != "" {
			words = decided(&q.approval)
		}
		if q.approval.ApprovalID != "" {
			if err := d.insist(ctx, func() error { return d.resolve(ctx, q, words) }); err != nil && !rejected(err) {
				return err
			}
		}
		d.forget(id)
	}
	return nil
}
