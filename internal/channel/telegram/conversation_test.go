package telegram_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-telegram/bot/models"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestConversation(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	u := b.api.Send(ann, "what is cheap?")
	id := b.awaitTurn(1)
	e := b.awaitEnvelopes(1)[0]
	require.Equal(t, agent.Envelope{
		Channel: "telegram", Sender: "telegram/111", RequestID: fmt.Sprintf("telegram-4242-%d", u.ID),
		Principal: agent.Principal{Method: "telegram", Tenant: "acme", Subject: "ann", Scopes: agent.LinkScopes(), Credential: "telegram/111"},
		Request: agent.TurnRequest{
			Agent: "analyst", SessionID: "telegram-111", Message: "what is cheap?", Channel: "telegram", OnBusy: agent.OnBusyQueue,
			IdempotencyKey: fmt.Sprintf("telegram/4242/%d", u.ID),
			Context: agent.InvocationContext{Tenant: "acme", UserID: "ann", Metadata: map[string]any{
				"chat_id": "111", "chat_type": "private", "message_id": fmt.Sprint(u.Message.ID), "username": "person", "language": "en",
			}},
		},
	}, e)
	b.api.AwaitCalls("sendChatAction", 1)

	b.rt.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "Let me "), token("model/1", "look."))
	b.api.AwaitTexts(ann, "Let me look.")
	b.rt.Emit(id, token("model/2", "The **cheapest** "))
	b.api.AwaitTexts(ann, "The cheapest")
	b.rt.Emit(id, token("model/2", "is Delta."))
	b.api.AwaitTexts(ann, "The cheapest is Delta.")
	b.rt.Finish(id, agent.TurnCompleted, "The **cheapest** is Delta.")
	b.awaitSettled()
	m := b.api.Messages(ann)
	require.Len(t, m, 1)
	require.Equal(t, []string{"Let me look.", "The cheapest", "The cheapest is Delta."}, m[0].Edits)
	require.Equal(t, []models.MessageEntity{{Type: models.MessageEntityTypeBold, Offset: 4, Length: 8}}, m[0].Entities)
	b.api.AwaitConfirmed()
	require.Empty(t, b.api.Calls("setWebhook"))
	require.Len(t, b.api.Calls("deleteWebhook"), 1, "polling needs the webhook to be deleted")
}

func TestResetShortensAnswer(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	id := b.ask("hello", 1)
	b.rt.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "good "), token("model/1", "void"))
	b.api.AwaitTexts(ann, "good void")
	b.rt.Emit(id, agent.Event{Type: agent.EventReset, Producer: "model/1", FromIndex: 3})
	b.api.AwaitTexts(ann, "good")
	b.rt.Emit(id, agent.Event{Type: agent.EventReset, Producer: "model/1", FromIndex: 2})
	b.api.AwaitTexts(ann, "…")
	b.rt.Emit(id, token("model/1", "better"))
	b.api.AwaitTexts(ann, "better")
	b.rt.Finish(id, agent.TurnCompleted, "better")
	b.awaitSettled()
	b.api.AwaitTexts(ann, "better")
}

func TestResetDeletesMessages(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	id := b.ask("hello", 1)
	long := strings.Repeat("word ", 1000)
	b.rt.Emit(id, token("model/1", long))
	b.api.AwaitMessageWhere(ann, "a second message", func(m telegramtest.Message) bool { return len(m.Text) < 2000 })
	require.Len(t, b.api.Messages(ann), 2)
	b.rt.Emit(id, agent.Event{Type: agent.EventReset, Producer: "model/1", FromIndex: 1}, token("model/1", "short"))
	b.api.AwaitTexts(ann, "short")
	b.rt.Finish(id, agent.TurnCompleted, "short")
	b.awaitSettled()
	b.api.AwaitTexts(ann, "short")
}

func TestLongAnswerIsSplit(t *testing.T) {
	b := newBench(t)
	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		var text strings.Builder
		for i := range 400 {
			fmt.Fprintf(&text, "Line %03d of a long answer 🛫.\n", i)
		}
		rt.Say(id, text.String())
	}
	b.start(nil)
	b.api.Send(ann, "tell me")
	b.api.AwaitMessage(ann, "Line 399")
	b.awaitSettled()
	texts := b.api.Texts(ann)
	require.Len(t, texts, 3)
	joined := strings.Join(texts, "\n")
	for i := range 400 {
		require.Equal(t, 1, strings.Count(joined, fmt.Sprintf("Line %03d of a long answer 🛫.", i)))
	}
}

func TestFinalMessages(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	var failure string
	for i, c := range []struct {
		status agent.TurnStatus
		stop   agent.StopReason // "": that of the status
		output string
		want   string
	}{
		{agent.TurnCompleted, "", "done", "done"},
		{agent.TurnCompleted, "", " \n", "(The answer has no text.)"},
		{agent.TurnCompleted, agent.StopMaxTokens, "three fl", "three fl\n\n" + agent.StopMaxTokens.CutShort()},
		{agent.TurnCompleted, agent.StopFiltered, "three fl", "three fl\n\n" + agent.StopFiltered.CutShort()},
		{agent.TurnFailed, "", "half of", "Sorry, that did not work. (turn turn-5)"},
		{agent.TurnCancelled, "", "half of", "half of\n\nStopped."},
		{agent.TurnCancelled, "", "", "Stopped."},
	} {
		id := b.ask("go", i+1)
		out := b.rt.Output(id, c.status, c.output)
		out.StopReason = cmp.Or(c.stop, out.StopReason)
		if out.Error != nil {
			failure = out.Error.Message
		}
		b.rt.Emit(id, agent.Event{Type: agent.EventStatus, Status: agent.TerminalStatus(c.status), Result: out})
		b.api.AwaitMessageWhere(ann, c.want, func(m telegramtest.Message) bool { return m.Text == c.want })
	}
	require.NotEmpty(t, failure)
	for _, text := range b.api.Texts(ann) {
		require.NotContains(t, text, failure)
	}
}

