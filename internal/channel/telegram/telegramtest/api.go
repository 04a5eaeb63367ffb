// Package telegramtest is a fake of Telegram's Bot API for tests: an HTTP server that enforces the rules of the wire format. Tests send messages to
// the bot and read its messages.
package telegramtest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-telegram/bot/models"
)

// The identity of the bot.
const (
	BotID   = 4242
	BotName = "turnstone_test_bot"
)

// Token returns the bot's token. It is composed at run time so that secret scanners do not report it.
func Token() string { return strconv.Itoa(BotID) + ":" + strings.Repeat("not-a-token-", 3) }

// maxWait is how long a test waits for something before it fails.
const maxWait = 30 * time.Second

// Message is a message that the bot has sent.
type Message struct {
	Chat     int64
	ID       int
	Text     string
	Entities []models.MessageEntity
	Buttons  []models.InlineKeyboardButton
	Edits    []string // the text as it was sent and after each edit
	Deleted  bool
}

// Call is a request that the server received.
type Call struct {
	Method string
	Form   map[string]string
	Status int // of the answer
}

// Fault is an error that a method returns instead of its result.
type Fault struct {
	Code        int // the HTTP status and error_code
	Description string
	RetryAfter  int    // in seconds
	Times       int    // how often the method fails; 0: once
	Raw         string // the body of the response; "": the usual JSON
}

// API is the fake server.
type API struct {
	t      testing.TB
	server *httptest.Server

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced at every change
	updates   []models.Update
	updateID  int64
	messageID int
	messages  []*Message
	calls     []Call
	faults    map[string][]Fault
	blocked   map[int64]bool
	files     map[string][]byte
	stopPoll  context.CancelCauseFunc // ends the current getUpdates
	webhook   string
}

// New starts a server that ends with the test.
func New(t testing.TB) *API {
	t.Helper()
	a := &API{
		t: t, changed: make(chan struct{}), updateID: 1000, messageID: 100,
		faults: map[string][]Fault{}, blocked: map[int64]bool{}, files: map[string][]byte{},
	}
	a.server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.server.Close)
	return a
}

// URL returns the address of the server.
func (a *API) URL() string { return a.server.URL }

// notify wakes the waiting goroutines. The mutex is held.
func (a *API) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

