package toolsearch_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/toolsearch"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// words is a ranking by the number of the query's words in a text. Words of a title count ten times.
type words struct {
	fail    error
	longest int // the most texts in one call
	ranked  []tool.RankedText
}

func (w *words) Rank(_ context.Context, query string, docs []tool.RankedText, n int) ([]tool.Ranked, error) {
	if w.fail != nil {
		return nil, w.fail
	}
	w.longest = max(w.longest, len(docs))
	w.ranked = append(w.ranked, docs...)
	var found []tool.Ranked
	for i, d := range docs {
		score := 0.0
		for word := range strings.FieldsSeq(strings.ToLower(query)) {
			if slices.Contains(strings.Fields(strings.ToLower(d.Title)), word) {
				score += 10
			}
			if slices.Contains(strings.Fields(strings.ToLower(d.Body)), word) {
				score++
			}
		}
		if score > 0 {
			found = append(found, tool.Ranked{Index: i, Score: score})
		}
	}
	slices.SortStableFunc(found, func(a, b tool.Ranked) int { return int(b.Score - a.Score) })
	return found[:min(len(found), n)], nil
}

// workflows holds the workflows of one tenant, and lists them in pages of two.
type workflows struct {
	tenant string
	all    []agent.StoredWorkflow
	fail   error // of every page but the first
	asked  int   // pages
}

func (*workflows) PatchWorkflow(context.Context, agent.WorkflowPatchRequest) (agent.WorkflowPatchResult, error) {
	return agent.WorkflowPatchResult{}, errors.New("not asked for")
}

func (s *workflows) ListWorkflows(_ context.Context, q agent.WorkflowQuery) (agent.WorkflowPage, error) {
	s.asked++
	if s.fail != nil && s.asked > 1 {
		return agent.WorkflowPage{}, s.fail
	}
	if q.Tenant != s.tenant {
		return agent.WorkflowPage{}, nil
	}
	from := 0
	if q.Token != "" {
		_, _ = fmt.Sscan(q.Token, &from)
	}
	to := min(from+2, len(s.all))
	p := agent.WorkflowPage{Workflows: s.all[from:to]}
	if to < len(s.all) {
		p.Next = fmt.Sprint(to)
	}
	return p, nil
}

func workflow(tag, description, node string) agent.StoredWorkflow {
	d, _ := json.Marshal(agent.WorkflowDefinition{Description: description, Nodes: []agent.WorkflowNode{{ID: node, Type: agent.WorkflowTask, Name: "Mail"}}})
	return agent.StoredWorkflow{WorkflowKey: agent.WorkflowKey{Tenant: "acme", Owner: "default", Tag: tag}, Version: 3, Definition: d}
}

func granted(name, kind, description, parameters string) agent.PlanTool {
	if parameters == "" {
		parameters = `{"type":"object","properties":{}}`
	}
	return agent.PlanTool{Spec: agent.ToolSpec{Name: name, Description: description, Parameters: json.RawMessage(parameters)}, Toolkit: "kit", Kind: kind}
}

func invocation(tools ...agent.PlanTool) agent.Invocation {
	return agent.Invocation{Tenant: "acme", Toolset: func(context.Context) ([]agent.PlanTool, error) { return tools, nil }}
}

type answer struct {
	Tools []struct {
		Name, Type, Description, Toolkit string
		Parameters                       json.RawMessage
		ParameterNames                   []string `json:"parameter_names"`
		Score                            float64
	}
	Workflows []struct {
		Type        string
		Tag         string `json:"workflow_tag"`
		Owner       string `json:"workflow_owner"`
		Description string
		Version     int64
		Name        *string
	}
	TotalFound int `json:"total_found"`
	Hint       string
	Error      *agent.Failure
}

func theTool(t *testing.T, cfg toolsearch.Config) agent.Tool {
	t.Helper()
	if cfg.Ranking == nil {
		cfg.Ranking = &words{}
	}
	kit, err := toolsearch.New(cfg)
	require.NoError(t, err)
	return kit.Tools()[0]
}

func ask(t *testing.T, cfg toolsearch.Config, inv agent.Invocation, args string) (answer, agent.ToolResult) {
	t.Helper()
	res, err := theTool(t, cfg).Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: toolsearch.ToolName, Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	var a answer
	require.NoError(t, json.Unmarshal(res.Output, &a))
	require.LessOrEqual(t, len(res.Output), 24<<10)
	return a, res
}

func names(a answer) []string {
	list := []string{}
	for _, f := range a.Tools {
		list = append(list, f.Name)
	}
	return list
}

