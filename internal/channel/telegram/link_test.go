package telegram_test

import (
	"crypto/rand"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
)

// linkCode returns a code that links a chat to a user of acme.
func (b *bench) linkCode(user string, lifetime time.Duration) string {
	b.t.Helper()
	return b.store.Code("acme", user, "clerk", lifetime, agent.LinkScopes()...)
}

// sendAndRead sends a text to the bot and returns the one message that the bot answers.
func (b *bench) sendAndRead(person int64, text string) string {
	b.t.Helper()
	before := len(b.api.Messages(person))
	b.api.Send(person, text)
	b.api.AwaitConfirmed()
	texts := b.api.Texts(person)
	require.Len(b.t, texts, before+1, "answer to %q", text)
	return texts[before]
}

func TestLinking(t *testing.T) {
	b := newBench(t)
	trail := &trail{}
	b.start(func(c *telegram.Config) { c.Audit = trail })
	require.Contains(t, b.sendAndRead(bob, "hello"), "I do not know you yet")
	require.Contains(t, b.sendAndRead(bob, "/start"), "I do not know you yet")
	require.Contains(t, b.sendAndRead(bob, "/new"), "I do not know you yet")
	require.Contains(t, b.sendAndRead(bob, "/cancel"), "I do not know you yet")
	require.Contains(t, b.sendAndRead(bob, "/unlink"), "not linked")
	require.Contains(t, b.sendAndRead(bob, "/whoami"), "not linked")
	require.Contains(t, b.sendAndRead(bob, "/link"), "Send the code too")
	require.Empty(t, b.rt.Submitted())
	require.Empty(t, trail.all())

	code := b.linkCode("bob", time.Minute)
	require.Contains(t, b.sendAndRead(bob, "/start "+code), "now speaks for bob")
	require.Contains(t, b.sendAndRead(bob, "/start "+code), "now speaks for bob", "the same chat may use it again")
	require.Contains(t, b.sendAndRead(ann, "/start "+code), "not good", "another chat has used it")
	require.Contains(t, b.sendAndRead(ann, "/link "+b.linkCode("ann", -time.Second)), "not good", "it has expired")
	who := b.sendAndRead(bob, "/whoami")
	require.Contains(t, who, "User: bob\nTenant: acme\nRole: clerk\nMay: turns.run")

	u := b.api.Send(bob, "hello")
	e := b.awaitEnvelopes(1)[0]
	require.Equal(t, agent.Principal{
		Method: "telegram", Tenant: "acme", Subject: "bob", Role: "clerk", Scopes: agent.LinkScopes(), Credential: "telegram/222",
	}, e.Principal)
	require.Equal(t, "clerk", e.Request.Context.UserRole)
	first := e.Request.SessionID
	require.NotEqual(t, agent.SessionID("telegram-222"), first, "not the conversation of the user before")
	b.rt.Finish("turn-1", agent.TurnCompleted, "good day")
	b.api.AwaitMessage(bob, "good day")
	require.NotEmpty(t, u.Message)

	require.Contains(t, b.sendAndRead(bob, "/start "+b.linkCode("eve", time.Minute)), "now speaks for eve")
	b.api.Send(bob, "what did I say?")
	require.NotEqual(t, first, b.awaitEnvelopes(2)[1].Request.SessionID)
	b.rt.Finish("turn-2", agent.TurnCompleted, "not a word")
	b.api.AwaitMessage(bob, "not a word")
	require.Contains(t, b.sendAndRead(bob, "/unlink"), "forgotten")
	require.Contains(t, b.sendAndRead(bob, "hello"), "I do not know you yet")

	outcomes := map[string]int{}
	for _, r := range trail.all() {
		require.Equal(t, agent.ActionLinksWrite, r.Action)
		require.Equal(t, "telegram", r.Channel)
		outcomes[r.Outcome]++
	}
	require.Equal(t, map[string]int{agent.AuditAllowed: 4, agent.AuditDenied: 2}, outcomes)
}

func TestGuessedLinkCodes(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	code := b.linkCode("bob", time.Minute)
	for range agent.MaxLinkFailures {
		require.Contains(t, b.sendAndRead(bob, "/link "+rand.Text()), "not good")
	}
	require.Contains(t, b.sendAndRead(bob, "/link "+code), "Too many wrong codes. Try again in 60 minutes.")
	require.Contains(t, b.sendAndRead(333, "/link "+code), "now speaks for bob")
}

