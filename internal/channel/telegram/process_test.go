package telegram_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-telegram/bot/models"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/channel/telegram"
	"github.com/turnstone-run/turnstone/internal/channel/telegram/telegramtest"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// awaitRecordedMessages waits until the store has n messages of ann's answer.
func (b *bench) awaitRecordedMessages(n int) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		owed, err := b.store.OwedTurns(b.t.Context(), "4242", agent.Chat{Channel: "telegram", ChatID: "111"})
		return err == nil && len(owed) == 1 && len(owed[0].Messages) == n
	}, testTimeout, time.Millisecond)
}

func TestRestartContinuesAnswer(t *testing.T) {
	b := newBench(t)
	decided := b.acceptDecisions()
	stop := b.start(nil)
	id := b.ask("go", 1)
	b.rt.Emit(id, token("model/1", "first "))
	b.api.AwaitTexts(ann, "first")
	b.rt.Emit(id, approvalEvents(id, 1, nil)...)
	q := b.api.AwaitMessage(ann, "Approval needed")
	stop()
	require.Equal(t, 1, b.store.Owed())
	b.rt.Emit(id, token("model/1", "second"))

	b.start(nil)
	b.api.AwaitMessage(ann, "first second")
	b.api.Press(ann, q, button(t, q, "Approve"))
	require.Equal(t, agent.DecisionApprove, receive(t, decided).Decision)
	b.api.AwaitMessage(ann, "Approved by ann")
	b.rt.Finish(id, agent.TurnCompleted, "first second third")
	b.api.AwaitMessage(ann, "first second third")
	b.awaitSettled()
	require.Len(t, b.api.Messages(ann), 2, "the same messages, and the question once")
}

func TestExpiredLeaseIsTakenOver(t *testing.T) {
	b := newBench(t)
	shortLease := func(c *telegram.Config) { c.Lease = 2 * time.Second }
	stop := b.start(shortLease)
	id := b.ask("go", 1)
	b.rt.Emit(id, token("model/1", "first "))
	b.api.AwaitTexts(ann, "first")
	b.api.AwaitConfirmed()
	b.awaitRecordedMessages(1)
	b.store.StealLeases() // so stop does not release the lease, as if the process had been killed
	stop()
	require.Equal(t, 1, b.store.Owed())
	b.rt.Finish(id, agent.TurnCompleted, "first last")
	b.start(shortLease)
	b.api.AwaitTexts(ann, "first last")
}

func TestLostLease(t *testing.T) {
	b := newBench(t)
	b.start(func(c *telegram.Config) { c.Lease = 2 * time.Second })
	id := b.ask("go", 1)
	b.rt.Emit(id, token("model/1", "first "))
	b.api.AwaitTexts(ann, "first")
	b.awaitRecordedMessages(1)
	b.store.StealLeases()
	require.Eventually(t, func() bool { return strings.Contains(b.logText(), "another process shows the answer") }, testTimeout, time.Millisecond)
	b.rt.Finish(id, agent.TurnCompleted, "last")
	b.api.AwaitTexts(ann, "last") // once the lease of that process has expired
}

func TestExpiredEvents(t *testing.T) {
	b := newBench(t)
	stop := b.start(nil)
	id := b.ask("go", 1)
	b.rt.Emit(id, gatewaytest.Status(agent.StatusRunning), token("model/1", "first "), token("model/1", "second"))
	b.api.AwaitTexts(ann, "first second")
	stop()
	b.rt.Expire(3)
	b.rt.Finish(id, agent.TurnCompleted, "first second third")
	stop = b.start(nil)
	b.api.AwaitTexts(ann, "first second third")
	stop()

	b.start(nil)
	id = b.ask("go", 2)
	b.rt.Emit(id, gatewaytest.Status(agent.StatusRunning))
	b.rt.Expire(100)
	b.rt.Finish(id, agent.TurnCompleted, "lost")
	b.api.AwaitMessageWhere(ann, "an end", func(m telegramtest.Message) bool {
		return m.Text == "lost" || m.Text == "Sorry, I have lost sight of this. (turn turn-2)"
	})
}

func TestMaxAnswers(t *testing.T) {
	b := newBench(t)
	b.store.Link("222", "acme", "bob", agent.LinkScopes()...)
	b.start(func(c *telegram.Config) { c.MaxAnswers, c.Lease = 1, 2*time.Second })
	first := b.ask("one", 1)
	b.api.AwaitConfirmed()
	b.api.Send(bob, "two")
	second := b.awaitTurn(2)
	b.api.AwaitConfirmed()
	require.Equal(t, 2, b.store.Owed())
	require.Eventually(t, func() bool { return b.rt.Followers() == 1 }, testTimeout, time.Millisecond)
	b.rt.Finish(second, agent.TurnCompleted, "answer two")
	b.rt.Finish(first, agent.TurnCompleted, "answer one")
	b.api.AwaitTexts(ann, "answer one")
	b.api.AwaitTexts(bob, "answer two")
}

