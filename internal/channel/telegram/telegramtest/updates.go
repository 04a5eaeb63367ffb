package telegramtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	utf "unicode/utf16"

	"github.com/go-telegram/bot/models"
	"github.com/stretchr/testify/require"
)

func utf16(s string) []uint16 { return utf.Encode([]rune(s)) }

var errOther = errors.New("another request")

// getUpdates is the long poll. A second one ends the first, as with the real server.
func (a *API) getUpdates(ctx context.Context, form map[string]string) reply {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.mu.Lock()
	if a.webhook != "" {
		a.mu.Unlock()
		return refuse(http.StatusConflict, "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first")
	}
	if a.poller != nil {
		a.poller(errOther)
	}
	a.poller = cancel
	offset := number(form["offset"])
	a.updates = slices.DeleteFunc(a.updates, func(u models.Update) bool { return u.ID < offset })
	a.note()
	a.mu.Unlock()

	end := time.NewTimer(time.Duration(number(form["timeout"])) * time.Second)
	defer end.Stop()
	for {
		a.mu.Lock()
		found, changed := slices.Clone(a.updates[:min(len(a.updates), 100)]), a.changed
		a.mu.Unlock()
		if context.Cause(ctx) == errOther { //nolint:errorlint // ours
			return refuse(http.StatusConflict, "terminated by other getUpdates request; make sure that only one bot instance is running")
		}
		if len(found) > 0 {
			return reply{Result: found}
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-end.C:
			return reply{Result: []models.Update{}}
		}
		if ctx.Err() != nil && context.Cause(ctx) != errOther { //nolint:errorlint // ours
			return reply{Result: []models.Update{}}
		}
	}
}

// Unconfirmed is how many updates wait to be taken.
func (a *API) Unconfirmed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.updates)
}

// AwaitConfirmed waits until every update was taken and confirmed.
func (a *API) AwaitConfirmed() {
	a.t.Helper()
	a.await("all updates to be confirmed", func() bool { return len(a.updates) == 0 })
}

// update gives a new update to the bot.
func (a *API) update(fill func(u *models.Update, message int)) models.Update {
	a.mu.Lock()
	a.nextID++
	a.messageID++
	u := models.Update{ID: a.nextID}
	fill(&u, a.messageID)
	push := a.pushing
	if push == nil {
		a.updates = append(a.updates, u)
	}
	a.note()
	a.mu.Unlock()
	if push != nil {
		push(u)
	}
	return u
}

// Person is the user of a private chat.
func Person(id int64) *models.User {
	return &models.User{ID: id, FirstName: "P", Username: "person", LanguageCode: "en"}
}

// Send is a person writing to the bot.
func (a *API) Send(person int64, text string) models.Update {
	return a.Message(models.Message{From: Person(person), Chat: models.Chat{ID: person, Type: models.ChatTypePrivate}, Text: text})
}

// Message is any message to the bot. Its number is given by the server.
func (a *API) Message(m models.Message) models.Update {
	return a.update(func(u *models.Update, id int) {
		m.ID, m.Date = id, 1_700_000_000
		u.Message = &m
	})
}

// Reply is a person's reply to a message of the bot.
func (a *API) Reply(person int64, to Message, text string) models.Update {
	old := a.wire(&to)
	return a.Message(models.Message{From: Person(person), Chat: models.Chat{ID: to.Chat, Type: models.ChatTypePrivate}, Text: text, ReplyToMessage: &old})
}

// Press is a person pressing a button, whatever chat it stands in.
func (a *API) Press(person int64, m Message, data string) {
	old := a.wire(&m)
	a.update(func(u *models.Update, _ int) {
		u.CallbackQuery = &models.CallbackQuery{
			ID: "query-" + time.Now().Format("150405.000000000"), From: *Person(person), Data: data,
			Message: models.MaybeInaccessibleMessage{Type: models.MaybeInaccessibleMessageTypeMessage, Message: &old},
		}
	})
}

// Again brings an update once more, as Telegram does when it was not confirmed.
func (a *API) Again(u models.Update) {
	a.mu.Lock()
	push := a.pushing
	if push == nil {
		a.updates = append(a.updates, u)
	}
	a.note()
	a.mu.Unlock()
	if push != nil {
		push(u)
	}
}

