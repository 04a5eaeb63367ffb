package e2e_test

import (
	"cmp"
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

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/strictjson"
	"github.com/turnstone-run/turnstone/turnstonetest"
)

// mainProfile is the model profile that agents have unless they say otherwise.
const mainProfile = "main"

// reply is what the provider does to one request; in a document a bare string is a text.
type reply struct {
	Text       string          `json:"text"`
	Chunks     []string        `json:"chunks"` // the text in these pieces; else word by word
	JSON       json.RawMessage `json:"json"`   // the text is this document
	Reasoning  string          `json:"reasoning"`
	Signature  string          `json:"signature"` // of the reasoning, where the dialect has one
	Citation   *cited          `json:"citation"`  // the provider's own, behind the text
	Image      string          `json:"image"`     // base64
	Calls      []scriptedCall  `json:"calls"`
	Finish     string          `json:"finish"` // default stop, tool_calls with calls
	Usage      *tally          `json:"usage"`
	Status     int             `json:"status"` // a refusal instead
	RetryAfter int             `json:"retry_after"`
	Cut        bool            `json:"cut"`  // the connection breaks behind the text
	Hold       bool            `json:"hold"` // nothing comes behind the text
	Wait       bool            `json:"wait"` // until the people have done what they do
	Echo       bool            `json:"echo"` // the refusal says which key it was asked with
}

type cited struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	Start *int   `json:"start"`
	End   *int   `json:"end"`
}

type scriptedCall struct {
	ID   string          `json:"id"` // default call_<request>_<place>
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"` // default {}
	Raw  *string         `json:"raw"`  // in place of args, as it is
}

// UnmarshalJSON reads the short form too.
func (p *reply) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &p.Text) == nil {
		return nil
	}
	type plain reply
	return strictjson.Decode(data, (*plain)(p))
}

// answers reports whether a reply comes whole, and with it its usage.
func (p *reply) answers() bool { return p.Status == 0 && !p.Cut && !p.Hold }

// text is what is said in words.
func (p *reply) text() string {
	return p.Text + strings.Join(p.Chunks, "") + string(p.JSON)
}

func (p *reply) usage() agent.Usage {
	if p.Usage == nil {
		return agent.Usage{InputTokens: 10, OutputTokens: 5}
	}
	return agent.Usage{
		InputTokens: p.Usage.Input, OutputTokens: p.Usage.Output, CachedTokens: p.Usage.Cached, ReasoningTokens: p.Usage.Reasoning,
	}
}

// wire is a reply as the dialect takes it; n numbers the request.
func (p *reply) wire(n int) llmtest.Reply {
	out := llmtest.Reply{Usage: p.usage(), Finish: agent.FinishReason(cmp.Or(p.Finish, string(agent.FinishStop)))}
	if p.Reasoning != "" {
		out.Events = append(out.Events, llmtest.Event{Reasoning: p.Reasoning})
	}
	if p.Signature != "" {
		out.Events = append(out.Events, llmtest.Event{Signature: p.Signature})
	}
	chunks := p.Chunks
	if text := p.Text + string(p.JSON); text != "" {
		chunks = strings.SplitAfter(text, " ")
	}
	for _, chunk := range chunks {
		out.Events = append(out.Events, llmtest.Event{Text: chunk})
	}
	if p.Citation != nil {
		out.Events = append(out.Events, llmtest.Event{Citation: &agent.Annotation{
			Type: "citation", URL: p.Citation.URL, Title: p.Citation.Title, StartIndex: p.Citation.Start, EndIndex: p.Citation.End,
		}})
	}
	if p.Image != "" {
		out.Events = append(out.Events, llmtest.Event{Image: p.Image})
	}
	for i, c := range p.Calls {
		args := string(c.Args)
		if c.Raw != nil {
			args = *c.Raw
		}
		out.Events = append(out.Events, llmtest.Event{Call: &llmtest.Fragment{
			Index: i, ID: cmp.Or(c.ID, fmt.Sprintf("call_%d_%d", n, i+1)), Name: c.Tool, Args: cmp.Or(args, "{}"),
		}})
	}
	if len(p.Calls) > 0 && p.Finish == "" {
		out.Finish = agent.FinishToolCalls
	}
	return out
}

