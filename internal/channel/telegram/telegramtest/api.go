// Package telegramtest is the Bot API of Telegram for tests: a server that speaks its wire format and keeps its rules, with people who write
// to the bot and read what it says. It also has the conformance suite of the channel's store, and a store in memory.
package telegramtest

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/stretchr/testify/require"
)

// The bot of the server. Its token is put together, for it must not look like one that is somebody's.
const (
	BotID   = 4242
	BotName = "turnstone_test_bot"
)

// Token is the bot's.
func Token() string { return strconv.Itoa(BotID) + ":" + strings.Repeat("not-a-token-", 3) }

// patience bounds every wait; nothing waits as long unless it is broken.
const patience = 30 * time.Second

// Message is a message of the bot.
type Message struct {
	Chat     int64
	ID       int
	Text     string
	Entities []models.MessageEntity
	Buttons  []models.InlineKeyboardButton
	Edits    []string // its texts, the first included
	Deleted  bool
}

// Call is a request that arrived.
type Call struct {
	Method string
	Form   map[string]string
	Status int // of the answer
}

// Fault is what a method answers instead of doing anything.
type Fault struct {
	Code        int // as HTTP status and error_code
	Description string
	RetryAfter  int // seconds; 429
	Times       int // that it happens; 0: once
	Raw         string
}

// API is the server.
type API struct {
	t      testing.TB
	server *httptest.Server

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced whenever something happens
	updates   []models.Update
	nextID    int64
	messageID int
	messages  []*Message
	calls     []Call
	faults    map[string][]Fault
	blocked   map[int64]bool
	files     map[string][]byte
	poller    context.CancelCauseFunc // of the request that polls
	webhook   string
	secret    string
	pushing   func(models.Update)
}

// New starts a server that ends with the test.
func New(t testing.TB) *API {
	t.Helper()
	a := &API{t: t, changed: make(chan struct{}), nextID: 1000, messageID: 100, faults: map[string][]Fault{}, blocked: map[int64]bool{}, files: map[string][]byte{}}
	a.server = httptest.NewServer(http.HandlerFunc(a.serve))
	t.Cleanup(a.server.Close)
	return a
}

// URL is the server's.
func (a *API) URL() string { return a.server.URL }

// note tells those who wait that something happened. The mutex is held.
func (a *API) note() {
	close(a.changed)
	a.changed = make(chan struct{})
}

type reply struct {
	OK          bool            `json:"ok"`
	Result      any             `json:"result,omitempty"`
	Code        int             `json:"error_code,omitempty"`
	Description string          `json:"description,omitempty"`
	Parameters  *map[string]int `json:"parameters,omitempty"`
}

func refuse(code int, description string) reply {
	return reply{Code: code, Description: http.StatusText(code) + ": " + description}
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutPrefix(r.URL.Path, "/bot"+Token()+"/")
	if file, is := strings.CutPrefix(r.URL.Path, "/file/bot"+Token()+"/"); is {
		a.file(w, file)
		return
	}
	if !ok {
		a.write(w, refuse(http.StatusNotFound, "Not Found"))
		return
	}
	form := map[string]string{}
	if err := r.ParseMultipartForm(1 << 20); err == nil {
		for k, v := range r.MultipartForm.Value {
			form[k] = v[0]
		}
	}
	_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that a client leaves
	if f, is := a.fault(path); is {
		a.log(path, form, f.Code)
		if f.Raw != "" {
			w.WriteHeader(f.Code)
			_, _ = io.WriteString(w, f.Raw)
			return
		}
		out := reply{Code: f.Code, Description: http.StatusText(f.Code) + ": " + f.Description}
		if f.RetryAfter > 0 {
			out.Parameters = &map[string]int{"retry_after": f.RetryAfter}
		}
		a.write(w, out)
		return
	}
	var out reply
	if path == "getUpdates" {
		out = a.getUpdates(r.Context(), form)
	} else {
		a.mu.Lock()
		out = a.call(path, form)
		a.mu.Unlock()
	}
	a.log(path, form, max(out.Code, http.StatusOK))
	a.write(w, out)
}

