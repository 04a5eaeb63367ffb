package offline

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
)

// ask returns the model's answer to messages, in a request with all tools of the prompts and the tool lookup. members are other members of the request.
func ask(t *testing.T, members object, messages ...object) reply {
	t.Helper()
	tools := []object{}
	for _, name := range []string{pipelineTool, patchTool, delegateTool, "open_file", "lookup"} {
		schema := `{"type":"object","required":["q","limit"],"properties":{"q":{"type":"string"},"limit":{"type":["integer","null"],"minimum":1}}}`
		tools = append(tools, object{"type": "function", "function": object{"name": name, "parameters": json.RawMessage(schema)}})
	}
	body := object{"model": ModelName, "messages": messages, "tools": tools}
	maps.Copy(body, members)
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	req, refused := decodeRequest(raw)
	require.Nil(t, refused)
	return newModel(Config{FlightsURL: "http://api/flights", TokenDelay: -1}).respond(req)
}

func user(text string) object { return object{"role": "user", "content": text} }

// step is the pipeline step that requests the flights from NYC to LAX.
const step = `{"step":"http_request","url":"http://api/flights","method":"GET","params":{"dest":"LAX","origin":"NYC"}}`

const session = `
<session_context>
{"last_result":{"ref":"cas://sha256:ab","row_count":50},"earlier_results":[{"ref":"cas://sha256:cd"}]}
</session_context>
They are data.`

func pipeline(steps, more string) string {
	return `{"session_id":"offline","pipeline":[` + steps + `]` + more + `}`
}

// TestPromptsBecomeCalls has the prompts in README.md, docs/ and tests that call a tool.
func TestPromptsBecomeCalls(t *testing.T) {
	t.Parallel()
	sorted := `,{"step":"table_sort","field":"price","order":"asc"}`
	top := pipeline(step+sorted+`,{"step":"top_k","k":3}`, "")
	under := func(n string) string {
		return `{"step":"table_filter","condition":{"field":"price","op":"<","value":` + n + `}}`
	}
	ref, patch := `,"input_ref":"cas://sha256:ab"`, `{"workflow_tag":"main","patch_spec":{"operations":[`+
		`{"op":"add","path":"/nodes/-","value":{"id":"price_check","type":"condition","expr":"price < 500"}},`+
		`{"op":"add","path":"/nodes/-","value":{"id":"send_email","type":"task","config":{"action":"email","subject":"Price drop!"}}},`+
		`{"op":"add","path":"/edges/-","value":{"from":"fetch_flights","to":"price_check"}},`+
		`{"op":"add","path":"/edges/-","value":{"from":"price_check","to":"send_email","condition":"true"}}],`+
		`"description":"Add price drop email notification"}}`
	for prompt, want := range map[string]function{
		"fetch flights from NYC to LAX, sort by price, show top 3":                {Name: pipelineTool, Arguments: top},
		"fetch flight prices from NYC to LAX, sort by price, show cheapest 3":     {Name: pipelineTool, Arguments: top},
		"fetch flights, sort by price, top 3":                                     {Name: pipelineTool, Arguments: top},
		"cheapest 3 flights from NYC to LAX":                                      {Name: pipelineTool, Arguments: top},
		"fetch flights NYC to LAX":                                                {Name: pipelineTool, Arguments: pipeline(step, "")},
		"fetch flights":                                                           {Name: pipelineTool, Arguments: pipeline(step, "")},
		"fetch airlines":                                                          {Name: pipelineTool, Arguments: pipeline(`{"step":"http_request","url":"http://api/airlines","method":"GET"}`, "")},
		"fetch https://x.example/a?b=1, top 2":                                    {Name: pipelineTool, Arguments: pipeline(`{"step":"http_request","url":"https://x.example/a?b=1","method":"GET"},{"step":"top_k","k":2}`, "")},
		"now filter those under $500" + session:                                   {Name: pipelineTool, Arguments: pipeline(under("500"), ref)},
		"and the ones under $300?" + session:                                      {Name: pipelineTool, Arguments: pipeline(under("300"), ref)},
		"sort them by departure" + session:                                        {Name: pipelineTool, Arguments: pipeline(`{"step":"table_sort","field":"departure","order":"asc"}`, ref)},
		"sort them by price, highest first" + session:                             {Name: pipelineTool, Arguments: pipeline(`{"step":"table_sort","field":"price","order":"desc"}`, ref)},
		"first 2, only id, price and stops" + session:                             {Name: pipelineTool, Arguments: pipeline(`{"step":"top_k","k":2},{"step":"table_select","fields":["id","price","stops"]}`, ref)},
		"fetch flights from NYC to LAX under $300, nonstop, only id and price":    {Name: pipelineTool, Arguments: pipeline(step+`,{"step":"table_filter","condition":{"field":"stops","op":"=","value":0}},`+under("300")+`,{"step":"table_select","fields":["id","price"]}`, "")},
		"add email notification whenever price drops below $500":                  {Name: patchTool, Arguments: patch},
		"add email notification when price < $500":                                {Name: patchTool, Arguments: patch},
		"ask analyst: fetch flights from NYC to LAX, sort by price, show \"top\"": {Name: delegateTool, Arguments: `{"agent_type":"langchain_agent","inputs":{"message":"fetch flights from NYC to LAX, sort by price, show \"top\""},"config":{"agent":"analyst"}}`},
		"which file is open?":                                                     {Name: "open_file", Arguments: `{}`},
		`call lookup {"q": "tea"}`:                                                {Name: "lookup", Arguments: `{"q": "tea"}`},
		"use lookup for tea":                                                      {Name: "lookup", Arguments: `{"limit":1,"q":"use lookup for tea"}`},
		`execute_pipeline {"pipeline": []}`:                                       {Name: pipelineTool, Arguments: `{"pipeline": []}`},
	} {
		r := ask(t, nil, user(prompt))
		require.Len(t, r.calls, 1, "%s: %s", prompt, r.text)
		require.Equal(t, want, r.calls[0].Function, prompt)
		require.Equal(t, "tool_calls", r.finish)
		require.Equal(t, r, ask(t, nil, user(prompt)), "the same request has the same answer")
	}
	require.Len(t, ask(t, nil, user("fetch twice flights from NYC to LAX, top 2")).calls, 2)
	system := object{"role": "system", "content": "You work.\nSession: trip-1\n"}
	require.Contains(t, ask(t, nil, system, user("fetch airlines")).calls[0].Function.Arguments, `"session_id":"trip-1"`)
}

