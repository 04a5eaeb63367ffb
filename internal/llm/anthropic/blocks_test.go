package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/anthropic"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// A search by the API becomes blocks, which are emitted at once and sent back unchanged with their citations.
func TestSearchIsSentBack(t *testing.T) {
	const results = `[{"type":"web_search_result","title":"Weather","url":"https://example.org/w","encrypted_content":"ZW5j","page_age":"2 days"}]`
	const location = `{"type":"web_search_result_location","url":"https://example.org/w","title":"Weather","cited_text":"It rains.","encrypted_index":"aWR4"}`
	transport := &llmtest.Transport{Events: stream(start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"query\":"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"\"rain\"}"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":`+results+`}}`,
		`{"type":"content_block_stop","index":1}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Rain."}}`,
		`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":`+location+`}}`,
		`{"type":"content_block_stop","index":2}`,
		ended, stop)}
	var emitted []agent.Block
	reply, err := newModel(t, transport, "").Generate(t.Context(), hello, func(d agent.Delta) error {
		if d.Block != nil {
			emitted = append(emitted, *d.Block)
		}
		return nil
	})
	require.NoError(t, err)
	cited := []agent.Annotation{{
		Type: "citation", URL: "https://example.org/w", Title: "Weather", CitedText: "It rains.",
		Extras: json.RawMessage(`{"block_type":"web_search_result_location","encrypted_index":"aWR4","title":"Weather"}`),
	}}
	want := []agent.Block{
		{
			Type: agent.BlockServerToolCall, ID: "srvtoolu_1", Name: "web_search", Args: json.RawMessage(`{"query":"rain"}`),
			Extras: json.RawMessage(`{"block_type":"server_tool_use"}`),
		},
		{
			Type: agent.BlockServerToolResult, ToolCallID: "srvtoolu_1", Name: "web_search", Status: agent.ResultSuccess, Output: json.RawMessage(results),
			Extras: json.RawMessage(`{"block_type":"web_search_tool_result"}`),
		},
		{Type: agent.BlockText, Text: "Rain.", Annotations: cited},
	}
	require.Equal(t, want, reply.Blocks)
	require.Equal(t, append(want[:2:2], agent.Block{Type: agent.BlockText, Annotations: cited}), emitted)

	require.JSONEq(t, `[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"rain"}},`+
		`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":`+results+`},`+
		`{"type":"text","text":"Rain.","citations":[`+location+`]}]`, sentBack(t, storeAndLoad(t, reply.Blocks)))
}

// storeAndLoad returns blocks after they were stored.
func storeAndLoad(t *testing.T, blocks []agent.Block) []agent.Block {
	t.Helper()
	raw, err := json.Marshal(blocks)
	require.NoError(t, err)
	var back []agent.Block
	require.NoError(t, json.Unmarshal(raw, &back))
	return back
}

// Results of server tools are sent back without the members that the API does not take. A result of an unknown type is sent back whole.
func TestServerResultsAreSentBack(t *testing.T) {
	for kind, content := range map[string][2]string{
		"code_execution_tool_result": {
			`{"type":"code_execution_result","return_code":0,"stdout":"<a>","stderr":"","content":[{"type":"code_execution_output","file_id":"f","x":1}],"x":1}`,
			`{"type":"code_execution_result","return_code":0,"stdout":"<a>","stderr":"","content":[{"type":"code_execution_output","file_id":"f"}]}`,
		},
		"web_fetch_tool_result":   {`{"type":"web_fetch_result","x":{"type":"code_execution_output","y":1}}`, `{"type":"web_fetch_result","x":{"type":"code_execution_output","y":1}}`},
		"tool_search_tool_result": {`{"type":"tool_search_tool_result_error","error_code":"e","x":1}`, `{"type":"tool_search_tool_result_error","error_code":"e"}`},
	} {
		const call = `{"type":"server_tool_use","id":"s1","name":"n","input":{"type":"tool_reference","n":9007199254740993},"caller":`
		transport := &llmtest.Transport{Events: stream(start,
			`{"type":"content_block_start","index":0,"content_block":`+call+`{"type":"code_execution_20250825","tool_id":"t"}}}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"`+kind+`","tool_use_id":"s1","content":`+content[0]+`,"caller":null,"x":1}}`,
			ended, stop)}
		reply, err := generate(t, transport, "", hello)
		require.NoError(t, err)
		back := sentBack(t, storeAndLoad(t, reply.Blocks))
		require.JSONEq(t, `[`+call+`{"type":"code_execution_20250825","tool_id":"t"}},{"type":"`+kind+`","tool_use_id":"s1","content":`+content[1]+`}]`, back)
		require.Contains(t, back, "9007199254740993")
	}
}