func TestTwoProcessesPoll(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	b.api.AwaitCalls("deleteWebhook", 1)
	b.start(nil)
	require.Eventually(t, func() bool { return strings.Contains(b.logText(), "another process polls this bot too") }, testTimeout, time.Millisecond)
	for range 5 {
		n := len(b.rt.Submitted())
		id := b.ask("go", len(b.api.Messages(ann))+1)
		b.rt.Finish(id, agent.TurnCompleted, "answer "+string(id))
		b.api.AwaitMessage(ann, "answer "+string(id))
		require.Greater(t, len(b.rt.Submitted()), n)
	}
	require.Len(t, b.api.Messages(ann), 5, "each answer is shown once")
}

// push sends a body to the webhook and returns the status of the answer.
func (b *bench) push(ctx context.Context, method, secret, body string) int {
	b.t.Helper()
	r := httptest.NewRequestWithContext(ctx, method, "/channels/telegram", strings.NewReader(body))
	if secret != "" {
		r.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	}
	w := httptest.NewRecorder()
	b.channel.ServeHTTP(w, r)
	return w.Code
}

// startWebhook starts a bot that gets its updates by the webhook. It returns the webhook's secret and an update to send.
func (b *bench) startWebhook() (secret, update string, stop func()) {
	b.t.Helper()
	secret = strings.Repeat("s3cret-", 4)
	stop = b.start(func(c *telegram.Config) {
		c.Updates, c.WebhookURL, c.WebhookSecret = telegram.Webhook, "https://bot.example/channels/telegram", secret
	})
	b.api.AwaitCalls("setWebhook", 1)
	body, err := json.Marshal(models.Update{ID: 7, Message: &models.Message{
		ID: 1, From: telegramtest.Person(ann), Chat: models.Chat{ID: ann, Type: models.ChatTypePrivate}, Text: "go",
	}})
	require.NoError(b.t, err)
	return secret, string(body), stop
}

func TestWebhook(t *testing.T) {
	b := newBench(t)
	secret, update, _ := b.startWebhook()
	set := b.api.Calls("setWebhook")[0].Form
	require.JSONEq(t, `["message","callback_query"]`, set["allowed_updates"])
	require.Equal(t, "https://bot.example/channels/telegram", set["url"])
	require.Equal(t, secret, set["secret_token"])

	require.Equal(t, http.StatusOK, b.push(t.Context(), http.MethodPost, secret, update))
	b.rt.Finish(b.awaitTurn(1), agent.TurnCompleted, "answer")
	b.api.AwaitTexts(ann, "answer")
	require.Equal(t, http.StatusOK, b.push(t.Context(), http.MethodPost, secret, update), "again")
	require.Len(t, b.rt.Submitted(), 1)
	require.Empty(t, b.api.Calls("getUpdates"))

	for name, c := range map[string]struct {
		secret, body string
		want         int
	}{
		"no secret":     {"", "{}", http.StatusUnauthorized},
		"wrong secret":  {secret + "x", "{}", http.StatusUnauthorized},
		"not JSON":      {secret, "hello", http.StatusBadRequest},
		"not an update": {secret, "{}", http.StatusBadRequest},
		"too large":     {secret, `{"update_id":1,"x":"` + strings.Repeat("x", 2<<20) + `"}`, http.StatusBadRequest},
		"unknown kinds": {secret, `{"update_id":1,"poll":{"id":"1"}}`, http.StatusOK},
	} {
		require.Equal(t, c.want, b.push(t.Context(), http.MethodPost, c.secret, c.body), name)
	}
}

func TestWebhookRetries(t *testing.T) {
	b := newBench(t)
	var isAvailable atomic.Bool
	b.rt.Refuse = func(agent.Envelope) error {
		if isAvailable.Load() {
			return nil
		}
		return agent.Errorf(agent.CodeUnavailable, "", "unavailable")
	}
	secret, update, stop := b.startWebhook()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Equal(t, http.StatusServiceUnavailable, b.push(short, http.MethodPost, secret, update))
	isAvailable.Store(true)
	require.Equal(t, http.StatusOK, b.push(t.Context(), http.MethodPost, secret, update))
	require.Len(t, b.rt.Submitted(), 1)
	stop()
	require.Equal(t, http.StatusServiceUnavailable, b.push(t.Context(), http.MethodPost, secret, update), "Serve has returned")
}