func TestConformance(t *testing.T) {
	t.Parallel()
	kit, err := toolsearch.New(toolsearch.Config{Ranking: &words{}, Workflows: &workflows{}})
	require.NoError(t, err)
	require.Equal(t, "toolsearch", kit.Name())
	tooltest.Exercise(t, kit)
	_, err = toolsearch.New(toolsearch.Config{})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
}

func TestFactory(t *testing.T) {
	t.Parallel()
	_, err := tool.Build(tool.Dependencies{Workflows: &workflows{}}, toolsearch.Factory())
	require.ErrorContains(t, err, "full-text ranking")
	r, err := tool.Build(tool.Dependencies{Ranking: &words{}, Workflows: &workflows{tenant: "acme", all: []agent.StoredWorkflow{workflow("main", "flights", "n")}}}, toolsearch.Factory())
	require.NoError(t, err)
	code, err := r.Tool("toolsearch", "search_tools")
	require.NoError(t, err)
	res, err := code.Call(t.Context(), invocation(granted("patch_workflow", "", "", "")), agent.ToolCall{Args: json.RawMessage(`{"query":"flights"}`)})
	require.NoError(t, err)
	require.Contains(t, string(res.Output), `"workflow_tag":"main"`)
}

// TestSchema compares the schema with the published one.
func TestSchema(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	spec := theTool(t, toolsearch.Config{}).Spec()
	require.Equal(t, string(raw), string(spec.Parameters))
	require.JSONEq(t, `{"type":"object","required":["query"],"additionalProperties":false,"properties":{
		"query":{"type":"string","description":"Search query (keywords or description)"},
		"limit":{"type":"integer","description":"Max results to return","default":10}}}`, string(raw))
	require.Equal(t, "Search for existing composite tools and workflows", spec.Description)
	require.True(t, spec.Strict)
	require.True(t, spec.RevealsTools)
	require.True(t, spec.InherentlySafe)
	require.True(t, spec.Idempotent)
}

func TestSearch(t *testing.T) {
	t.Parallel()
	flights := `{"type":"object","properties":{"origin":{"type":"string","description":"airport code"},"top":true}}`
	inv := invocation(
		granted("search_tools", "", "Search for existing tools", ""),
		granted("fetch_flights_by_price", "composite", "Fetches rows", flights),
		granted("echo", "mcp", "Says flights again", ""),
		granted("patch_workflow", "", "Change a workflow", ""),
		granted("send", "", "Sends mail to an airport", ""),
	)
	library := &workflows{tenant: "acme", all: []agent.StoredWorkflow{
		workflow("price-watch", "Watches flights", "send_email"), workflow("other", "Nothing", "x"), workflow("third", "flights and flights", "x"),
	}}
	cfg := toolsearch.Config{Ranking: &words{}, Workflows: library}

	a, res := ask(t, cfg, inv, `{"query":"flights"}`)
	require.Nil(t, res.Failure)
	require.Equal(t, []string{"fetch_flights_by_price", "echo"}, names(a), "words of the name count more")
	require.Equal(t, "composite", a.Tools[0].Type)
	require.Equal(t, "mcp", a.Tools[1].Type)
	require.Equal(t, "kit", a.Tools[0].Toolkit)
	require.JSONEq(t, flights, string(a.Tools[0].Parameters))
	require.Greater(t, a.Tools[0].Score, a.Tools[1].Score)
	require.Len(t, a.Workflows, 2)
	require.Equal(t, "price-watch", a.Workflows[0].Tag)
	require.Equal(t, "default", a.Workflows[0].Owner)
	require.Equal(t, "workflow", a.Workflows[0].Type)
	require.EqualValues(t, 3, a.Workflows[0].Version)
	require.Nil(t, a.Workflows[0].Name, "a name would reveal a tool")
	require.Equal(t, 4, a.TotalFound)
	require.Empty(t, a.Hint)

	for query, want := range map[string]string{
		"code": "fetch_flights_by_price", "origin": "fetch_flights_by_price", "MAIL": "send", "echo": "echo", "search_tools": "search_tools",
	} {
		a, _ = ask(t, cfg, inv, fmt.Sprintf(`{"query":%q}`, query))
		require.Equal(t, want, names(a)[0], query)
	}
	a, _ = ask(t, cfg, inv, `{"query":"email price"}`)
	require.Equal(t, "price-watch", a.Workflows[0].Tag, "by its tag and its nodes")
}

func TestNothingFound(t *testing.T) {
	t.Parallel()
	for _, inv := range []agent.Invocation{{Tenant: "acme"}, invocation(), invocation(granted("echo", "", "", ""))} {
		a, res := ask(t, toolsearch.Config{Workflows: &workflows{}}, inv, `{"query":"flights"}`)
		require.Nil(t, res.Failure)
		require.JSONEq(t, `{"tools":[],"workflows":[],"total_found":0,"hint":"Nothing was found. Try other words for what the tool is to do."}`, string(res.Output))
		require.Zero(t, a.TotalFound)
	}
}