func TestConversations(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	b.api.Send(ann, "one")
	require.Equal(t, agent.SessionID("telegram-111"), b.awaitEnvelopes(1)[0].Request.SessionID)
	u := b.api.Send(ann, "/new")
	b.api.AwaitMessage(ann, "A new conversation")
	b.api.Send(ann, "two")
	second := b.awaitEnvelopes(2)[1].Request.SessionID
	require.Regexp(t, `^telegram-111-\d+$`, string(second))
	b.api.AwaitConfirmed()
	b.api.Redeliver(u)
	b.api.Send(ann, "three")
	require.Equal(t, second, b.awaitEnvelopes(3)[2].Request.SessionID, "the same command again begins no conversation")
	require.True(t, second.Valid())
}

func TestCancel(t *testing.T) {
	b := newBench(t)
	cancelled := make(chan agent.CancelRequest, 2)
	b.rt.Cancelled = func(id agent.TurnID, c agent.CancelRequest) error {
		cancelled <- c
		b.rt.Finish(id, agent.TurnCancelled, "so far")
		return nil
	}
	b.start(nil)
	require.Equal(t, "There is nothing to stop.", b.sendAndRead(ann, "/cancel"))
	b.api.Send(ann, "long work")
	b.awaitTurn(1)
	b.api.AwaitConfirmed()
	b.api.Send(ann, "/cancel")
	require.Equal(t, agent.CancelRequest{Reason: "cancelled in Telegram", By: "ann"}, receive(t, cancelled))
	b.api.AwaitMessage(ann, "so far\n\nStopped.")

	b.store.Link("111", "acme", "somebody else", agent.LinkScopes()...)
	b.rt.Cancelled = nil
	require.Equal(t, "There is nothing to stop.", b.sendAndRead(ann, "/cancel"))
	b.store.Link("111", "acme", "ann", "turns.run")
	require.Equal(t, "You may not do that.", b.sendAndRead(ann, "/cancel"))
}

func TestHelp(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	for _, text := range []string{"/help", "/HELP", "/help@turnstone_test_bot now", "/nonsense", "/start"} {
		require.Contains(t, b.sendAndRead(ann, text), "/cancel – stop", text)
	}
	require.Empty(t, b.rt.Submitted())
}

func TestNotify(t *testing.T) {
	b := newBench(t)
	channel, err := telegram.New(b.config())
	require.NoError(t, err)
	b.store.Link("333", "acme", "ann")
	b.store.Link("444", "evil", "ann")
	require.NoError(t, channel.Notify(t.Context(), "acme", "ann", "the **report** is ready"))
	require.Equal(t, []string{"the report is ready"}, b.api.Texts(ann))
	require.Equal(t, []string{"the report is ready"}, b.api.Texts(333))
	require.Empty(t, b.api.Texts(444))

	b.api.Block(ann, true)
	err = channel.Notify(t.Context(), "acme", "ann", "again")
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err), "%v", err)
	require.Equal(t, []string{"the report is ready", "again"}, b.api.Texts(333), "the other chats get it")
	for _, user := range []string{"nobody", ""} {
		require.Equal(t, agent.CodeNotFound, agent.CodeOf(channel.Notify(t.Context(), "acme", user, "x")))
	}
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(channel.Notify(t.Context(), "acme", "ann", " \n")))
}

func TestLinkURL(t *testing.T) {
	b := newBench(t)
	channel, err := telegram.New(b.config())
	require.NoError(t, err)
	require.Empty(t, channel.LinkURL("X"))
	b.serve(channel)
	require.Eventually(t, func() bool { return channel.LinkURL("X") == "https://t.me/"+telegramtest.BotName+"?start=X" }, testTimeout, time.Millisecond)
}

// trail records the audit records.
type trail struct {
	mu      sync.Mutex
	records []agent.AuditRecord
}

func (t *trail) Record(r agent.AuditRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.records = append(t.records, r)
}

func (t *trail) all() []agent.AuditRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.records)
}