func TestRepeatedUpdateIsTheSameTurn(t *testing.T) {
	b := newBench(t)
	stop := b.start(nil)
	u := b.api.Send(ann, "once")
	b.rt.Finish(b.awaitTurn(1), agent.TurnCompleted, "answer")
	b.api.AwaitTexts(ann, "answer")
	b.api.AwaitConfirmed()
	b.api.Redeliver(u)
	b.api.AwaitConfirmed()
	b.awaitSettled()
	stop()

	b.api.Redeliver(u) // to a process that has not handled it
	metrics := prometheus.NewRegistry()
	stop = b.start(func(c *telegram.Config) { c.Metrics = metrics })
	b.api.AwaitConfirmed()
	stop()
	shown, err := testutil.GatherAndCount(metrics, "telegram_answers_total")
	require.NoError(t, err)
	require.Zero(t, shown, "the second process shows no answer")
	envelopes := b.awaitEnvelopes(2)
	require.Equal(t, envelopes[0].Request.IdempotencyKey, envelopes[1].Request.IdempotencyKey)
	require.Equal(t, []string{"answer"}, b.api.Texts(ann))
	require.Zero(t, b.store.Owed())
}

// brokenStore is a store that cannot record which answers are owed.
type brokenStore struct{ *telegramtest.Store }

func (brokenStore) OweTurn(context.Context, agent.ChatTurn, string, time.Duration) (bool, error) {
	return false, agent.Errorf(agent.CodeUnavailable, "", "the database is unavailable")
}

func TestUpdateIsConfirmedAfterItIsStored(t *testing.T) {
	b := newBench(t)
	stop := b.start(func(c *telegram.Config) { c.Store = brokenStore{b.store} })
	b.api.Send(ann, "go")
	b.awaitEnvelopes(2)
	stop()
	require.Equal(t, 1, b.api.Unconfirmed(), "the next process receives it")
	b.start(nil)
	b.api.AwaitConfirmed()
	b.rt.Finish("turn-1", agent.TurnCompleted, "answer")
	b.api.AwaitTexts(ann, "answer")
}

func TestPictures(t *testing.T) {
	b := newBench(t)
	b.start(func(c *telegram.Config) { c.MaxImageBytes = 1000 })
	png := append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 100)...)
	b.api.File("small", png)
	b.api.File("large", make([]byte, 2000))
	b.api.File("large document", make([]byte, 2000))
	b.api.File("text", []byte("just text"))
	private := models.Chat{ID: ann, Type: models.ChatTypePrivate}
	b.api.Message(models.Message{From: telegramtest.Person(ann), Chat: private, Caption: "what is this?", Photo: []models.PhotoSize{
		{FileID: "tiny", Width: 1, Height: 1, FileSize: 10},
		{FileID: "small", Width: 90, Height: 90, FileSize: len(png)},
		{FileID: "large", Width: 900, Height: 900, FileSize: 2000},
	}})
	want := []agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{
		agent.Text("what is this?"), {Type: agent.BlockImage, MIMEType: "image/png", Base64: base64.StdEncoding.EncodeToString(png)},
	}}}
	require.Equal(t, want, b.awaitEnvelopes(1)[0].Request.Messages)
	require.NoError(t, b.awaitEnvelopes(1)[0].Request.Validate(0))
	b.rt.Finish("turn-1", agent.TurnCompleted, "a picture")
	b.api.AwaitMessage(ann, "a picture")

	for _, c := range []struct {
		m    models.Message
		want string
	}{
		{models.Message{Photo: []models.PhotoSize{{FileID: "large", FileSize: 2000}}}, "too large"},
		{models.Message{Document: &models.Document{FileID: "large document", MimeType: "image/png"}}, "too large"},
		{models.Message{Document: &models.Document{FileID: "missing", MimeType: "image/png"}}, "could not read"},
		{models.Message{Document: &models.Document{FileID: "text", MimeType: "image/png"}}, "text and pictures only"},
		{models.Message{Document: &models.Document{FileID: "x", MimeType: "application/pdf"}}, "text and pictures only"},
		{models.Message{Voice: &models.Voice{FileID: "x"}}, "text and pictures only"},
	} {
		before := len(b.api.Messages(ann))
		c.m.From, c.m.Chat = telegramtest.Person(ann), private
		b.api.Message(c.m)
		b.api.AwaitConfirmed()
		after := b.api.Texts(ann)
		require.Len(t, after, before+1)
		require.Contains(t, after[before], c.want)
	}
	require.Len(t, b.rt.Submitted(), 1)
}

func TestGroups(t *testing.T) {
	b := newBench(t)
	b.start(func(c *telegram.Config) { c.Unlinked = true })
	group := models.Chat{ID: -100, Type: models.ChatTypeSupergroup}
	for _, text := range []string{"not to the bot", "/start"} {
		b.api.Message(models.Message{From: telegramtest.Person(ann), Chat: group, Text: text})
	}
	b.api.AwaitConfirmed()
	require.Empty(t, b.api.Messages(-100))
	b.api.Message(models.Message{From: telegramtest.Person(ann), Chat: group, Text: "hi @Turnstone_test_bot"})
	b.api.AwaitTexts(-100, "I only talk in private chats. Please write to me there.")
	require.Empty(t, b.rt.Submitted())
}