// TestGrants checks that only tools of the turn are found, and workflows of the tenant only if the turn has patch_workflow.
func TestGrants(t *testing.T) {
	t.Parallel()
	library := &workflows{tenant: "acme", all: []agent.StoredWorkflow{workflow("main", "flights", "x")}}
	cfg := toolsearch.Config{Workflows: library}
	a, _ := ask(t, cfg, invocation(granted("echo", "", "flights", "")), `{"query":"flights"}`)
	require.Len(t, a.Tools, 1)
	require.Empty(t, a.Workflows)
	require.Zero(t, library.asked, "without patch_workflow, workflows are not listed")
	inv := invocation(granted("patch_workflow", "", "", ""))
	a, _ = ask(t, cfg, inv, `{"query":"flights"}`)
	require.Len(t, a.Workflows, 1)
	inv.Tenant = "other"
	a, _ = ask(t, cfg, inv, `{"query":"flights"}`)
	require.Empty(t, a.Workflows)
	gone := workflow("main", "flights", "x")
	gone.Deleted = true
	a, _ = ask(t, toolsearch.Config{Workflows: &workflows{tenant: "acme", all: []agent.StoredWorkflow{gone}}}, invocation(granted("patch_workflow", "", "", "")), `{"query":"flights"}`)
	require.Empty(t, a.Workflows)
}

func TestArguments(t *testing.T) {
	t.Parallel()
	inv := invocation()
	tests := map[string]struct{ args, field, message string }{
		"no query":      {`{}`, "query", "is required"},
		"null":          {`{"query":null}`, "query", "is required"},
		"empty":         {`{"query":""}`, "query", "is empty"},
		"blank":         {`{"query":" \n"}`, "query", "is empty"},
		"long":          {`{"query":"` + strings.Repeat("x", 2001) + `"}`, "query", "is 2001 bytes, at most 2000"},
		"number":        {`{"query":1}`, "query", "want a string, got a number"},
		"unknown":       {`{"query":"x","top":1}`, "top", "unknown field"},
		"zero":          {`{"query":"x","limit":0}`, "limit", "want a whole number of at least 1, got 0"},
		"negative":      {`{"query":"x","limit":-3}`, "limit", "at least 1"},
		"fraction":      {`{"query":"x","limit":1.5}`, "limit", "want a whole number"},
		"text as limit": {`{"query":"x","limit":"3"}`, "limit", "want a number, got a string"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, res := ask(t, toolsearch.Config{}, inv, tt.args)
			require.NotNil(t, res.Failure)
			require.Equal(t, tt.field, a.Error.Field)
			require.Contains(t, a.Error.Message, tt.message)
			require.Equal(t, toolsearch.ToolName, a.Error.Tool)
			require.Equal(t, "invalid arguments", theTool(t, toolsearch.Config{}).(agent.Summarizer).Summarize(json.RawMessage(tt.args)))
		})
	}
}

func many(n int, kind, parameters string) []agent.PlanTool {
	list := make([]agent.PlanTool, n)
	for i := range list {
		list[i] = granted(fmt.Sprintf("tool_%d", i), kind, "finds things. "+strings.Repeat("More words. ", 40), parameters)
		list[i].Deferred = true
	}
	return list
}

func TestLimit(t *testing.T) {
	t.Parallel()
	inv := invocation(many(120, "", "")...)
	for args, want := range map[string]int{
		`{"query":"things."}`: 10, `{"query":"things.","limit":null}`: 10, `{"query":"things.","limit":3}`: 3, `{"query":"things.","limit":3.0}`: 3,
		`{"query":"things.","limit":50}`: 50, `{"query":"things.","limit":51}`: 50, `{"query":"things.","limit":1e9}`: 50,
	} {
		a, _ := ask(t, toolsearch.Config{}, inv, args)
		require.Len(t, a.Tools, want, args)
		require.Equal(t, 120, a.TotalFound)
		require.Equal(t, "tool_0", a.Tools[0].Name, "equal ones in the turn's order")
		require.Equal(t, "Tools that were found can be called by their names from now on.", a.Hint)
		require.LessOrEqual(t, len(a.Tools[0].Description), 300)
	}
}

