package telegram_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-telegram/bot/models"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// decisions makes the inbox take one decision for each approval, and tell of it as the runtime does.
func (b *bench) decisions() chan agent.Decision {
	made := make(chan agent.Decision, 10)
	decided := map[string]bool{}
	b.rt.Decided = func(id agent.TurnID, d agent.Decision) error {
		if decided[d.ApprovalID] {
			return agent.Errorf(agent.CodeConflict, "", "decided already")
		}
		decided[d.ApprovalID] = true
		made <- d
		b.rt.Emit(id, agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{ApprovalID: d.ApprovalID, Decision: d.Decision, By: d.By}})
		return nil
	}
	return made
}

// next is the next decision.
func (b *bench) next(made chan agent.Decision) agent.Decision {
	b.t.Helper()
	select {
	case d := <-made:
		return d
	case <-time.After(patience):
		require.FailNow(b.t, "no decision", "%v", b.api.Calls("answerCallbackQuery"))
		return agent.Decision{}
	}
}

func request(id agent.TurnID, n int, change func(a *agent.Approval)) []agent.Event {
	a := &agent.Approval{
		ApprovalID: fmt.Sprintf("%s.%d.%s", id, n, strings.Repeat("call", 30)), TurnID: id, ToolName: "send_mail", Args: json.RawMessage(`{"to":"x@example.com","cc":[1]}`),
		Description: "Mail leaves the house.",
	}
	if change != nil {
		change(a)
	}
	return []agent.Event{{Type: agent.EventApprovalRequested, Approval: a}, gatewaytest.Status(agent.StatusWaiting)}
}

func (b *bench) ask(change func(a *agent.Approval)) (agent.TurnID, telegramtest.Message) {
	b.t.Helper()
	n := len(b.rt.Submitted()) + 1
	b.api.Send(ann, "mail it")
	id := b.turn(n)
	b.rt.Emit(id, request(id, n, change)...)
	return id, b.api.AwaitMessageWhere(ann, "a question", func(m telegramtest.Message) bool {
		return strings.Contains(m.Text, "Approval needed") && !strings.Contains(m.Text, " by ")
	})
}

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

func (b *bench) answered(n int) string {
	b.t.Helper()
	return b.api.AwaitCalls("answerCallbackQuery", n)[n-1].Form["text"]
}

func TestApprovalByButton(t *testing.T) {
	b := newBench(t)
	made := b.decisions()
	b.start(nil)
	for i, text := range []string{"Approve", "Reject"} {
		id, q := b.ask(nil)
		require.Contains(t, q.Text, "send_mail")
		require.Contains(t, q.Text, "Mail leaves the house.")
		require.Contains(t, q.Text, "{\n  \"to\": \"x@example.com\",")
		b.api.Press(ann, q, button(t, q, text))
		d := b.next(made)
		require.Equal(t, agent.DecisionKind(strings.ToLower(text)), d.Decision)
		require.Equal(t, "ann", d.By)
		require.True(t, strings.HasPrefix(d.ApprovalID, string(id)))
		b.api.AwaitMessageWhere(ann, "who decided", func(m telegramtest.Message) bool {
			return m.ID == q.ID && strings.Contains(m.Text, " by ann") && len(m.Buttons) == 0 && strings.Contains(m.Text, "x@example.com")
		})
		require.Contains(t, b.answered(2*i+1), text)
		b.api.Press(ann, q, button(t, q, text)) // an old screen
		require.Contains(t, b.answered(2*i+2), "decided already")
		b.rt.Finish(id, agent.TurnCompleted, fmt.Sprint("sent ", i))
		b.api.AwaitMessage(ann, fmt.Sprint("sent ", i))
	}
}

func TestAnswerInTheToolsPlace(t *testing.T) {
	b := newBench(t)
	made := b.decisions()
	b.start(nil)
	_, q := b.ask(nil)
	require.Contains(t, q.Text, "Reply to this message")
	b.api.Reply(ann, q, "she is away")
	d := b.next(made)
	require.Equal(t, agent.Decision{ApprovalID: d.ApprovalID, Decision: agent.DecisionRespond, Message: "she is away", By: "ann"}, d)
	b.api.AwaitMessage(ann, "Answered by ann")
	require.Len(t, b.rt.Submitted(), 1, "it is no turn")

	_, q = b.ask(func(a *agent.Approval) { a.Allowed = []agent.DecisionKind{agent.DecisionApprove, agent.DecisionEdit} })
	require.Len(t, q.Buttons, 1)
	require.NotContains(t, q.Text, "Reply to this message")
	b.api.Reply(ann, q, "no")
	b.api.AwaitMessage(ann, "cannot be answered with text")
	require.Empty(t, made)

	b.api.Reply(ann, telegramtest.Message{Chat: ann, ID: 1, Text: q.Text}, "to one that nobody knows")
	b.api.AwaitMessage(ann, "out of date")
	b.api.Reply(ann, telegramtest.Message{Chat: ann, ID: 1, Text: "old"}, "a reply to anything else")
	require.Equal(t, "a reply to anything else", b.submitted(3)[2].Request.Message)
}

