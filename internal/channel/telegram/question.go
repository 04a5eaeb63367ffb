package telegram

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

// askQuestions asks the new questions and shows how others were decided. An approval that was decided before it was asked is no question.
func (d *delivery) askQuestions(ctx context.Context) error {
	for _, id := range slices.Clone(d.order) {
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
	d.order = slices.DeleteFunc(d.order, func(other string) bool { return other == id })
}

func (d *delivery) askQuestion(ctx context.Context, q *question) error {
	switch {
	case q.approval.ApprovalID == "": // asked by an earlier process; its event follows
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

// sendQuestion asks a chat a question, once. In the turn's own chat the question has buttons only if the user may decide.
func (d *delivery) sendQuestion(ctx context.Context, q *question, chat int64) error {
	to := chatOf(chat)
	if i := slices.IndexFunc(q.messages, func(m agent.ChatQuestion) bool { return m.Chat == to }); i >= 0 {
		return d.c.cfg.Store.AskChat(ctx, q.messages[i]) // again: the first call may have failed
	}
	may := chat != d.chat
	if !may {
		p, ok, err := d.c.principal(ctx, chat)
		if err != nil {
			return err
		}
		may = ok && p.Tenant == d.turn.Tenant && p.Subject == d.turn.UserID && p.May(agent.ActionApprovalsDecide, q.approval.ToolName)
	}
	text, keys := questionText(&q.approval), (*keyboard)(nil)
	switch {
	case !may:
		text = text.withText("Somebody else has to decide this.")
	default:
		keys = decisionButtons(&q.approval)
		if isAllowed(q.approval.Allowed, agent.DecisionRespond) {
			text = text.withText("Reply to this message to answer in the tool's place.")
		}
	}
	id, err := d.c.api.send(ctx, chat, text, keys)
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

// decisionText returns who decided what.
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
	for _, id := range slices.Clone(d.order) {
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