// File is something to download, under its id.
func (a *API) File(id string, data []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.files[id] = data
}

// Fail makes the next requests of a method fail.
func (a *API) Fail(method string, f Fault) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults[method] = append(a.faults[method], f)
}

// Heal takes faults away that have not happened yet.
func (a *API) Heal(method string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.faults, method)
}

// Block makes a person block the bot, or let it in again.
func (a *API) Block(person int64, blocked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocked[person] = blocked
}

// PushTo brings further updates to a webhook, once each, with the secret that was set; answers are told to got.
func (a *API) PushTo(h http.Handler, got func(status int)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pushing = func(u models.Update) {
		a.mu.Lock()
		secret := a.secret
		a.mu.Unlock()
		got(Push(a.t.Context(), h, secret, u))
	}
}

// Push brings one update to a webhook and returns the status that it answers.
func Push(ctx context.Context, h http.Handler, secret string, update any) int {
	body, err := json.Marshal(update)
	if err != nil {
		return 0
	}
	return PushRaw(ctx, h, secret, bytes.NewReader(body))
}

// PushRaw is [Push] with any body.
func PushRaw(ctx context.Context, h http.Handler, secret string, body io.Reader) int {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/channels/telegram", body)
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	if secret != "" {
		r.Header.Set("X-Telegram-Bot-Api-Secret-Token", secret)
	}
	w := &answer{header: http.Header{}}
	h.ServeHTTP(w, r)
	return w.status
}

type answer struct {
	header http.Header
	status int
}

func (w *answer) Header() http.Header         { return w.header }
func (w *answer) Write(b []byte) (int, error) { return len(b), nil }
func (w *answer) WriteHeader(status int)      { w.status = status }

// Webhook is what was set last.
func (a *API) Webhook() (url, secret string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.webhook, a.secret
}

// Messages are those of the bot in a chat that were not deleted.
func (a *API) Messages(chat int64) []Message {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inChat(chat)
}

func (a *API) inChat(chat int64) []Message {
	var found []Message
	for _, m := range a.messages {
		if m.Chat == chat && !m.Deleted {
			c := *m
			c.Edits = slices.Clone(m.Edits)
			found = append(found, c)
		}
	}
	return found
}

// Texts are what the messages of the bot in a chat say.
func (a *API) Texts(chat int64) []string {
	var texts []string
	for _, m := range a.Messages(chat) {
		texts = append(texts, m.Text)
	}
	return texts
}

// AwaitTexts waits until the messages of the bot in a chat are these.
func (a *API) AwaitTexts(chat int64, want ...string) {
	a.t.Helper()
	a.await("the messages "+strings.Join(want, " | "), func() bool {
		found := a.inChat(chat)
		return slices.EqualFunc(found, want, func(m Message, text string) bool { return m.Text == text })
	})
}

// AwaitMessage waits for a message of the bot in a chat that says something, and returns the newest that does.
func (a *API) AwaitMessage(chat int64, says string) Message {
	a.t.Helper()
	var found Message
	a.await("a message that says "+says, func() bool {
		for _, m := range a.inChat(chat) {
			if strings.Contains(m.Text, says) {
				found = m
			}
		}
		return found.ID != 0
	})
	return found
}

// AwaitMessageWhere waits for a message of the bot in a chat.
func (a *API) AwaitMessageWhere(chat int64, what string, ok func(m Message) bool) Message {
	a.t.Helper()
	var found Message
	a.await(what, func() bool {
		for _, m := range a.inChat(chat) {
			if ok(m) {
				found = m
			}
		}
		return found.ID != 0
	})
	return found
}

// Calls are the requests of a method that arrived.
func (a *API) Calls(method string) []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.called(method)
}

func (a *API) called(method string) []Call {
	var found []Call
	for _, c := range a.calls {
		if c.Method == method {
			found = append(found, c)
		}
	}
	return found
}

// AwaitCalls waits until a method was called so often.
func (a *API) AwaitCalls(method string, n int) []Call {
	a.t.Helper()
	var found []Call
	a.await(method, func() bool {
		found = a.called(method)
		return len(found) >= n
	})
	require.GreaterOrEqual(a.t, len(found), n)
	return found
}
