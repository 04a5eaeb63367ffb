package telegramtest

import (
	"slices"
	"strings"
	"time"

	"github.com/go-telegram/bot/models"
)

// Person returns the user of a private chat.
func Person(id int64) *models.User {
	return &models.User{ID: id, FirstName: "P", Username: "person", LanguageCode: "en"}
}

// Send sends a person's text to the bot.
func (a *API) Send(person int64, text string) models.Update {
	return a.Message(models.Message{From: Person(person), Chat: models.Chat{ID: person, Type: models.ChatTypePrivate}, Text: text})
}

// Message sends a message of any kind to the bot, with the next free number.
func (a *API) Message(m models.Message) models.Update {
	a.mu.Lock()
	a.messageID++
	m.ID, m.Date = a.messageID, 1_700_000_000
	a.mu.Unlock()
	return a.update(models.Update{Message: &m})
}

// Reply sends a person's reply to a message of the bot.
func (a *API) Reply(person int64, to Message, text string) {
	previous := wireMessage(&to)
	a.Message(models.Message{From: Person(person), Chat: previous.Chat, Text: text, ReplyToMessage: &previous})
}

// Press presses a button of a message for a person. The message's chat may be another one than the person's.
func (a *API) Press(person int64, m Message, data string) {
	previous := wireMessage(&m)
	a.update(models.Update{CallbackQuery: &models.CallbackQuery{
		ID: "query-" + time.Now().Format("150405.000000000"), From: *Person(person), Data: data,
		Message: models.MaybeInaccessibleMessage{Type: models.MaybeInaccessibleMessageTypeMessage, Message: &previous},
	}})
}

// update sends an update to the bot, with the next free number.
func (a *API) update(u models.Update) models.Update {
	a.mu.Lock()
	a.updateID++
	u.ID = a.updateID
	a.mu.Unlock()
	a.Redeliver(u)
	return u
}

// Redeliver sends an update to the bot again, as Telegram does until the update is confirmed.
func (a *API) Redeliver(u models.Update) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.updates = append(a.updates, u)
	a.notify()
}

// File stores a file to download under its id.
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

// Block makes a person block or unblock the bot.
func (a *API) Block(person int64, blocked bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.blocked[person] = blocked
}

// Unconfirmed returns how many updates the bot has not confirmed.
func (a *API) Unconfirmed() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.updates)
}

// AwaitConfirmed waits until the bot has confirmed every update.
func (a *API) AwaitConfirmed() {
	a.t.Helper()
	a.await("all updates to be confirmed", func() bool { return len(a.updates) == 0 })
}

// Messages returns the bot's messages in a chat, without the deleted ones.
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

// Texts returns the texts of the bot's messages in a chat.
func (a *API) Texts(chat int64) []string {
	var texts []string
	for _, m := range a.Messages(chat) {
		texts = append(texts, m.Text)
	}
	return texts
}

// AwaitTexts waits until the bot's messages in a chat have exactly these texts.
func (a *API) AwaitTexts(chat int64, want ...string) {
	a.t.Helper()
	a.await("the messages "+strings.Join(want, " | "), func() bool {
		return slices.EqualFunc(a.inChat(chat), want, func(m Message, text string) bool { return m.Text == text })
	})
}

// AwaitMessage waits for a message of the bot that contains a text, and returns the newest.
func (a *API) AwaitMessage(chat int64, text string) Message {
	a.t.Helper()
	return a.AwaitMessageWhere(chat, "a message that contains "+text, func(m Message) bool { return strings.Contains(m.Text, text) })
}

// AwaitMessageWhere waits for a message of the bot that matches, and returns the newest.
func (a *API) AwaitMessageWhere(chat int64, what string, matches func(m Message) bool) (found Message) {
	a.t.Helper()
	a.await(what, func() bool {
		for _, m := range a.inChat(chat) {
			if matches(m) {
				found = m
			}
		}
		return found.ID != 0
	})
	return found
}

// Calls returns the requests of a method that arrived.
func (a *API) Calls(method string) []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.callsOf(method)
}

func (a *API) callsOf(method string) []Call {
	return slices.DeleteFunc(slices.Clone(a.calls), func(c Call) bool { return c.Method != method })
}

// AwaitCalls waits until a method was called n times.
func (a *API) AwaitCalls(method string, n int) (calls []Call) {
	a.t.Helper()
	a.await(method, func() bool {
		calls = a.callsOf(method)
		return len(calls) >= n
	})
	return calls
}
