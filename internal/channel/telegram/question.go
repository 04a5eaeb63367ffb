package telegram

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// askQuestions asks for the approvals that were not asked for yet, and shows the decisions about others.
func (d *delivery) askQuestions(ctx context.Context) error {
	for _, id := range slices.Clone(d.questionOrder) {
		q := d.questions[id]
		if err := d.askQuestion(ctx, q); err != nil {
			return err
		}
		if q.approval.Decision != "" {
			d.dropQuestion(id)
		}
	}
	return nil
}

func (d *delivery) dropQuestion(id string) {
	delete(d.questions, id)
	d.questionOrder = slices.DeleteFunc(d.questionOrder, func(other string) bool { return other == id })
}

// askQuestion asks a question, or shows its decision if it has one.
func (d *delivery) askQuestion(ctx context.Context, q *question) error {
	switch {
	case q.approval.ApprovalID == "": // an earlier process asked it, and its event has not been read yet
		return nil
	case q.approval.Decision != "":
		return d.closeQuestion(ctx, q, decisionText(&q.approval))
	case q.isAsked:
		return nil
	}
	if err := d.sendQuestion(ctx, q, d.chat); err != nil {
		return err
	}
	if approvers := d.c.cfg.ApproverChat; approvers != 0 && approvers != d.chat {
		if err := d.sendQuestion(ctx, q, approvers); err != nil {
			if agent.CodeOf(err) != agent.CodeDenied {
				return err
			}
			d.logger.Error("the approvers' chat has blocked the bot", zap.Error(err))
		}
	}
	q.isAsked = true
	return nil
}

// sendQuestion asks a chat a question, unless it was asked already. The question has buttons if the chat may decide.
func (d *delivery) sendQuestion(ctx context.Context, q *question, chat int64) error {
	to := chatOf(chat)
	if i := slices.IndexFunc(q.messages, func(m agent.ChatQuestion) bool { return m.Chat == to }); i >= 0 {
		return d.c.cfg.Store.AskChat(ctx, q.messages[i]) // recording it may have failed
	}
	mayDecide, err := d.mayDecide(ctx, q, chat)
	if err != nil {
		return err
	}
	text, buttons := questionText(&q.approval), (*keyboard)(nil)
	if !mayDecide {
		text = text.withText("Somebody else has to decide this.")
	} else {
		buttons = decisionButtons(&q.approval)
		if isAllowed(q.approval.Allowed, agent.DecisionRespond) {
			text = text.withText("Reply to this message to answer in the tool's place.")
		}
	}
	id, err := d.c.api.send(ctx, chat, text, buttons)
	if err != nil {
		return err
	}
	m := agent.ChatQuestion{
		Chat: to, Account: d.c.account, MessageID: id, TurnID: d.turn.TurnID, ApprovalID: q.approval.ApprovalID, Tool: q.approval.ToolName,
		Owner: d.turn.ChatID, Tenant: d.turn.Tenant, UserID: d.turn.UserID, Allowed: q.approval.Allowed,
	}
	q.messages = append(q.messages, m)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout) // the message is sent, so it must be recorded even if ctx ends
	defer cancel()
	return d.c.cfg.Store.AskChat(ctx, m)
}

// mayDecide reports whether a question has buttons in a chat: always in the approvers' chat, and in the turn's own chat if its user may decide.
func (d *delivery) mayDecide(ctx context.Context, q *question, chat int64) (bool, error) {
	if chat != d.chat {
		return true, nil
	}
	p, ok, err := d.c.principal(ctx, chat)
	if err != nil {
		return false, err
	}
	isTurnsUser := ok && p.Tenant == d.turn.Tenant && p.Subject == d.turn.UserID
	return isTurnsUser && p.May(agent.ActionApprovalsDecide, q.approval.ToolName), nil
}

// decisionText returns a text that says who decided what.
func decisionText(a *agent.Approval) string {
	text := map[agent.DecisionKind]string{
		agent.DecisionApprove: "Approved", agent.DecisionEdit: "Approved with other arguments", agent.DecisionReject: "Rejected",
		agent.DecisionRespond: "Answered",
	}[a.Decision]
	if a.By == agent.ExpiredBy {
		return "Nobody decided in time: " + text
	}
	if a.By != "" {
		text += " by " + clipUnits(a.By, 200)
	}
	return text
}

// closeQuestion adds the outcome to the messages of a question and removes their buttons.
func (d *delivery) closeQuestion(ctx context.Context, q *question, outcome string) error {
	for len(q.messages) > 0 {
		m := q.messages[0]
		chat, text := d.chat, questionText(&q.approval).withText(outcome)
		if m.ChatID != d.turn.ChatID {
			chat = d.c.cfg.ApproverChat
		}
		if m.Chat == chatOf(chat) {
			if err := d.c.api.edit(ctx, chat, m.MessageID, text, nil); err != nil && !isPermanent(err) {
				return err
			}
		}
		q.messages = q.messages[1:]
	}
	return nil
}

// closeQuestions closes all questions at the end of the turn.
func (d *delivery) closeQuestions(ctx context.Context) error {
	for _, id := range slices.Clone(d.questionOrder) {
		q := d.questions[id]
		outcome := "The turn is over."
		if q.approval.Decision != "" {
			outcome = decisionText(&q.approval)
		}
		if q.approval.ApprovalID != "" {
			if err := d.retry(ctx, func() error { return d.closeQuestion(ctx, q, outcome) }); err != nil && !isPermanent(err) {
				return err
			}
		}
		d.dropQuestion(id)
	}
	return nil
}