// scripted is the provider of one run: a queue of replies for each turn, and for each profile that a turn names.
type scripted struct {
	server   *httptest.Server
	dialects map[string]llmtest.Dialect // by profile; the rest speak OpenAI's
	over     chan struct{}

	mu      sync.Mutex
	queues  map[string][]reply
	acted   <-chan struct{} // closed when the people of the turn have done what they do
	asked   []asked
	changed chan struct{} // closed with every request
}

// asked is one request.
type asked struct {
	profile string
	body    string
}

func newScripted(profiles map[string]string) *scripted {
	s := &scripted{over: make(chan struct{}), changed: make(chan struct{}), dialects: map[string]llmtest.Dialect{}, acted: make(chan struct{})}
	for name, provider := range profiles {
		s.dialects[name] = dialectOf(provider)
	}
	s.server = httptest.NewServer(http.HandlerFunc(s.serve))
	return s
}

func (s *scripted) close() {
	close(s.over)
	s.server.CloseClientConnections()
	s.server.Close()
}

func dialectOf(provider string) llmtest.Dialect {
	if provider == "anthropic" {
		return llmtest.Anthropic{}
	}
	return llmtest.OpenAI{} // Ollama speaks it too
}

func (s *scripted) baseURL(profile, provider string) string {
	return dialectOf(provider).BaseURL(s.server.URL + "/" + profile)
}

// load gives the provider the replies of the next turn and returns how many requests there were before.
func (s *scripted) load(f *turnForm, acted <-chan struct{}) (before int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues, s.acted = map[string][]reply{mainProfile: slices.Clone(f.Model)}, acted
	for profile, list := range f.Models {
		s.queues[profile] = slices.Clone(list)
	}
	return len(s.asked)
}

// since are the requests behind the first n.
func (s *scripted) since(n int) []asked {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked[n:])
}

// await waits until there are n requests.
func (s *scripted) await(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		done, changed := len(s.asked) >= n, s.changed
		s.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("request %d did not come: %w", n, context.Cause(ctx))
		}
	}
}

// next is the reply to a request, which it counts; ok is false when the script has none.
func (s *scripted) next(profile, body string) (p reply, n int, acted <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, asked{profile: profile, body: body})
	close(s.changed)
	s.changed = make(chan struct{})
	queue := profile
	if _, own := s.queues[profile]; !own {
		queue = mainProfile
	}
	if len(s.queues[queue]) == 0 {
		return reply{}, len(s.asked), s.acted, false
	}
	p = s.queues[queue][0]
	s.queues[queue] = s.queues[queue][1:]
	return p, len(s.asked), s.acted, true
}

func (s *scripted) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // a client that left
	}
	profile, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	dialect, ok := s.dialects[profile]
	if !ok {
		dialect = llmtest.OpenAI{}
	}
	p, n, acted, ok := s.next(profile, string(body))
	if keyOf(r) != scenarioKey {
		p = reply{Status: http.StatusUnauthorized}
	}
	if !ok {
		p = reply{Status: http.StatusBadRequest}
	}
	x := &turnstonetest.Exchange{Writer: w, Request: r, Over: s.over}
	if p.Wait && !x.Await(acted) {
		return
	}
	if p.Status != 0 {
		w.Header().Set("Content-Type", "application/json")
		if p.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
		}
		w.WriteHeader(p.Status)
		words := fmt.Sprintf("the script refuses request %d", n)
		if p.Echo {
			words += " with the key " + keyOf(r)
		}
		_, _ = io.WriteString(w, dialect.Refusal(p.Status, "scripted", words)) // the client has left, or gets it
		return
	}
	w.Header().Set("Content-Type", dialect.ContentType())
	frames := dialect.Frames(p.wire(n))
	if p.Cut || p.Hold {
		const ending = 3 // finish reason, usage and the mark of the end, or what the dialect has in their place
		frames = frames[:len(frames)-ending]
	}
	for _, f := range frames {
		if _, err := io.WriteString(w, f); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush() // as above
	}
	switch {
	case p.Cut:
		x.Cut()
	case p.Hold:
		x.Hold()
	}
}