func TestFailedSearch(t *testing.T) {
	transport := &llmtest.Transport{Events: stream(start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1",`+
			`"content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}}`,
		ended, stop)}
	var emitted []agent.Block
	reply, err := newModel(t, transport, "").Generate(t.Context(), hello, func(d agent.Delta) error { emitted = append(emitted, *d.Block); return nil })
	require.NoError(t, err)
	require.Equal(t, reply.Blocks, emitted, "blocks without an end event are emitted at the end")
	require.JSONEq(t, `{}`, string(reply.Blocks[0].Args))
	require.Equal(t, agent.ResultError, reply.Blocks[1].Status)
	require.JSONEq(t, `[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},{"type":"web_search_tool_result",`+
		`"tool_use_id":"srvtoolu_1","content":{"type":"web_search_tool_result_error","error_code":"max_uses_exceeded"}}]`, sentBack(t, reply.Blocks))
}

// Citations of documents keep their position.
func TestDocumentCitations(t *testing.T) {
	const location = `{"type":"char_location","cited_text":"Seven.","document_index":0,"document_title":"Terms","start_char_index":10,"end_char_index":16}`
	sent := strings.Replace(location, "{", `{"file_id":null,`, 1) // a member that the API does not take back
	transport := &llmtest.Transport{Events: stream(start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"7"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":`+sent+`}}`,
		ended, stop)}
	reply, err := generate(t, transport, "", hello)
	require.NoError(t, err)
	a := reply.Blocks[0].Annotations[0]
	require.Equal(t, []string{"citation", "Terms", "Seven."}, []string{a.Type, a.Title, a.CitedText})
	require.JSONEq(t, `[{"type":"text","text":"7","citations":[`+location+`]}]`, sentBack(t, storeAndLoad(t, reply.Blocks)))
	// Citations from another provider are not sent, but their text is.
	foreign := agent.Block{Type: agent.BlockText, Text: "7", Annotations: []agent.Annotation{{Type: "citation", URL: "https://example.org"}}}
	require.JSONEq(t, `[{"type":"text","text":"7"}]`, sentBack(t, []agent.Block{foreign}))
}

func TestCacheMarks(t *testing.T) {
	tool := agent.ToolSpec{Name: "f"}
	full := agent.ModelRequest{Model: "m", System: "Be brief.", About: "Session: s", Tools: []agent.ToolSpec{{Name: "g"}, tool}, Messages: []agent.Message{
		{Role: agent.RoleSystem, Blocks: []agent.Block{agent.Text("A summary.")}}, agent.UserText("Hello"), agent.UserText("again"),
	}}
	body := func(t *testing.T, req agent.ModelRequest, ttl string) string {
		t.Helper()
		transport := &llmtest.Transport{Events: stream(start, ended, stop)}
		req.Cache = &agent.PromptCache{TTL: ttl}
		_, err := generate(t, transport, "", req)
		require.NoError(t, err)
		return string(transport.Sent)
	}
	const mark, hour = `"cache_control":{"type":"ephemeral"}`, `"cache_control":{"ttl":"1h","type":"ephemeral"}`
	for ttl, want := range map[string]string{"": mark, "5m": mark, "1h": hour} {
		got := body(t, full, ttl)
		require.Equal(t, 3, strings.Count(got, "cache_control"))
		require.Equal(t, 3, strings.Count(got, want), got)
		require.Contains(t, got, `{"text":"Be brief.",`+want+`,"type":"text"}`, "the end of the stable system prompt")
		require.Contains(t, got, `{"text":"Session: s","type":"text"}`)
		require.Contains(t, got, `{"text":"again",`+want+`,"type":"text"}`)
		require.Contains(t, got, `"name":"f",`+want)
	}
	// Without a prompt and tools only the conversation is marked. Thinking takes no mark, so the block before it gets it.
	short := agent.ModelRequest{Model: "m", Messages: []agent.Message{
		agent.UserText("Hello"), {Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text("Hm."), {Type: agent.BlockReasoning, Signature: "s"}}},
	}}
	require.Equal(t, 1, strings.Count(body(t, short, ""), mark))
	require.Contains(t, body(t, short, ""), `{"text":"Hm.",`+mark+`,"type":"text"}`)

	transport := &llmtest.Transport{Events: stream(start, ended, stop)}
	full.Cache = &agent.PromptCache{TTL: "2h"}
	_, err := generate(t, transport, "", full)
	require.ErrorContains(t, err, `cache.ttl: anthropic: want 5m or 1h, got "2h"`)
	require.Nil(t, transport.Sent)
}