// TestAnswerIsBounded checks that a long answer loses schemas, then parameter names, then entries, each from the last entry on.
func TestAnswerIsBounded(t *testing.T) {
	t.Parallel()
	property := func(n int) string {
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(`"parameter_%d":{"type":"string","description":"What it is"}`, i))
		}
		return `{"type":"object", "properties":{` + strings.Join(parts, ",") + `}}`
	}
	a, _ := ask(t, toolsearch.Config{}, invocation(many(20, "", property(20))...), `{"query":"things.","limit":20}`)
	require.Len(t, a.Tools, 20)
	require.NotEmpty(t, a.Tools[0].Parameters)
	require.Empty(t, a.Tools[0].ParameterNames)
	require.Empty(t, a.Tools[19].Parameters)
	require.Len(t, a.Tools[19].ParameterNames, 20)

	a, _ = ask(t, toolsearch.Config{}, invocation(many(1, "", property(60))...), `{"query":"things."}`)
	require.Empty(t, a.Tools[0].Parameters, "a schema over 2 KiB is names")
	require.Len(t, a.Tools[0].ParameterNames, 40)

	inv := invocation(append(many(50, "", property(20)), granted("patch_workflow", "", "", ""))...)
	inv.InlineBytes = 2000
	library := &workflows{tenant: "acme", all: []agent.StoredWorkflow{workflow("main", "things.", "x")}}
	a, res := ask(t, toolsearch.Config{Workflows: library}, inv, `{"query":"things. main","limit":50}`)
	require.LessOrEqual(t, len(res.Output), 2000, "an answer that is moved to the blob store reveals no tools")
	require.Len(t, a.Workflows, 1, "the best stays")
	require.NotEmpty(t, a.Tools)
	require.Empty(t, a.Tools[0].ParameterNames)
	require.Equal(t, 51, a.TotalFound)
	inv.InlineBytes = 1
	a, _ = ask(t, toolsearch.Config{}, inv, `{"query":"things."}`)
	require.Empty(t, a.Tools)
}

func TestManyTextsAreRankedInParts(t *testing.T) {
	t.Parallel()
	tools := many(2500, "mcp", `{"type":"object","properties":{"a":{"type":"string","description":"`+strings.Repeat("x", 5000)+`"}}}`)
	tools[2400].Spec.Name = "things. best"
	w := &words{}
	a, _ := ask(t, toolsearch.Config{Ranking: w}, invocation(tools...), `{"query":"things.","limit":2}`)
	require.Equal(t, []string{"things. best", "tool_0"}, names(a))
	require.Equal(t, 2500, a.TotalFound)
	require.Equal(t, 1000, w.longest)
	require.Len(t, w.ranked, 2500)
	for _, text := range w.ranked {
		require.LessOrEqual(t, len(text.Title)+len(text.Body), 256+1024)
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	away := agent.Errorf(agent.CodeUnavailable, "rank", "away")
	call := agent.ToolCall{Args: json.RawMessage(`{"query":"flights"}`)}
	inv := invocation(granted("patch_workflow", "", "flights", ""))
	_, err := theTool(t, toolsearch.Config{Ranking: &words{fail: away}}).Call(t.Context(), inv, call)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	_, err = theTool(t, toolsearch.Config{}).Call(t.Context(), agent.Invocation{Toolset: func(context.Context) ([]agent.PlanTool, error) { return nil, away }}, call)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))

	three := []agent.StoredWorkflow{workflow("a", "flights", "x"), workflow("b", "flights", "x"), workflow("c", "flights", "x")}
	a, res := ask(t, toolsearch.Config{Workflows: &workflows{tenant: "acme", all: three, fail: away}}, inv, `{"query":"flights"}`)
	require.Nil(t, res.Failure)
	require.Len(t, a.Tools, 1)
	require.Len(t, a.Workflows, 2, "the first page is used")
	require.Equal(t, "Workflows could not be searched at present.", a.Hint)
}

// TestTokensOfAPrompt checks that 500 deferred tools add only search_tools to a prompt, which has less than 100 tokens of four bytes.
func TestTokensOfAPrompt(t *testing.T) {
	t.Parallel()
	spec := theTool(t, toolsearch.Config{}).Spec()
	function, err := json.Marshal(map[string]any{"type": "function", "function": map[string]any{
		"name": spec.Name, "description": spec.Description, "strict": spec.Strict, "parameters": spec.Parameters,
	}})
	require.NoError(t, err)
	t.Logf("search_tools is %d bytes, some %d tokens", len(function), len(function)/4)
	require.Less(t, len(function)/4, 100)

	a, res := ask(t, toolsearch.Config{}, invocation(many(500, "mcp", `{"type":"object","properties":{"q":{"type":"string"}}}`)...), `{"query":"things.","limit":5}`)
	require.Len(t, a.Tools, 5)
	t.Logf("five of 500 are %d bytes, some %d tokens", len(res.Output), len(res.Output)/4)
	require.Less(t, len(res.Output)/4, 900)
}
