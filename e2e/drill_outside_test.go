//go:build unix

package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// outside is the provider and the tool server of a drill. It counts every effect by errand and idempotency key.
type outside struct {
	server *httptest.Server
	over   chan struct{} // closed when the test ends

	mu      sync.Mutex
	effects map[string]map[string]int // calls by "tool errand" and idempotency key
	held    map[string]chan struct{}  // errands whose answers stop after the first word until this is closed
}

// pace is the time between two words of a model, and what a tool takes after its effect.
const pace = 40 * time.Millisecond

func newOutside(t *testing.T) *outside {
	t.Helper()
	o := &outside{over: make(chan struct{}), effects: map[string]map[string]int{}, held: map[string]chan struct{}{}}
	o.server = httptest.NewServer(http.HandlerFunc(o.serve))
	t.Cleanup(func() {
		close(o.over)
		o.server.CloseClientConnections() // workers that outlive the drill
		o.server.Close()
	})
	return o
}

// model makes the outside's model that of a configuration.
func (o *outside) model(c *app.Config) {
	c.LLM.Provider, c.LLM.Model, c.LLM.APIKey = app.ProviderOpenAI, llmtest.ModelName, "test-key"
	c.LLM.BaseURL = llmtest.OpenAI{}.BaseURL(o.server.URL)
}

func (o *outside) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a client that died
	}
	x := &turnstonetest.Exchange{Writer: w, Request: r, Over: o.over}
	if r.URL.Path == (llmtest.OpenAI{}).Path() {
		o.think(x, body)
		return
	}
	var args struct {
		Flight string `json:"flight"`
	}
	if json.Unmarshal(body, &args) != nil {
		http.Error(w, "no arguments", http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	what := r.URL.Path[1:] + " " + args.Flight
	if o.effects[what] == nil {
		o.effects[what] = map[string]int{}
	}
	o.effects[what][r.Header.Get("Idempotency-Key")]++
	o.mu.Unlock()
	pauseAnswer(x, 2*pace) // a worker that dies now has taken effect and does not know
}

// errandText is a message of a drill: "errand <name> <tool> <tool>".
var errandText = regexp.MustCompile(`errand ([\w-]+)((?: (?:book|pay|reserve|look))*)`)

// think asks for the tools that an errand names, and then says what became of it: "<name> is done", or "<name> is unknown" when an outcome is.
func (o *outside) think(x *turnstonetest.Exchange, body []byte) {
	var prompt struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body, &prompt); err != nil {
		http.Error(x.Writer, err.Error(), http.StatusBadRequest)
		return
	}
	var errand []string
	answered, verdict := false, "done"
	for _, m := range prompt.Messages {
		if found := errandText.FindStringSubmatch(string(m.Content)); m.Role == string(agent.RoleUser) && found != nil {
			errand, answered, verdict = found, false, "done"
		}
		if m.Role == string(agent.RoleTool) {
			answered = true
			if strings.Contains(string(m.Content), "outcome_unknown") {
				verdict = "unknown"
			}
		}
	}
	if errand == nil {
		http.Error(x.Writer, "no errand", http.StatusBadRequest)
		return
	}
	usage := agent.Usage{InputTokens: 10, OutputTokens: 5}
	tools := strings.Fields(errand[2])
	if answered || len(tools) == 0 {
		o.speak(x, llmtest.Reply{Usage: usage, Finish: agent.FinishStop}, errand[1]+" is "+verdict)
		return
	}
	reply := llmtest.Reply{Usage: usage, Finish: agent.FinishToolCalls}
	for i, tool := range tools {
		reply.Events = append(reply.Events, llmtest.Event{Call: &llmtest.Fragment{
			Index: i, ID: string(callID(i)), Name: tool, Args: `{"flight":"` + errand[1] + `"}`,
		}})
	}
	pauseAnswer(x, 2*pace)
	o.speak(x, reply, "")
}

// speak streams words at the model's pace, and then the rest of a reply. One about an errand that is held stops after the first word.
func (o *outside) speak(x *turnstonetest.Exchange, rest llmtest.Reply, words string) {
	for i, word := range strings.Fields(words) {
		if i > 0 {
			word = " " + word
		}
		x.Begin(word)
		o.mu.Lock()
		held, isHeld := o.held[word]
		o.mu.Unlock()
		if isHeld && !x.Await(held) {
			return
		}
		pauseAnswer(x, pace)
	}
	x.Send(llmtest.OpenAI{}.Frames(rest)...)
}

// hold stops the answers about an errand in the middle, until release is called.
func (o *outside) hold(errand string) (release func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	held := make(chan struct{})
	o.held[errand] = held
	return func() { close(held) }
}

// pauseAnswer lets time pass, unless there is nobody left to answer.
func pauseAnswer(x *turnstonetest.Exchange, d time.Duration) {
	select {
	case <-time.After(d):
	case <-x.Request.Context().Done():
	case <-x.Over:
	}
}

// taken is how often a tool took effect for an errand: calls, and calls under different idempotency keys.
func (o *outside) taken(tool, errand string) (calls, keys int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.effects[tool+" "+errand] {
		calls += n
		keys++
	}
	return calls, keys
}