// A schema in the enforced subset is sent unchanged. Other keywords move to the description.
func TestOutputSchema(t *testing.T) {
	object := func(properties string) string {
		return `{"type":"object","properties":{` + properties + `},"additionalProperties":false}`
	}
	for schema, want := range map[string]string{
		object(`"z":{"type":"string"},"a":{"type":"integer"}`):         "",
		object(`"n":{"type":["string","null"]},"a":{"type":"string"}`): "",
		`{"type":"object","properties":{"n":{"type":"integer","minimum":1.50}},"required":["n"]}`: `{"type":"object","properties":` +
			`{"n":{"type":"integer","description":"{minimum: 1.50}"}},"required":["n"],"additionalProperties":false}`,
		`{"type":"object"}`: object(``),
		object(`"a":{"type":"object","additionalProperties":{"type":"object"}}`): object(`"a":{"type":"object","additionalProperties":` + object(``) + `}`),
		object(`"a":{"type":"string","format":"regex","maxLength":3,"description":"A."},"b":{"type":"string","format":"uri"}`): object(
			`"a":{"type":"string","description":"A.\n\n{format: \"regex\", maxLength: 3}"},"b":{"type":"string","format":"uri"}`),
		object(`"a":{"type":"array","items":{"type":"object"},"minItems":2},"b":{"type":"array","minItems":1}`): object(
			`"a":{"type":"array","items":` + object(``) + `,"description":"{minItems: 2}"},"b":{"type":"array","minItems":1}`),
		object(`"a":{"oneOf":[{"type":"string"},{"type":"object"}]},"b":{"allOf":[{"type":"object"}]}`): object(
			`"a":{"anyOf":[{"type":"string"},` + object(``) + `]},"b":{"allOf":[` + object(``) + `]}`),
		object(`"z":{"enum":["x",1]},"b":{"const":5},"c":{"description":"any"},"d":{"anyOf":[{}]},"e":false`): "",
		`{"type":"object","properties":{"n":{"type":["string","null"],"minLength":1}}}`: object(
			`"n":{"type":["string","null"],"description":"{minLength: 1}"}`),
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/A","title":"T"}},"$defs":{"A":{"type":"object"}}}`: `{"type":"object","properties":` +
			`{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":` + object(``) + `},"additionalProperties":false}`,
	} {
		transport := &llmtest.Transport{Events: stream(start, ended, stop)}
		req := hello
		req.OutputSchema = json.RawMessage(schema)
		_, err := generate(t, transport, "", req)
		require.NoError(t, err)
		if want == "" {
			i, j := strings.Index(string(transport.Sent), `"properties":{`), strings.Index(schema, `"properties":{`)
			require.Equal(t, schema[j:j+50], string(transport.Sent)[i:i+50], "in the same order")
			continue
		}
		var sent struct {
			OutputConfig struct {
				Format struct{ Schema json.RawMessage }
			} `json:"output_config"`
		}
		require.NoError(t, json.Unmarshal(transport.Sent, &sent))
		require.JSONEq(t, want, string(sent.OutputConfig.Format.Schema), schema)
	}
}

func TestConformance(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.Anthropic{}, Open: anthropic.New, Requests: "testdata/requests"})
}
