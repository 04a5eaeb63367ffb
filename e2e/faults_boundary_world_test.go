//go:build unix

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// What is said in a turn of [world].
const (
	worldIntro  = "let me see "
	worldAnswer = "it is all done now"
	worldNext   = "you are welcome"
)

// thanks is the message that [world] answers in one step.
const thanks = "thanks"

// moment is a point in a turn that the world outside of the worker sees.
type moment string

// The moments of a call of [world]'s are its name with "entered" or "done".
const (
	firstAsked  moment = "the model is asked"
	firstBegun  moment = "the model has begun to answer"
	secondAsked moment = "the model is asked with the results"
	secondBegun moment = "the model has begun its last answer"
)

func entered(tool string) moment { return moment(tool + " entered") }
func done(tool string) moment    { return moment(tool + " done") }

// world is all that a worker meets outside: a provider whose model asks for tools side by side and then answers, and the place where
// the tools have their effects. At one moment it holds the worker until that is dead, or is let go.
type world struct {
	server *httptest.Server
	calls  []llmtest.Event
	hold   moment
	held   chan struct{} // closed when the moment has come
	let    chan struct{} // the test closes it to let the worker go on; or nobody does
	over   chan struct{} // closed when the test ends

	mu      sync.Mutex
	once    bool           // somebody was held
	effects map[string]int // per tool
	asked   map[moment]int // how often each moment came
	prompt  string         // the latest
}

// newWorld has the model ask for tools, in that order, as call_1, call_2, ….
func newWorld(t *testing.T, hold moment, tools ...string) *world {
	t.Helper()
	w := &world{
		hold: hold, held: make(chan struct{}), let: make(chan struct{}), over: make(chan struct{}), effects: map[string]int{}, asked: map[moment]int{},
	}
	for i, name := range tools {
		w.calls = append(w.calls, llmtest.Event{Call: &llmtest.Fragment{Index: i, ID: string(callID(i)), Name: name, Args: `{"flight":"TS 1"}`}})
	}
	w.server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(func() {
		close(w.over)
		w.server.Close()
	})
	return w
}

// callID is the id of the i-th call.
func callID(i int) agent.CallID { return agent.CallID(fmt.Sprintf("call_%d", i+1)) }

// model makes the world's the model of a configuration.
func (w *world) model(c *app.Config) {
	c.LLM.Provider, c.LLM.Model, c.LLM.APIKey = app.ProviderOpenAI, llmtest.ModelName, "test-key"
	c.LLM.BaseURL = llmtest.OpenAI{}.BaseURL(w.server.URL)
}

func (w *world) serve(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a client that left
	}
	x := &turnstonetest.Exchange{Writer: rw, Request: r, Over: w.over}
	if r.URL.Path == (llmtest.OpenAI{}).Path() {
		w.think(x, body)
	} else {
		w.act(x, r.URL.Path[1:])
	}
}

// pass counts a moment and holds the first exchange that comes to the one to hold at. It is false when there is nobody left to answer.
func (w *world) pass(x *turnstonetest.Exchange, m moment) bool {
	w.mu.Lock()
	w.asked[m]++
	mine := m == w.hold && !w.once
	w.once = w.once || mine
	w.mu.Unlock()
	if !mine {
		return true
	}
	close(w.held)
	return x.Await(w.let)
}

// act takes the effect of a tool.
func (w *world) act(x *turnstonetest.Exchange, tool string) {
	if !w.pass(x, entered(tool)) {
		return
	}
	w.mu.Lock()
	w.effects[tool]++
	w.mu.Unlock()
	w.pass(x, done(tool))
}

// think answers for the model.
func (w *world) think(x *turnstonetest.Exchange, body []byte) {
	var prompt struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &prompt); err != nil || len(prompt.Messages) == 0 {
		http.Error(x.Writer, "no prompt", http.StatusBadRequest)
		return
	}
	last := prompt.Messages[len(prompt.Messages)-1]
	switch {
	case last.Role == string(agent.RoleTool):
		w.mu.Lock()
		w.prompt = string(body)
		w.mu.Unlock()
		if !w.pass(x, secondAsked) {
			return
		}
		w.streamReply(x, llmtest.Reply{Finish: agent.FinishStop}, worldAnswer, secondBegun)
	case string(last.Content) == `"`+thanks+`"`:
		turnstonetest.Say(worldNext)(x)
	default:
		if !w.pass(x, firstAsked) {
			return
		}
		w.streamReply(x, llmtest.Reply{Events: w.calls, Finish: agent.FinishToolCalls}, worldIntro, firstBegun)
	}
}

// streamReply streams words, lets a moment pass, and streams the rest of a reply.
func (w *world) streamReply(x *turnstonetest.Exchange, rest llmtest.Reply, words string, begun moment) {
	x.Begin(words)
	if !w.pass(x, begun) {
		return
	}
	rest.Usage = agent.Usage{InputTokens: 10, OutputTokens: 5}
	x.Send(llmtest.OpenAI{}.Frames(rest)...)
}

// seen is how often each moment came, how often each tool took effect, and what the model was last told.
func (w *world) seen() (asked map[moment]int, effects map[string]int, prompt string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.asked), maps.Clone(w.effects), w.prompt
}

// kept are the events that no reset takes back.
func kept(events []agent.Event) []agent.Event {
	var out []agent.Event
	for i := range events {
		e := &events[i]
		if !slices.ContainsFunc(events[i:], func(r agent.Event) bool {
			return r.Type == agent.EventReset && r.Producer == e.Meta.Producer && e.Meta.EventIndex >= r.FromIndex
		}) {
			out = append(out, *e)
		}
	}
	return out
}
