package e2e_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// script is a provider on the wire format of chat completions that does to each request what the test says: the first act to the
// first request, and so on; the last act to all further ones.
type script struct {
	server *httptest.Server
	acts   []act
	over   chan struct{} // closed when the test ends

	mu    sync.Mutex
	asked []request
}

// act answers one request.
type act func(x *exchange)

// request is what a provider was asked, and when.
type request struct {
	body string
	at   time.Time
}

// exchange is one request at the provider.
type exchange struct {
	w    http.ResponseWriter
	r    *http.Request
	body string
	over <-chan struct{}
}

func newScript(t testing.TB, acts ...act) *script {
	t.Helper()
	s := &script{acts: acts, over: make(chan struct{})}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		close(s.over)
		s.server.Close()
	})
	return s
}

func (s *script) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a client that left
	}
	s.mu.Lock()
	n := min(len(s.asked), len(s.acts)-1)
	s.asked = append(s.asked, request{body: string(body), at: time.Now()})
	s.mu.Unlock()
	s.acts[n](&exchange{w: w, r: r, body: string(body), over: s.over})
}

// requests are those that came so far.
func (s *script) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// model makes the script the model of a configuration.
func (s *script) model(c *app.Config) {
	c.LLM.Provider, c.LLM.Model, c.LLM.APIKey = app.ProviderOpenAI, llmtest.ModelName, "test-key"
	c.LLM.BaseURL = llmtest.OpenAI{}.BaseURL(s.server.URL)
}

// says streams an answer word by word and ends it.
func says(text string) act {
	return func(x *exchange) { x.send(frames(text)...) }
}

// begins streams words as the beginning of an answer that the exchange goes on with.
func (x *exchange) begins(text string) {
	const ending = 3 // finish reason, usage, [DONE]
	all := frames(text)
	x.send(all[:len(all)-ending]...)
}

// calls asks for one tool call.
func calls(tool, args string) act {
	return func(x *exchange) {
		x.send(llmtest.OpenAI{}.Frames(llmtest.Reply{
			Events: []llmtest.Event{{Call: &llmtest.Fragment{ID: "call_1", Name: tool, Args: args}}},
			Usage:  agent.Usage{InputTokens: 10, OutputTokens: 5}, Finish: agent.FinishToolCalls,
		})...)
	}
}

// refuses answers with a status and, unless empty, a Retry-After.
func refuses(status int, retryAfter string) act {
	return func(x *exchange) {
		if retryAfter != "" {
			x.w.Header().Set("Retry-After", retryAfter)
		}
		x.w.Header().Set("Content-Type", "application/json")
		x.w.WriteHeader(status)
		_, _ = io.WriteString(x.w, llmtest.OpenAI{}.Refusal(status, "scripted", "the script refuses")) // the client has left, or gets it
	}
}

func frames(text string) []string {
	r := llmtest.Reply{Usage: agent.Usage{InputTokens: 10, OutputTokens: 5}, Finish: agent.FinishStop}
	for _, word := range strings.SplitAfter(text, " ") {
		r.Events = append(r.Events, llmtest.Event{Text: word})
	}
	return llmtest.OpenAI{}.Frames(r)
}

func (x *exchange) send(frames ...string) {
	x.w.Header().Set("Content-Type", llmtest.OpenAI{}.ContentType())
	for _, f := range frames {
		if _, err := io.WriteString(x.w, f); err != nil {
			return
		}
		_ = http.NewResponseController(x.w).Flush() // as above
	}
}

// hold keeps the exchange silent until its client leaves or the test ends.
func (x *exchange) hold() {
	select {
	case <-x.r.Context().Done():
	case <-x.over:
	}
}

// until holds the exchange until a signal of the test's; false when there is nobody left to answer.
func (x *exchange) until(signal <-chan struct{}) bool {
	select {
	case <-signal:
		return true
	case <-x.r.Context().Done():
	case <-x.over:
	}
	return false
}

// cut breaks the connection.
func (x *exchange) cut() {
	if conn, _, err := http.NewResponseController(x.w).Hijack(); err == nil {
		_ = conn.Close() // broken is what it is meant to be
	}
}

// TestProviderTrouble: a provider's outages are waited for, its refusals end the turn with words that name them.
func TestProviderTrouble(t *testing.T) {
	const answer = "all is well again"
	cutOff := func(x *exchange) { x.begins("all is "); x.cut() }
	hangs := func(x *exchange) { x.hold() }
	fallsSilent := func(x *exchange) { x.begins("all is "); x.hold() }
	for name, c := range map[string]struct {
		acts     []act
		requests int
		resets   int
		apart    time.Duration // at least, between the first two requests
		failure  string        // of the turn, in words of ours; empty: it completes
		final    bool          // another try would fail too
	}{
		"500":                  {acts: []act{refuses(500, ""), says(answer)}, requests: 2},
		"429 with Retry-After": {acts: []act{refuses(429, "2"), says(answer)}, requests: 2, apart: 2 * time.Second},
		"cut off mid-stream":   {acts: []act{cutOff, says(answer)}, requests: 2, resets: 1},
		"hangs once":           {acts: []act{hangs, says(answer)}, requests: 2},
		"falls silent":         {acts: []act{fallsSilent, says(answer)}, requests: 2, resets: 1},
		"cut off twice":        {acts: []act{cutOff, cutOff, says(answer)}, requests: 3, resets: 2},
		"401 always":           {acts: []act{refuses(401, "")}, requests: 1, failure: "credentials or account (401, 402 or 403)", final: true},
		"500 always":           {acts: []act{refuses(500, "")}, requests: 3, failure: "(5xx)"},
		"hangs always":         {acts: []act{hangs}, requests: 3, failure: "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := newScript(t, c.acts...)
			s := start(t, provider.model, func(c *app.Config) { c.LLM.TimeoutSec, c.LLM.MaxRetries = 1, 2 })
			receipt, err := s.client.Start(t.Context(), agent.TurnRequest{Message: "hello", SessionID: "trouble"})
			require.NoError(t, err)
			out, events := s.follow(t.Context(), receipt.TurnID)
			asked := provider.requests()
			require.Equal(t, c.requests, len(asked), "requests") //nolint:testifylint // Len would print them
			require.Equal(t, c.resets, count(events, agent.EventReset))
			if c.apart > 0 {
				require.GreaterOrEqual(t, asked[1].at.Sub(asked[0].at), c.apart)
			}
			if c.failure == "" {
				require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
				require.Equal(t, answer, out.Output)
			} else {
				require.Equal(t, agent.TurnFailed, out.Status)
				require.Equal(t, agent.StopModelError, out.StopReason)
				require.NotNil(t, out.Error)
				require.Contains(t, out.Error.Message, c.failure)
				require.NotContains(t, out.Error.Message, "test-key")
				require.NotContains(t, out.Error.Message, "script refuses", "the provider's words are for the log")
				require.Equal(t, string(agent.CodeUnavailable), out.Error.Type, "what the provider does not allow us is nothing that the caller may not")
				require.Equal(t, !c.final, out.Error.Retryable)
			}
			s.sound("", receipt)
		})
	}
}
