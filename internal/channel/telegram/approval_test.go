package telegram_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-telegram/bot/models"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// acceptDecisions makes the inbox accept one decision for each approval and emit its event, as the runtime does.
func (b *bench) acceptDecisions() chan agent.Decision {
	decided := make(chan agent.Decision, 10)
	isDecided := map[string]bool{}
	b.rt.Decided = func(id agent.TurnID, d agent.Decision) error {
		if isDecided[d.ApprovalID] {
			return agent.Errorf(agent.CodeConflict, "", "decided already")
		}
		isDecided[d.ApprovalID] = true
		decided <- d
		b.rt.Emit(id, agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{ApprovalID: d.ApprovalID, Decision: d.Decision, By: d.By}})
		return nil
	}
	return decided
}

// approvalEvents returns the events of a turn that waits for its n-th approval. change may change the approval.
func approvalEvents(id agent.TurnID, n int, change func(a *agent.Approval)) []agent.Event {
	a := &agent.Approval{
		ApprovalID: fmt.Sprintf("%s.%d.%s", id, n, strings.Repeat("call", 30)), TurnID: id, ToolName: "send_mail", Args: json.RawMessage(`{"to":"x@example.com","cc":[1]}`),
		Description: "Mail goes to another company.",
	}
	if change != nil {
		change(a)
	}
	return []agent.Event{{Type: agent.EventApprovalRequested, Approval: a}, gatewaytest.Status(agent.StatusWaiting)}
}

// askApproval begins a turn that waits for an approval, and returns it with the message that asks for it.
func (b *bench) askApproval(change func(a *agent.Approval)) (agent.TurnID, telegramtest.Message) {
	b.t.Helper()
	n := len(b.rt.Submitted()) + 1
	id := b.ask("mail it", n)
	b.rt.Emit(id, approvalEvents(id, n, change)...)
	return id, b.api.AwaitMessageWhere(ann, "a question", func(m telegramtest.Message) bool {
		return strings.Contains(m.Text, "Approval needed") && !strings.Contains(m.Text, " by ")
	})
}

// button returns the data of a message's button.
func button(t *testing.T, m telegramtest.Message, text string) string {
	t.Helper()
	for _, b := range m.Buttons {
		if b.Text == text {
			require.LessOrEqual(t, len(b.CallbackData), 64)
			return b.CallbackData
		}
	}
	require.FailNow(t, "no button", "%s of %+v", text, m)
	return ""
}

// pressAnswer waits for the answer to the n-th press of a button, and returns its text.
func (b *bench) pressAnswer(n int) string {
	b.t.Helper()
	return b.api.AwaitCalls("answerCallbackQuery", n)[n-1].Form["text"]
}

func TestApprovalByButton(t *testing.T) {
	b := newBench(t)
	decided := b.acceptDecisions()
	b.start(nil)
	for i, text := range []string{"Approve", "Reject"} {
		id, q := b.askApproval(nil)
		require.Contains(t, q.Text, "send_mail")
		require.Contains(t, q.Text, "Mail goes to another company.")
		require.Contains(t, q.Text, "{\n  \"to\": \"x@example.com\",")
		b.api.Press(ann, q, button(t, q, text))
		d := receive(t, decided)
		require.Equal(t, agent.DecisionKind(strings.ToLower(text)), d.Decision)
		require.Equal(t, "ann", d.By)
		require.True(t, strings.HasPrefix(d.ApprovalID, string(id)))
		b.api.AwaitMessageWhere(ann, "who decided", func(m telegramtest.Message) bool {
			return m.ID == q.ID && strings.Contains(m.Text, " by ann") && len(m.Buttons) == 0 && strings.Contains(m.Text, "x@example.com")
		})
		require.Contains(t, b.pressAnswer(2*i+1), text)
		b.api.Press(ann, q, button(t, q, text)) // on a screen that still shows the button
		require.Contains(t, b.pressAnswer(2*i+2), "decided already")
		b.rt.Finish(id, agent.TurnCompleted, fmt.Sprint("sent ", i))
		b.api.AwaitMessage(ann, fmt.Sprint("sent ", i))
	}
}

