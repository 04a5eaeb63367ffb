package e2e_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// scenario is one entry of a file of testdata/scenarios, whose README.md says what the fields mean.
type scenario struct {
	File   string      `json:"-"`
	Name   string      `json:"name"`
	About  string      `json:"about"`
	Only   agent.Mode  `json:"only"`
	Record recordNames `json:"record"`

	agentForm // of the agent "clerk"

	Profile     map[string]any            `json:"profile"`  // fields of the profile "main" besides the usual
	Profiles    map[string]map[string]any `json:"profiles"` // further ones
	Agents      map[string]agentForm      `json:"agents"`   // further ones
	Collections map[string]map[string]any `json:"collections"`
	Knowledge   []knowledgeFile           `json:"knowledge_files"`
	Documents   []map[string]any          `json:"documents"`

	Before []turnForm `json:"before"`
	turnForm
}

// recordNames are the names under which histories join the replay corpus: of the durable run and of the direct one.
type recordNames struct {
	Durable string `json:"durable"`
	Direct  string `json:"direct"`
	Child   string `json:"child"` // of the first child of the durable run
}

// agentForm is an AgentInstance in short.
type agentForm struct {
	Prompt       string            `json:"prompt"`
	Parameters   map[string]any    `json:"parameters"`
	Node         string            `json:"node"` // default agent
	Models       []string          `json:"models"`
	Tools        []json.RawMessage `json:"tools"`
	Middleware   []json.RawMessage `json:"middleware"`
	Limits       json.RawMessage   `json:"limits"`
	OutputSchema json.RawMessage   `json:"output_schema"`
	Delegates    []string          `json:"delegates"`
	Searches     []string          `json:"searches"` // collections
}

type knowledgeFile struct {
	Collection string `json:"collection"`
	ID         string `json:"id"`
	Title      string `json:"title"`
	Source     string `json:"source"`
	MIME       string `json:"mime"`
	Text       string `json:"text"`
}

// turnForm is one turn: what is asked, what the provider and people do, and what is expected.
type turnForm struct {
	Say     string             `json:"say"`
	Request *agent.TurnRequest `json:"request"`
	Model   []reply            `json:"model"`
	Models  map[string][]reply `json:"model_of"` // of other profiles than the script's
	Act     []scriptedAction   `json:"act"`
	Seconds int                `json:"seconds"` // most that it may take; 0: turnSeconds
	Expect  expectation        `json:"expect"`
}

// scriptedAction is a decision, a cancel or a message that the test sends once the stream shows a line, or the provider gets a request.
type scriptedAction struct {
	On      string               `json:"on"` // how a line of the events begins, or "request 2"
	Nth     int                  `json:"nth"`
	And     string               `json:"and"` // another line that must have come
	Decide  *scriptedDecision    `json:"decide"`
	Cancel  *agent.CancelRequest `json:"cancel"`
	Message *scriptedMessage     `json:"message"`
	Refused string               `json:"refused"` // in the words of the refusal; empty: it is accepted
	Code    agent.Code           `json:"code"`
}

type scriptedDecision struct {
	Tool string `json:"tool"`
	Nth  int    `json:"nth"` // of the tool's approvals
	agent.Decision
}

// scriptedMessage starts another turn in the session, which must end as expected.
type scriptedMessage struct {
	Say    string       `json:"say"`
	OnBusy agent.OnBusy `json:"on_busy"`
	Expect expectation  `json:"expect"`
}

type expectation struct {
	Refused string `json:"refused"` // the request is, with these words
	Field   string `json:"field"`   // of the refusal

	Status     agent.TurnStatus   `json:"status"`
	Stop       agent.StopReason   `json:"stop"`
	Error      *expectedError     `json:"error"`
	Output     *string            `json:"output"`
	Contains   []string           `json:"contains"` // of the output
	Structured json.RawMessage    `json:"structured"`
	Tools      []string           `json:"tools"` // "name status"; a bare name went well
	Usage      *tally             `json:"usage"`
	Cost       float64            `json:"cost_usd"`
	Requests   *int               `json:"requests"`
	Sees       []sight            `json:"sees"`
	Events     []string           `json:"events"`
	Shows      []string           `json:"shows"` // words that events hold
	Transcript []string           `json:"transcript"`
	Effects    map[string]int     `json:"effects"` // of the whole scenario, with its last turn
	Children   []agent.TurnStatus `json:"children"`
	Hidden     []string           `json:"hidden"` // words that are in no event, result, transcript or history
	Pending    []map[string]any   `json:"pending"`
	Blocks     []map[string]any   `json:"blocks"`
	Model      string             `json:"model"`
}