func TestStrangersDoNotDecide(t *testing.T) {
	b := newBench(t)
	b.store.Link("222", "acme", "bob", "*")
	made := b.decisions()
	b.start(nil)
	_, q := b.ask(nil)
	approve := button(t, q, "Approve")

	b.api.Press(bob, q, approve)
	require.Contains(t, b.answered(1), "not yours")
	elsewhere := q
	elsewhere.Chat = bob
	b.api.Press(bob, elsewhere, approve)
	require.Contains(t, b.answered(2), "out of date")
	b.store.Link("444", "acme", "ann", "*")
	b.api.Press(444, q, approve)
	require.Contains(t, b.answered(3), "not yours", "the same user, in another chat")
	b.api.Press(ann, q, approve+"x")
	require.Contains(t, b.answered(4), "out of date")
	b.api.Press(ann, q, strings.Replace(approve, "approve", "edit", 1))
	require.Contains(t, b.answered(5), "out of date", "a button that nobody made")
	b.api.Press(ann, q, "")
	require.Contains(t, b.answered(6), "out of date")

	b.store.Link("111", "acme", "another user", "*")
	b.api.Press(ann, q, approve)
	require.Contains(t, b.answered(7), "not yours", "the chat is another user's now")
	b.store.Link("111", "evil", "ann", "*")
	b.api.Press(ann, q, approve)
	require.Contains(t, b.answered(8), "not yours")
	b.store.Link("111", "acme", "ann", "turns.*", "approvals.decide:other_tool")
	b.api.Press(ann, q, approve)
	require.Contains(t, b.answered(9), "not yours")
	require.Empty(t, made)
	b.store.Link("111", "acme", "ann", "turns.*", "approvals.decide:send_*")
	b.api.Press(ann, q, approve)
	require.Contains(t, b.answered(10), "Approved")
}

func TestWhoMayNotDecideHasNoButtons(t *testing.T) {
	b := newBench(t)
	b.store.Link("111", "acme", "ann", "turns.*")
	b.start(nil)
	_, q := b.ask(nil)
	require.Empty(t, q.Buttons)
	require.Contains(t, q.Text, "Somebody else has to decide this.")
}

func TestGuestsDoNotDecide(t *testing.T) {
	b := newBench(t)
	b.start(func(c *telegram.Config) { c.Unlinked = true })
	b.api.Send(bob, "hello")
	id := b.turn(1)
	e := b.submitted(1)[0]
	require.Equal(t, "default", e.Request.Context.Tenant)
	require.Equal(t, "telegram-222", e.Principal.Subject)
	require.False(t, e.Principal.MayAny(agent.ActionApprovalsDecide))
	b.rt.Emit(id, request(id, 1, nil)...)
	require.Empty(t, b.api.AwaitMessage(bob, "Approval needed").Buttons)
}

func TestApproversChat(t *testing.T) {
	const group, carol = int64(-500), int64(333)
	b := newBench(t)
	b.store.Link("111", "acme", "ann", "turns.*")
	b.store.Link("222", "evil", "bob", "*")
	b.store.Link("333", "acme", "carol", "approvals.decide")
	made := b.decisions()
	b.start(func(c *telegram.Config) { c.ApproverChat = group })
	_, own := b.ask(nil)
	q := b.api.AwaitMessage(group, "Approval needed")
	require.Empty(t, own.Buttons)
	b.api.Press(bob, q, button(t, q, "Approve"))
	require.Contains(t, b.answered(1), "not yours", "a user of another tenant")
	b.api.Press(ann, q, button(t, q, "Approve"))
	require.Contains(t, b.answered(2), "not yours", "a user whose link does not allow it")
	b.api.Press(444, q, button(t, q, "Approve"))
	require.Contains(t, b.answered(3), "not yours", "somebody who is linked to nobody, or not any more")
	b.api.Press(carol, q, button(t, q, "Approve"))
	require.Equal(t, "carol", b.next(made).By)
	b.api.AwaitMessageWhere(group, "who decided", func(m telegramtest.Message) bool { return strings.Contains(m.Text, "Approved by carol") })
	b.api.AwaitMessageWhere(ann, "who decided", func(m telegramtest.Message) bool { return strings.Contains(m.Text, "Approved by carol") })

	id := b.turn(1)
	b.rt.Emit(id, request(id, 2, nil)...)
	q = b.api.AwaitMessageWhere(group, "a second question", func(m telegramtest.Message) bool { return m.ID > q.ID })
	wire := models.Message{ID: q.ID, Date: 1, Chat: models.Chat{ID: group}, From: &models.User{ID: telegramtest.BotID}, Text: q.Text}
	b.api.Message(models.Message{From: telegramtest.Person(carol), Chat: models.Chat{ID: group, Type: models.ChatTypeGroup}, Text: "skip it", ReplyToMessage: &wire})
	d := b.next(made)
	require.Equal(t, "skip it", d.Message)
	require.Equal(t, agent.DecisionRespond, d.Decision)
}

func TestQuestionsEndWithTheirTurn(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	id, q := b.ask(nil)
	b.rt.Finish(id, agent.TurnCancelled, "")
	b.api.AwaitMessageWhere(ann, "an end", func(m telegramtest.Message) bool {
		return m.ID == q.ID && strings.Contains(m.Text, "The turn is over.") && len(m.Buttons) == 0
	})
	b.rt.Decided = func(agent.TurnID, agent.Decision) error { return agent.Errorf(agent.CodeConflict, "", "over") }
	b.api.Press(ann, q, button(t, q, "Approve"))
	require.Contains(t, b.answered(1), "the turn is over")
}

func TestLargeArgumentsAreCutAndSaidToBe(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	_, q := b.ask(func(a *agent.Approval) {
		a.Args = json.RawMessage(`{"text":"` + strings.Repeat("🛫", 4000) + `"}`)
		a.Description, a.ToolName = strings.Repeat("d", 5000), strings.Repeat("n", 500)
	})
	require.Contains(t, q.Text, "These are not all arguments")
}