// reply is the body of every response.
type reply struct {
	OK          bool           `json:"ok"`
	Result      any            `json:"result,omitempty"`
	Code        int            `json:"error_code,omitempty"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]int `json:"parameters,omitempty"`
}

func refuse(code int, description string) reply {
	return reply{Code: code, Description: http.StatusText(code) + ": " + description}
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	if file, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+Token()+"/"); ok {
		a.mu.Lock()
		defer a.mu.Unlock()
		_, _ = w.Write(a.files[file])
		return
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+Token()+"/")
	if !ok {
		writeReply(w, refuse(http.StatusNotFound, "Not Found"))
		return
	}
	form := map[string]string{}
	if err := r.ParseMultipartForm(1 << 20); err == nil {
		for k, v := range r.MultipartForm.Value {
			form[k] = v[0]
		}
	}
	_, _ = io.Copy(io.Discard, r.Body) // the server notices that a client has gone only after it has read the body
	out, raw := a.answer(r.Context(), method, form)
	a.mu.Lock()
	a.calls = append(a.calls, Call{method, form, max(out.Code, http.StatusOK)})
	a.notify()
	a.mu.Unlock()
	if raw != "" {
		w.WriteHeader(out.Code)
		_, _ = io.WriteString(w, raw)
		return
	}
	writeReply(w, out)
}

func writeReply(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "application/json")
	if out.OK = out.Code == 0; !out.OK {
		w.WriteHeader(out.Code)
	}
	_ = json.NewEncoder(w).Encode(out)
}

// answer returns the reply of a method, or of the next fault that a test has set for it. raw replaces the body if it is not empty.
func (a *API) answer(ctx context.Context, method string, form map[string]string) (out reply, raw string) {
	a.mu.Lock()
	if waiting := a.faults[method]; len(waiting) > 0 {
		defer a.mu.Unlock()
		f := &waiting[0]
		out, raw = refuse(f.Code, f.Description), f.Raw
		if f.RetryAfter > 0 {
			out.Parameters = map[string]int{"retry_after": f.RetryAfter}
		}
		if f.Times--; f.Times <= 0 {
			a.faults[method] = waiting[1:]
		}
		return out, raw
	}
	if method == "getUpdates" {
		a.mu.Unlock()
		return a.getUpdates(ctx, form), ""
	}
	defer a.mu.Unlock()
	return a.call(method, form), ""
}

// call runs a method. The mutex is held.
func (a *API) call(method string, form map[string]string) reply {
	chat := parseInt(form["chat_id"])
	switch method {
	case "getMe":
		return reply{Result: models.User{ID: BotID, IsBot: true, FirstName: "Turnstone", Username: BotName}}
	case "setWebhook", "deleteWebhook":
		a.webhook = form["url"]
	case "sendMessage":
		return a.send(chat, form)
	case "editMessageText":
		return a.edit(chat, form)
	case "deleteMessage":
		m := a.findMessage(chat, form)
		if m == nil {
			return refuse(http.StatusBadRequest, "message to delete not found")
		}
		m.Deleted = true
	case "sendChatAction":
		if a.blocked[chat] {
			return refuse(http.StatusForbidden, "bot was blocked by the user")
		}
	case "answerCallbackQuery":
		if units(form["text"]) > 200 {
			return refuse(http.StatusBadRequest, "MESSAGE_TOO_LONG")
		}
	case "getFile":
		data, ok := a.files[form["file_id"]]
		if !ok {
			return refuse(http.StatusBadRequest, "invalid file_id")
		}
		return reply{Result: models.File{FileID: form["file_id"], FileSize: int64(len(data)), FilePath: form["file_id"]}}
	default:
		return refuse(http.StatusNotFound, "method not found")
	}
	return reply{Result: true}
}

func (a *API) findMessage(chat int64, form map[string]string) *Message {
	for _, m := range a.messages {
		if m.Chat == chat && m.ID == int(parseInt(form["message_id"])) && !m.Deleted {
			return m
		}
	}
	return nil
}

func (a *API) send(chat int64, form map[string]string) reply {
	m, fault := readMessage(form)
	switch {
	case a.blocked[chat]:
		return refuse(http.StatusForbidden, "bot was blocked by the user")
	case fault != "":
		return refuse(http.StatusBadRequest, fault)
	}
	a.messageID++
	m.Chat, m.ID, m.Edits = chat, a.messageID, []string{m.Text}
	a.messages = append(a.messages, m)
	return reply{Result: wireMessage(m)}
}

func (a *API) edit(chat int64, form map[string]string) reply {
	previous := a.findMessage(chat, form)
	m, fault := readMessage(form)
	sameButton := func(x, y models.InlineKeyboardButton) bool {
		return x.Text == y.Text && x.CallbackData == y.CallbackData
	}
	switch {
	case a.blocked[chat]:
		return refuse(http.StatusForbidden, "bot was blocked by the user")
	case previous == nil:
		return refuse(http.StatusBadRequest, "message to edit not found")
	case fault != "":
		return refuse(http.StatusBadRequest, fault)
	case previous.Text == m.Text && slices.Equal(previous.Entities, m.Entities) && slices.EqualFunc(previous.Buttons, m.Buttons, sameButton):
		return refuse(http.StatusBadRequest, "message is not modified: specified new message content and reply markup are exactly the same")
	}
	previous.Text, previous.Entities, previous.Buttons = m.Text, m.Entities, m.Buttons
	previous.Edits = append(previous.Edits, m.Text)
	return reply{Result: wireMessage(previous)}
}

// readMessage returns the message of a request, or the description of the error that Telegram would return.
func readMessage(form map[string]string) (m *Message, fault string) {
	m = &Message{Text: form["text"]}
	length := units(m.Text)
	switch {
	case strings.TrimSpace(m.Text) == "":
		return nil, "message text is empty"
	case length > 4096:
		return nil, "message is too long"
	}
	if e := form["entities"]; e != "" && json.Unmarshal([]byte(e), &m.Entities) != nil {
		return nil, "can't parse entities"
	}
	for _, e := range m.Entities {
		if e.Offset < 0 || e.Length <= 0 || e.Offset+e.Length > length {
			return nil, "ENTITY_BOUNDS_INVALID"
		}
	}
	var keyboard models.InlineKeyboardMarkup
	if raw := form["reply_markup"]; raw != "" && json.Unmarshal([]byte(raw), &keyboard) != nil {
		return nil, "can't parse reply keyboard markup JSON object"
	}
	m.Buttons = slices.Concat(keyboard.InlineKeyboard...)
	for _, b := range m.Buttons {
		if n := len(b.CallbackData); n < 1 || n > 64 {
			return nil, "BUTTON_DATA_INVALID"
		}
	}
	return m, ""
}

// wireMessage returns a message as Telegram sends it.
func wireMessage(m *Message) models.Message {
	return models.Message{
		ID: m.ID, Date: 1_700_000_000, Chat: models.Chat{ID: m.Chat, Type: models.ChatTypePrivate}, Text: m.Text, Entities: m.Entities,
		From: &models.User{ID: BotID, IsBot: true, Username: BotName},
	}
}