type expectedError struct {
	Type      string `json:"type"`
	Message   string `json:"message"` // within it
	Retryable *bool  `json:"retryable"`
}

// tally is a usage in short; 10 and 5 tokens are what a reply costs that says nothing else.
type tally struct {
	Input     int64 `json:"input"`
	Output    int64 `json:"output"`
	Cached    int64 `json:"cached"`
	Reasoning int64 `json:"reasoning"`
	Estimated bool  `json:"estimated"` // a middleware cut the reply off: at least so much
}

// sight is what a request to the provider must, and must not, hold. Words are looked for in the body and in its strings.
type sight struct {
	Request int      `json:"request"` // from 1; 0: the last
	Has     []string `json:"has"`
	Not     []string `json:"not"`
	Roles   []string `json:"roles"`
	Tools   []string `json:"tools"`
	Schema  *bool    `json:"schema"` // the provider enforces one
}

// loadScenarios reads every file of a folder. Unknown fields, names given twice and empty files are refused. Places are pairs of what
// stands in the files and what it stands for.
func loadScenarios(dir fs.FS, places ...string) ([]scenario, error) {
	fill := strings.NewReplacer(places...)
	files, err := fs.Glob(dir, "*.yaml")
	if err != nil {
		return nil, err
	}
	var all []scenario
	names := map[string]string{}
	for _, file := range files {
		data, err := fs.ReadFile(dir, file)
		if err != nil {
			return nil, err
		}
		list, err := parseScenarios([]byte(fill.Replace(string(data))))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for i := range list {
			sc := &list[i]
			sc.File = strings.TrimSuffix(path.Base(file), ".yaml")
			if err := sc.check(); err != nil {
				return nil, fmt.Errorf("%s: [%d] %s: %w", file, i, sc.Name, err)
			}
			if first, ok := names[sc.Name]; ok {
				return nil, fmt.Errorf("%s: scenario %q is in %s too", file, sc.Name, first)
			}
			names[sc.Name] = file
		}
		all = append(all, list...)
	}
	return all, nil
}

func parseScenarios(data []byte) ([]scenario, error) {
	var tree any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	body, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var list []scenario
	if err := strictjson.Decode(body, &list); err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, agent.Invalid("", "want a list of scenarios")
	}
	return list, nil
}

func (sc *scenario) check() error {
	switch {
	case !agent.ValidName(sc.Name):
		return agent.Invalid("name", "want 1 to 128 of A-Z a-z 0-9 . _ -, got %q", sc.Name)
	case sc.About == "":
		return agent.Invalid("about", "say what the scenario is for")
	case sc.Only != "" && sc.Only != agent.ModeDurable && sc.Only != agent.ModeDirect:
		return agent.Invalid("only", "want durable or direct")
	}
	for i := range sc.Before {
		if sc.Before[i].Expect.Effects != nil {
			return agent.Invalid(fmt.Sprintf("before[%d].expect.effects", i), "are those of the whole scenario: give them with the last turn")
		}
	}
	for i, t := range append(slices.Clone(sc.Before), sc.turnForm) {
		if err := t.check(); err != nil {
			return fmt.Errorf("turn %d: %w", i+1, err)
		}
	}
	return nil
}

func (f *turnForm) check() error {
	if f.Say != "" && f.Request != nil {
		return agent.Invalid("say", "give say or request")
	}
	for i, d := range f.Act {
		actions := 0
		for _, given := range []bool{d.Decide != nil, d.Cancel != nil, d.Message != nil} {
			if given {
				actions++
			}
		}
		if actions != 1 || d.On == "" {
			return agent.Invalid(fmt.Sprintf("act[%d]", i), "want on, and one of decide, cancel and message")
		}
	}
	return nil
}

// request is the turn's, with what the runner fills in.
func (f *turnForm) request(r *run) agent.TurnRequest {
	var req agent.TurnRequest
	if f.Request != nil {
		req = *f.Request
	}
	if len(req.Messages) == 0 && req.Message == "" {
		req.Message = cmp.Or(f.Say, "hello")
	}
	req.Agent = cmp.Or(req.Agent, "clerk")
	req.SessionID = cmp.Or(req.SessionID, "talk")
	req.Context.Tenant, req.Mode = r.tenant, r.mode
	return req
}
