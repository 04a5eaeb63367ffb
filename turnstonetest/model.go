package turnstonetest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-run/turnstone"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// Model is a scripted provider in the wire format of OpenAI's chat completions. The first reply answers the first request, and so on. The last reply
// also answers all further requests.
type Model struct {
	server  *httptest.Server
	replies []Reply
	over    chan struct{} // closed when the test ends

	mu    sync.Mutex
	asked []Request
}

// Reply answers one request. [Say], [Call] and [Refuse] return the usual ones.
type Reply func(x *Exchange)

// Request is a request that a model received.
type Request struct {
	Body string    // JSON
	At   time.Time // when it was received
}

// NewModel starts a model, which ends with the test. It requires at least one reply.
func NewModel(t testing.TB, replies ...Reply) *Model {
	t.Helper()
	if len(replies) == 0 {
		t.Fatal("turnstonetest: a model needs a reply")
	}
	m := &Model{replies: replies, over: make(chan struct{})}
	m.server = httptest.NewServer(http.HandlerFunc(m.serve))
	t.Cleanup(func() {
		close(m.over)
		m.server.Close()
	})
	return m
}

func (m *Model) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	m.mu.Lock()
	n := min(len(m.asked), len(m.replies)-1)
	m.asked = append(m.asked, Request{Body: string(body), At: time.Now()})
	m.mu.Unlock()
	m.replies[n](&Exchange{Writer: w, Request: r, Body: string(body), Over: m.over})
}

// Requests returns the requests that the model has received so far.
func (m *Model) Requests() []Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// URL returns the base URL of the model, without the path of the API.
func (m *Model) URL() string { return m.server.URL }

// Use makes m the model of a service. It can be passed to [Settings] and [Start].
func (m *Model) Use(s *turnstone.Settings) {
	s.LLM.Provider, s.LLM.Model, s.LLM.APIKey = app.ProviderOpenAI, llmtest.ModelName, "test-key"
	s.LLM.BaseURL = llmtest.OpenAI{}.BaseURL(m.URL())
}

// Say returns a reply that streams a text, word by word.
func Say(text string) Reply {
	return func(x *Exchange) { x.Send(Frames(text)...) }
}

// Call returns a reply that asks for one tool call. args is a JSON object.
func Call(tool, args string) Reply {
	return func(x *Exchange) {
		x.Send(llmtest.OpenAI{}.Frames(llmtest.Reply{
			Events: []llmtest.Event{{Call: &llmtest.Fragment{ID: "call_1", Name: tool, Args: args}}},
			Usage:  agent.Usage{InputTokens: 10, OutputTokens: 5}, Finish: agent.FinishToolCalls,
		})...)
	}
}

// Refuse returns a reply with an HTTP status and, unless it is empty, the header Retry-After.
func Refuse(status int, retryAfter string) Reply {
	return func(x *Exchange) {
		if retryAfter != "" {
			x.Writer.Header().Set("Retry-After", retryAfter)
		}
		x.Writer.Header().Set("Content-Type", "application/json")
		x.Writer.WriteHeader(status)
		_, _ = io.WriteString(x.Writer, llmtest.OpenAI{}.Refusal(status, "scripted", "the script refuses")) // fails if the client has left
	}
}

// Frames returns the frames of an answer, for replies that send them one by one: two before the words, one for each word, and three at the end.
func Frames(text string) []string {
	r := llmtest.Reply{Usage: agent.Usage{InputTokens: 10, OutputTokens: 5}, Finish: agent.FinishStop}
	for _, word := range strings.SplitAfter(text, " ") {
		r.Events = append(r.Events, llmtest.Event{Text: word})
	}
	return llmtest.OpenAI{}.Frames(r)
}

// Exchange is a request with its response, for a custom [Reply].
type Exchange struct {
	Writer  http.ResponseWriter
	Request *http.Request
	Body    string          // body of the request
	Over    <-chan struct{} // closed when the test ends
}

// Send writes frames of the stream and flushes each.
func (x *Exchange) Send(frames ...string) {
	x.Writer.Header().Set("Content-Type", llmtest.OpenAI{}.ContentType())
	for _, f := range frames {
		if _, err := io.WriteString(x.Writer, f); err != nil {
			return
		}
		_ = http.NewResponseController(x.Writer).Flush() // fails if the client has left
	}
}

// Begin streams words as the beginning of an answer, without its end.
func (x *Exchange) Begin(text string) {
	const ending = 3 // finish reason, usage, [DONE]
	all := Frames(text)
	x.Send(all[:len(all)-ending]...)
}

// Hold waits until the client leaves or the test ends.
func (x *Exchange) Hold() {
	select {
	case <-x.Request.Context().Done():
	case <-x.Over:
	}
}

// Await waits for a signal and returns true. It returns false if the client leaves or the test ends first.
func (x *Exchange) Await(signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	case <-x.Request.Context().Done():
	case <-x.Over:
	}
	return false
}

// Cut closes the connection.
func (x *Exchange) Cut() {
	if conn, _, err := http.NewResponseController(x.Writer).Hijack(); err == nil {
		_ = conn.Close() // an error makes no difference to the client
	}
}