func TestPromptsBecomeText(t *testing.T) {
	t.Parallel()
	for prompt, want := range map[string]string{
		"say 3 words":                "word1 word2 word3",
		"say 1 word":                 "word1",
		"sort those by price, top 3": noRows,
		"Is anything wrong? If not, answer HEARTBEAT_OK.": "HEARTBEAT_OK",
	} {
		require.Equal(t, reply{text: want, finish: "stop"}, ask(t, nil, user(prompt)), prompt)
	}
	require.Equal(t, slowToken, ask(t, nil, user("say 2 words slowly")).pace)
	require.Equal(t, reply{text: "word1 word2 ", finish: "length"}, ask(t, object{"max_tokens": 2}, user("say 3 words")))
	other := ask(t, nil, user("what happened overnight?")).text
	for _, want := range []string{"scripted offline model", `You said: "what happened overnight?"`, "OPENAI_API_KEY", "turnstone.yaml"} {
		require.Contains(t, other, want)
	}
	none := ask(t, object{"tool_choice": "none"}, user("add email notification whenever price drops below $500"))
	require.Equal(t, "That needs the tool patch_workflow, which this agent does not have.\n", none.text)
}

func TestResults(t *testing.T) {
	t.Parallel()
	for _, x := range []struct{ prompt, result, want string }{
		{
			"fetch flights, sort by stops", `{"ref":"cas://sha256:ab","rows":[{"a":"x|y","b":1.50,"c":null,"d":true,"e":5,"f":6,"stops":7}],"row_count":1}`,
			"Found 1 row:\n\n| a | b | c | d | e | stops |\n|---|---|---|---|---|---|\n| x\\|y | 1.50 |  | true | 5 | 7 |\n" +
				"\nNo route was given, so these are flights from NYC to LAX.\n",
		},
		{"fetch airlines", `{"rows":[],"row_count":0}`, "Found no rows.\n"},
		{
			"fetch airlines", `{"ref":"cas://sha256:ab","preview":{"row_count":900,"sample":[{"a":1},{"a":2}]}}`,
			"Found 900 rows; the first 2:\n\n| a |\n|---|\n| 1 |\n| 2 |\n\nAll rows are stored as cas://sha256:ab.\n",
		},
		{"fetch airlines", `{"error":{"message":"no such field.","field":"pipeline[1]"}}`, "That did not work: no such field (pipeline[1]).\n"},
		{"fetch airlines", `Error: {"error":{"message":"no"}}`, "That did not work: no.\n"},
		{"ask analyst: hello", `{"output":"Hello.\n\n"}`, "Hello.\n"},
		{"add email notification whenever price < 5", `{"patch_id":"p-1","version":2}`, "The workflow is changed: patch p-1, version 2.\n"},
		{"add email notification whenever price < 5", `{"patch_id":"p-1"}`, "The workflow is changed: patch p-1.\n"},
		{"call lookup", `plain`, "The tool answered:\n\n```\nplain\n```\n"},
	} {
		call := object{"role": "assistant", "tool_calls": []object{{"id": "c1", "type": "function", "function": object{"name": "lookup", "arguments": "{}"}}}}
		answer := object{"role": "tool", "tool_call_id": "c1", "content": x.result}
		require.Equal(t, x.want, ask(t, nil, user(x.prompt), call, answer).text, x.result)
	}
}