func TestReplyAnswersForTheTool(t *testing.T) {
	b := newBench(t)
	decided := b.acceptDecisions()
	b.start(nil)
	_, q := b.askApproval(nil)
	require.Contains(t, q.Text, "Reply to this message")
	b.api.Reply(ann, q, "she is away")
	d := receive(t, decided)
	require.Equal(t, agent.Decision{ApprovalID: d.ApprovalID, Decision: agent.DecisionRespond, Message: "she is away", By: "ann"}, d)
	b.api.AwaitMessage(ann, "Answered by ann")
	require.Len(t, b.rt.Submitted(), 1, "the reply is not a turn")

	_, q = b.askApproval(func(a *agent.Approval) { a.Allowed = []agent.DecisionKind{agent.DecisionApprove, agent.DecisionEdit} })
	require.Len(t, q.Buttons, 1)
	require.NotContains(t, q.Text, "Reply to this message")
	b.api.Reply(ann, q, "no")
	b.api.AwaitMessage(ann, "cannot be answered with text")
	require.Empty(t, decided)

	b.api.Reply(ann, telegramtest.Message{Chat: ann, ID: 1, Text: q.Text}, "to a question that is not in the store")
	b.api.AwaitMessage(ann, "out of date")
	b.api.Reply(ann, telegramtest.Message{Chat: ann, ID: 1, Text: "old"}, "to a message that is not a question")
	require.Equal(t, "to a message that is not a question", b.awaitEnvelopes(3)[2].Request.Message)
}

func TestStrangersMayNotDecide(t *testing.T) {
	b := newBench(t)
	b.store.Link("222", "acme", "bob", "*")
	decided := b.acceptDecisions()
	b.start(nil)
	_, q := b.askApproval(nil)
	approve := button(t, q, "Approve")

	b.api.Press(bob, q, approve)
	require.Contains(t, b.pressAnswer(1), "not yours")
	inBobsChat := q
	inBobsChat.Chat = bob
	b.api.Press(bob, inBobsChat, approve)
	require.Contains(t, b.pressAnswer(2), "out of date")
	b.store.Link("444", "acme", "ann", "*")
	b.api.Press(444, q, approve)
	require.Contains(t, b.pressAnswer(3), "not yours", "the same user in another chat")
	b.api.Press(ann, q, approve+"x")
	require.Contains(t, b.pressAnswer(4), "out of date")
	b.api.Press(ann, q, strings.Replace(approve, "approve", "edit", 1))
	require.Contains(t, b.pressAnswer(5), "out of date", "data of no button")
	b.api.Press(ann, q, "")
	require.Contains(t, b.pressAnswer(6), "out of date")

	b.store.Link("111", "acme", "another user", "*")
	b.api.Press(ann, q, approve)
	require.Contains(t, b.pressAnswer(7), "not yours", "the chat is now linked to another user")
	b.store.Link("111", "evil", "ann", "*")
	b.api.Press(ann, q, approve)
	require.Contains(t, b.pressAnswer(8), "not yours")
	b.store.Link("111", "acme", "ann", "turns.*", "approvals.decide:other_tool")
	b.api.Press(ann, q, approve)
	require.Contains(t, b.pressAnswer(9), "not yours")
	require.Empty(t, decided)
	b.store.Link("111", "acme", "ann", "turns.*", "approvals.decide:send_*")
	b.api.Press(ann, q, approve)
	require.Contains(t, b.pressAnswer(10), "Approved")
}

func TestUserWithoutTheScopeHasNoButtons(t *testing.T) {
	b := newBench(t)
	b.store.Link("111", "acme", "ann", "turns.*")
	b.start(nil)
	_, q := b.askApproval(nil)
	require.Empty(t, q.Buttons)
	require.Contains(t, q.Text, "Somebody else has to decide this.")
}