func TestWebhookWhilePolling(t *testing.T) {
	b := newBench(t)
	b.start(nil)
	require.Equal(t, http.StatusNotFound, b.push(t.Context(), http.MethodPost, "", `{"update_id":1}`))
	require.Equal(t, http.StatusMethodNotAllowed, b.push(t.Context(), http.MethodGet, "", ""))
}

func TestUnknownToken(t *testing.T) {
	b := newBench(t)
	cfg := b.config()
	cfg.Token = "1:" + strings.Repeat("another-", 4)
	channel, err := telegram.New(cfg)
	require.NoError(t, err)
	err = channel.Serve(t.Context(), b.rt)
	require.Equal(t, agent.CodeUnauthenticated, agent.CodeOf(err), "%v", err)
	require.NotContains(t, err.Error(), "another-")
}

func TestTelegramUnavailableAtStart(t *testing.T) {
	b := newBench(t)
	b.api.Fail("getMe", telegramtest.Fault{Code: http.StatusBadGateway, Raw: "bad gateway", Times: 2})
	b.api.Fail("deleteWebhook", telegramtest.Fault{Code: http.StatusTooManyRequests, RetryAfter: 1})
	b.start(nil)
	b.api.Send(ann, "/help")
	b.api.AwaitMessage(ann, "/whoami")
}

// TestTokenIsNeverShown provokes the errors that would contain the address of a request, and so the token.
func TestTokenIsNeverShown(t *testing.T) {
	secretPart := strings.SplitN(telegramtest.Token(), ":", 2)[1]
	requireNoToken := func(text string) {
		t.Helper()
		require.NotContains(t, text, secretPart)
		require.NotContains(t, text, strings.ReplaceAll(secretPart, "-", "%2D"))
	}
	b := newBench(t)
	b.store.Link("333", "acme", "carol")
	stop := b.start(nil)
	for _, raw := range []string{"<html>/bot" + telegramtest.Token() + "/sendMessage</html>", "", "{", "null"} {
		b.api.Fail("getUpdates", telegramtest.Fault{Code: http.StatusBadGateway, Raw: raw})
		b.api.Fail("sendMessage", telegramtest.Fault{Code: http.StatusBadGateway, Raw: raw})
	}
	b.api.Fail("sendMessage", telegramtest.Fault{Code: http.StatusBadRequest, Description: "token " + telegramtest.Token()})
	b.api.Send(ann, "/help")
	b.api.AwaitCalls("sendMessage", 5)
	stop()

	cfg := b.config()
	cfg.APIURL = "http://127.0.0.1:1"
	channel, err := telegram.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err = channel.Notify(ctx, "acme", "carol", "x")
	require.Error(t, err)
	requireNoToken(err.Error())
	for ; err != nil; err = errors.Unwrap(err) {
		requireNoToken(err.Error())
	}
	b.serve(channel)
	require.Eventually(t, func() bool { return strings.Contains(b.logText(), "refused") }, testTimeout, time.Millisecond)
	requireNoToken(b.logText())
	for _, m := range b.api.Messages(ann) {
		requireNoToken(m.Text)
	}

	for _, token := range []string{secretPart, "x:" + secretPart, telegramtest.Token() + "/../", "1:short", ""} {
		cfg.Token = token
		_, err := telegram.New(cfg)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), token)
		requireNoToken(err.Error())
	}
}

func TestConfig(t *testing.T) {
	b := newBench(t)
	for field, change := range map[string]func(c *telegram.Config){
		"updates":         func(c *telegram.Config) { c.Updates = "unknown" },
		"tenant":          func(c *telegram.Config) { c.Tenant = "*" },
		"agent":           func(c *telegram.Config) { c.Agent = "a b" },
		"store":           func(c *telegram.Config) { c.Store = nil },
		"edit_every":      func(c *telegram.Config) { c.EditEvery = -1 },
		"max_answers":     func(c *telegram.Config) { c.MaxAnswers = -1 },
		"max_image_bytes": func(c *telegram.Config) { c.MaxImageBytes = 1 << 40 },
		"lease":           func(c *telegram.Config) { c.Lease = 1 },
		"api_url":         func(c *telegram.Config) { c.APIURL = "ftp://x" },
		"webhook_secret":  func(c *telegram.Config) { c.Updates, c.WebhookURL = telegram.Webhook, "https://x" },
		"webhook_url": func(c *telegram.Config) {
			c.Updates, c.WebhookSecret, c.WebhookURL = telegram.Webhook, strings.Repeat("s", 16), "http://x"
		},
	} {
		cfg := b.config()
		change(&cfg)
		_, err := telegram.New(cfg)
		var e *agent.Error
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, field, e.Field)
	}
}