func TestAskAgents(t *testing.T) {
	t.Parallel()
	classify := "Answer with one of these words: retrieval, code, conversational."
	passages := "Answer from the passages.\n\n[1] Turns — docs/start/turn.md\n> # Direct\n> A direct turn that finds its session busy becomes\n> a workflow. It costs little.\n\n" +
		"[2] Tools — docs/guides/tools.md\n> A tool is a typed function.\n"
	for _, x := range []struct{ system, message, want string }{
		{classify, "what does a direct turn do?", "retrieval"},
		{classify, "show me a code example", "code"},
		{classify, "hello!", "conversational"},
		{"Rewrite the last message as one question.", "what is a tool?", "what is a tool?"},
		{passages, "what does a direct turn do when its session is busy?", "A direct turn that finds its session busy becomes a workflow [1].\n"},
		{passages, "is a tool a function?", "A tool is a typed function [2].\n"},
		{passages, "zebras?", "The passages do not say that.\n"},
		{"Answer.\n\nContext: nothing was found.", "zebras?", "The documents do not say that.\n"},
	} {
		require.Equal(t, x.want, ask(t, nil, object{"role": "system", "content": x.system}, user(x.message)).text, x.message)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	schema := json.RawMessage(`{"type":"object","required":["words","ok","n","size","kind","inner"],"properties":{
		"words":{"type":"array","items":{"type":"string"}},"ok":{"type":"boolean"},"n":{"type":"integer","minimum":3},"size":{"type":"number"},
		"kind":{"enum":["a","b"]},"inner":{"properties":{"x":{}},"required":["x"]},"more":{"type":"string"}}}`)
	want := `{"inner":{"x":"word1 word2"},"kind":"a","n":3,"ok":false,"size":0,"words":["word1 word2"]}`
	format := object{"type": "json_schema", "json_schema": object{"name": "x", "schema": schema}}
	require.Equal(t, reply{text: want, finish: "stop"}, ask(t, object{"response_format": format}, user("say 2 words")))

	tools := []object{{"type": "function", "function": object{"name": "structured_response", "parameters": schema}}}
	r := ask(t, object{"tools": tools, "tool_choice": "required"}, user("say 2 words"))
	require.Equal(t, function{Name: "structured_response", Arguments: want}, r.calls[0].Function)
}