func (a *API) write(w http.ResponseWriter, out reply) {
	w.Header().Set("Content-Type", "application/json")
	if out.Code != 0 {
		w.WriteHeader(out.Code)
	} else {
		out.OK = true
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (a *API) file(w http.ResponseWriter, name string) {
	a.mu.Lock()
	data, ok := a.files[name]
	a.mu.Unlock()
	if !ok {
		a.write(w, refuse(http.StatusNotFound, "Not Found"))
		return
	}
	_, _ = w.Write(data)
}

func (a *API) fault(method string) (Fault, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := a.faults[method]
	if len(waiting) == 0 {
		return Fault{}, false
	}
	f := waiting[0]
	if f.Times--; f.Times > 0 {
		waiting[0] = f
	} else {
		a.faults[method] = waiting[1:]
	}
	return f, true
}

func (a *API) log(method string, form map[string]string, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls = append(a.calls, Call{method, form, status})
	a.note()
}

// call does what a method does. The mutex is held.
func (a *API) call(method string, form map[string]string) reply {
	switch method {
	case "getMe":
		return reply{Result: models.User{ID: BotID, IsBot: true, FirstName: "Turnstone", Username: BotName}}
	case "setWebhook":
		a.webhook, a.secret = form["url"], form["secret_token"]
		return reply{Result: true}
	case "deleteWebhook":
		a.webhook, a.secret = "", ""
		return reply{Result: true}
	case "sendMessage":
		return a.send(form)
	case "editMessageText":
		return a.edit(form)
	case "deleteMessage":
		m := a.find(number(form["chat_id"]), int(number(form["message_id"])))
		if m == nil {
			return refuse(http.StatusBadRequest, "message to delete not found")
		}
		m.Deleted = true
		return reply{Result: true}
	case "sendChatAction":
		if a.blocked[number(form["chat_id"])] {
			return refuse(http.StatusForbidden, "bot was blocked by the user")
		}
		return reply{Result: true}
	case "answerCallbackQuery":
		if len(utf16(form["text"])) > 200 {
			return refuse(http.StatusBadRequest, "MESSAGE_TOO_LONG")
		}
		return reply{Result: true}
	case "getFile":
		data, ok := a.files[form["file_id"]]
		if !ok {
			return refuse(http.StatusBadRequest, "invalid file_id")
		}
		return reply{Result: models.File{FileID: form["file_id"], FileSize: int64(len(data)), FilePath: form["file_id"]}}
	default:
		return refuse(http.StatusNotFound, "method not found")
	}
}

func (a *API) find(chat int64, id int) *Message {
	for _, m := range a.messages {
		if m.Chat == chat && m.ID == id && !m.Deleted {
			return m
		}
	}
	return nil
}

func (a *API) send(form map[string]string) reply {
	chat := number(form["chat_id"])
	m, bad := a.read(form)
	switch {
	case a.blocked[chat]:
		return refuse(http.StatusForbidden, "bot was blocked by the user")
	case bad != "":
		return refuse(http.StatusBadRequest, bad)
	}
	a.messageID++
	m.Chat, m.ID, m.Edits = chat, a.messageID, []string{m.Text}
	a.messages = append(a.messages, m)
	return reply{Result: a.wire(m)}
}

func (a *API) edit(form map[string]string) reply {
	chat := number(form["chat_id"])
	known := a.find(chat, int(number(form["message_id"])))
	m, bad := a.read(form)
	switch {
	case a.blocked[chat]:
		return refuse(http.StatusForbidden, "bot was blocked by the user")
	case known == nil:
		return refuse(http.StatusBadRequest, "message to edit not found")
	case bad != "":
		return refuse(http.StatusBadRequest, bad)
	case known.Text == m.Text && slices.Equal(known.Entities, m.Entities) && slices.EqualFunc(known.Buttons, m.Buttons, sameButton):
		return refuse(http.StatusBadRequest, "message is not modified: specified new message content and reply markup are exactly the same")
	}
	known.Text, known.Entities, known.Buttons = m.Text, m.Entities, m.Buttons
	known.Edits = append(known.Edits, m.Text)
	return reply{Result: a.wire(known)}
}

func sameButton(x, y models.InlineKeyboardButton) bool {
	return x.Text == y.Text && x.CallbackData == y.CallbackData
}

// read reads a message as Telegram does; bad says what is wrong with it.
func (a *API) read(form map[string]string) (m *Message, bad string) {
	m = &Message{Text: form["text"]}
	length := len(utf16(m.Text))
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
	if raw := form["reply_markup"]; raw != "" {
		var keyboard models.InlineKeyboardMarkup
		if json.Unmarshal([]byte(raw), &keyboard) != nil {
			return nil, "can't parse reply keyboard markup JSON object"
		}
		for _, row := range keyboard.InlineKeyboard {
			for _, b := range row {
				if n := len(b.CallbackData); n < 1 || n > 64 {
					return nil, "BUTTON_DATA_INVALID"
				}
				m.Buttons = append(m.Buttons, b)
			}
		}
	}
	return m, ""
}

func (a *API) wire(m *Message) models.Message {
	return models.Message{
		ID: m.ID, Date: 1_700_000_000, Chat: models.Chat{ID: m.Chat, Type: models.ChatTypePrivate}, Text: m.Text, Entities: m.Entities,
		From: &models.User{ID: BotID, IsBot: true, Username: BotName},
	}
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

// Await waits until ok, which looks at the server under its lock, says so.
func (a *API) await(what string, ok func() bool) {
	a.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		a.mu.Lock()
		fine, changed := ok(), a.changed
		a.mu.Unlock()
		if fine {
			return
		}
		select {
		case <-changed:
		case <-deadline.C:
			a.mu.Lock()
			defer a.mu.Unlock()
			require.FailNow(a.t, "waited in vain for "+what, "%s", a.story())
		}
	}
}

func (a *API) story() string {
	var b strings.Builder
	for _, c := range a.calls {
		fmt.Fprintf(&b, "%s %v: %d\n", c.Method, c.Form, c.Status)
	}
	return b.String()
}