func TestGuestsMayNotDecide(t *testing.T) {
	b := newBench(t)
	b.start(func(c *telegram.Config) { c.Unlinked = true })
	b.api.Send(bob, "hello")
	id := b.awaitTurn(1)
	e := b.awaitEnvelopes(1)[0]
	require.Equal(t, "default", e.Request.Context.Tenant)
	require.Equal(t, "telegram-222", e.Principal.Subject)
	require.False(t, e.Principal.MayAny(agent.ActionApprovalsDecide))
	b.rt.Emit(id, approvalEvents(id, 1, nil)...)
	require.Empty(t, b.api.AwaitMessage(bob, "Approval needed").Buttons)
}

func TestApproversChat(t *testing.T) {
	const group, carol = int64(-500), int64(333)
	b := newBench(t)
	b.store.Link("111", "acme", "ann", "turns.*")
	b.store.Link("222", "evil", "bob", "*")
	b.store.Link("333", "acme", "carol", "approvals.decide")
	decided := b.acceptDecisions()
	b.start(func(c *telegram.Config) { c.ApproverChat = group })
	_, annsQuestion := b.askApproval(nil)
	q := b.api.AwaitMessage(group, "Approval needed")
	require.Empty(t, annsQuestion.Buttons)
	b.api.Press(bob, q, button(t, q, "Approve"))
	require.Contains(t, b.pressAnswer(1), "not yours", "a user of another tenant")
	b.api.Press(ann, q, button(t, q, "Approve"))
	require.Contains(t, b.pressAnswer(2), "not yours", "a user whose link does not allow it")
	b.api.Press(444, q, button(t, q, "Approve"))
	require.Contains(t, b.pressAnswer(3), "not yours", "a person without a link")
	b.api.Press(carol, q, button(t, q, "Approve"))
	require.Equal(t, "carol", receive(t, decided).By)
	b.api.AwaitMessageWhere(group, "who decided", func(m telegramtest.Message) bool { return strings.Contains(m.Text, "Approved by carol") })
	b.api.AwaitMessageWhere(ann, "who decided", func(m telegramtest.Message) bool { return strings.Contains(m.Text, "Approved by carol") })

	id := b.awaitTurn(1)
	b.rt.Emit(id, approvalEvents(id, 2, nil)...)
	q = b.api.AwaitMessageWhere(group, "a second question", func(m telegramtest.Message) bool { return m.ID > q.ID })
	wire := models.Message{ID: q.ID, Date: 1, Chat: models.Chat{ID: group}, From: &models.User{ID: telegramtest.BotID}, Text: q.Text}
	b.api.Message(models.Message{From: telegramtest.Person(carol), Chat: models.Chat{ID: group, Type: models.ChatTypeGroup}, Text: "skip it", ReplyToMessage: &wire})
	d := receive(t, decided)
	require.Equal(t, "skip it", d.Message)
	require.Equal(t, agent.DecisionRespond, d.Decision)
}

func TestQuestionEndsWithItsTurn(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	id, q := b.askApproval(nil)
	b.rt.Finish(id, agent.TurnCancelled, "")
	b.api.AwaitMessageWhere(ann, "the end of the question", func(m telegramtest.Message) bool {
		return m.ID == q.ID && strings.Contains(m.Text, "The turn is over.") && len(m.Buttons) == 0
	})
	b.rt.Decided = func(agent.TurnID, agent.Decision) error { return agent.Errorf(agent.CodeConflict, "", "over") }
	b.api.Press(ann, q, button(t, q, "Approve"))
	require.Contains(t, b.pressAnswer(1), "the turn is over")
}

func TestLargeArgumentsAreCut(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	_, q := b.askApproval(func(a *agent.Approval) {
		a.Args = json.RawMessage(`{"text":"` + strings.Repeat("🛫", 4000) + `"}`)
		a.Description, a.ToolName = strings.Repeat("d", 5000), strings.Repeat("n", 500)
	})
	require.Contains(t, q.Text, "These are not all arguments")
}
