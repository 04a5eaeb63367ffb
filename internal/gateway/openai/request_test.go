package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// tool returns a tool of a request.
func tool(name string) string { return `{"type":"function","function":{"name":"` + name + `"}}` }

// TestRequests compares the turn requests of many requests, as JSON without the members that all have.
func TestRequests(t *testing.T) {
	user := `{"role":"user","content":"hello"}`
	said := `{"role":"user","blocks":[{"type":"text","text":"hello"}]}`
	cases := map[string]struct{ body, want string }{
		"only the required members": {`{"model":"analyst","messages":[` + user + `]}`, `{"agent":"analyst","messages":[` + said + `]}`},
		"a profile":                 {`{"model":"analyst:gpt:4/x","messages":[` + user + `]}`, `{"agent":"analyst","model":"gpt:4/x","messages":[` + said + `]}`},
		"ignored parameters, unknown ones, and nulls": {
			`{"model":"a","messages":[{"role":"user","content":"hello","name":"bob","x":1}],"temperature":0.1,"top_p":1,"max_tokens":9,"max_completion_tokens":9,
			"presence_penalty":1,"frequency_penalty":1,"logit_bias":{"1":2},"seed":3,"stop":["x"],"logprobs":true,"top_logprobs":2,"store":true,
			"reasoning_effort":"high","verbosity":"low","parallel_tool_calls":false,"service_tier":"auto","prediction":{"type":"content"},"n":1,"tools":[],
			"functions":[],"tool_choice":"auto","modalities":["text"],"response_format":{"type":"text"},"metadata":{},"user":null,"stream":null,
			"stream_options":null,"made_up":{"y":[]},"prompt_cache_key":"k","safety_identifier":"s"}`,
			`{"agent":"a","messages":[` + said + `]}`,
		},
		"tools with choice none": {
			`{"model":"a","messages":[` + user + `],"tools":[{"type":"function"}],"tool_choice":"none","functions":[{}],"function_call":"none"}`,
			`{"agent":"a","messages":[` + said + `]}`,
		},
		"tools": {
			`{"model":"a","messages":[` + user + `],"tool_choice":"auto","tools":[{"type":"function","function":{"name":"f","description":"d","strict":true,
			"parameters":{"type":"object"}}},` + tool("g") + `]}`,
			`{"agent":"a","messages":[` + said + `],"client_tools":[{"name":"f","description":"d","strict":true,"parameters":{"type":"object"}},{"name":"g"}]}`,
		},
		"a user and metadata": {
			`{"model":"a","messages":[` + user + `],"user":"u1","metadata":{"page":"home","n":2}}`,
			`{"agent":"a","messages":[` + said + `],"context":{"user_id":"u1","metadata":{"n":2,"page":"home"}}}`,
		},
		"a schema": {
			`{"model":"a","messages":[` + user + `],"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}}}`,
			`{"agent":"a","messages":[` + said + `],"output_schema":{"type":"object"}}`,
		},
		"any document": {
			`{"model":"a","messages":[` + user + `],"response_format":{"type":"json_object"}}`,
			`{"agent":"a","messages":[` + said + `],"output_schema":{"type":"object"}}`,
		},
		"every role": {
			`{"model":"a","messages":[{"role":"system","content":"s"},{"role":"developer","content":[{"type":"text","text":"d"}]},` + user + `,
			{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"no"}],"refusal":"never"},
			{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
				{"id":"c2","type":"function","function":{"name":"g","arguments":""}},{"id":"c3","type":"function","function":{"name":"h","arguments":"[1"}}]},
			{"role":"tool","tool_call_id":"c1","content":"one"},{"role":"tool","tool_call_id":"c2","content":[{"type":"text","text":"t"},{"type":"text","text":"wo"}]},
			{"role":"tool","tool_call_id":"c3","content":""},{"role":"assistant","content":null},{"role":"system","content":""},` + user + `]}`,
			`{"agent":"a","messages":[{"role":"system","blocks":[{"type":"text","text":"s"}]},{"role":"system","blocks":[{"type":"text","text":"d"}]},` + said + `,
			{"role":"assistant","blocks":[{"type":"text","text":"a"},{"type":"text","text":"no"},{"type":"text","text":"never"}]},
			{"role":"assistant","blocks":[{"type":"tool_call","id":"c1","name":"f","args":{"x":1}},{"type":"tool_call","id":"c2","name":"g","args":{}},
				{"type":"tool_call","id":"c3","name":"h","args":{"arguments":"[1"}}]},
			{"role":"tool","blocks":[{"type":"tool_result","name":"f","tool_call_id":"c1","status":"success","output":"one"}]},
			{"role":"tool","blocks":[{"type":"tool_result","name":"g","tool_call_id":"c2","status":"success","output":"two"}]},
			{"role":"tool","blocks":[{"type":"tool_result","name":"h","tool_call_id":"c3","status":"success","output":""}]},` + said + `]}`,
		},
		"every part": {
			`{"model":"a","messages":[{"role":"user","content":[{"type":"text","text":" "},{"type":"text","text":"see"},
			{"type":"image_url","image_url":{"url":"https://example.com/a.png","detail":"low"}},
			{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}},
			{"type":"input_audio","input_audio":{"data":"aGk=","format":"wav"}},{"type":"input_audio","input_audio":{"data":"aGk=","format":"mp3"}},
			{"type":"file","file":{"file_id":"file-1"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,aGk="}},
			{"type":"file","file":{"filename":"a.json","file_data":"aGk="}},{"type":"file","file":{"file_data":"aGk="}}]}]}`,
			`{"agent":"a","messages":[{"role":"user","blocks":[{"type":"text","text":"see"},{"type":"image","url":"https://example.com/a.png"},
			{"type":"image","base64":"aGk=","mime_type":"image/png"},{"type":"audio","base64":"aGk=","mime_type":"audio/wav"},
			{"type":"audio","base64":"aGk=","mime_type":"audio/mpeg"},{"type":"file","file_id":"file-1"},
			{"type":"file","name":"a.pdf","base64":"aGk=","mime_type":"application/pdf"},
			{"type":"file","name":"a.json","base64":"aGk=","mime_type":"application/json"},{"type":"file","base64":"aGk=","mime_type":"application/octet-stream"}]}]}`,
		},
		"a session": {
			`{"model":"a","metadata":{"session_id":"s1","x":"y"},"messages":[{"role":"system","content":"s"},` + user + `,{"role":"assistant","content":"hi"},
			{"role":"user","content":"and"},{"role":"user","content":"now?"}]}`,
			`{"agent":"a","session_id":"s1","history":"load","context":{"metadata":{"x":"y"}},"messages":[{"role":"user","blocks":[{"type":"text","text":"and"}]},
			{"role":"user","blocks":[{"type":"text","text":"now?"}]}]}`,
		},
		"a session that begins": {
			`{"model":"a","metadata":{"session_id":"s1"},"messages":[{"role":"system","content":"hello"},` + user + `]}`,
			`{"agent":"a","session_id":"s1","history":"load","messages":[` + strings.Replace(said, "user", "system", 1) + `,` + said + `]}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.script(terminal("x", nil))
			a := d.send("POST", "/v1/chat/completions", c.body)
			require.Equal(t, 200, a.status, "%s", a.body)
			r := d.rt.Submitted()[0].Request
			require.Equal(t, "openai", r.Channel)
			require.Equal(t, "default", r.Context.Tenant)
			if r.SessionID == "" {
				require.Equal(t, agent.HistoryFresh, r.History)
				r.History = ""
			}
			require.NotEmpty(t, r.IdempotencyKey)
			r.Channel, r.Context.Tenant, r.IdempotencyKey = "", "", ""
			got, err := json.Marshal(r)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(got))
		})
	}
}

func TestSessionByHeader(t *testing.T) {
	d := open(t, nil)
	d.script(terminal("x", nil))
	a := d.complete("", "Turnstone-Session-Id", "s1")
	require.Equal(t, 200, a.status)
	require.Equal(t, "s1", a.header.Get("Turnstone-Session-Id"))
	require.Equal(t, agent.SessionID("s1"), d.rt.Submitted()[0].Request.SessionID)
	require.Equal(t, agent.HistoryLoad, d.rt.Submitted()[0].Request.History)
	require.Equal(t, 200, d.complete(`,"metadata":{"session_id":"s1"}`, "Turnstone-Session-Id", "s1").status)
	p := d.complete(`,"metadata":{"session_id":"s2"}`, "Turnstone-Session-Id", "s1").problem(t)
	require.Equal(t, "Turnstone-Session-Id", *p.Param)
}

func TestTenant(t *testing.T) {
	d := open(t, nil)
	d.script(terminal("x", nil))
	require.Equal(t, 200, d.complete("", "Turnstone-Tenant", "acme").status)
	require.Equal(t, "acme", d.rt.Submitted()[0].Request.Context.Tenant)
	require.Equal(t, 200, d.complete(`,"metadata":{"tenant":"other"},"context":{"tenant":"other"}`).status)
	require.Equal(t, "default", d.rt.Submitted()[1].Request.Context.Tenant, "the body cannot name the tenant")
}

// Every refusal names the member at fault and starts no turn.
func TestBadRequests(t *testing.T) {
	with := func(more string) string {
		return `{"model":"a","messages":[{"role":"user","content":"x"}],` + more + `}`
	}
	messages := func(list string) string { return `{"model":"a","messages":[` + list + `]}` }
	part := func(p string) string {
		return messages(`{"role":"user","content":[{"type":"text","text":"x"},` + p + `]}`)
	}
	call := `{"role":"assistant","tool_calls":[{"id":"c1","function":{"name":"f","arguments":"{}"}}]}`
	cases := map[string]struct{ body, param, message string }{
		"nothing":                      {` `, "", "the body is empty"},
		"not JSON":                     {`{"model":`, "model", "malformed JSON"},
		"not an object":                {`[]`, "", "want an object"},
		"null":                         {`null`, "", "want an object, got null"},
		"a member twice":               {`{"model":"a","model":"b"}`, "model", "given twice"},
		"invalid UTF-8":                {"{\"model\":\"\xff\"}", "model", "malformed JSON"},
		"no model":                     {`{"messages":[]}`, "model", "is missing"},
		"a model of another type":      {`{"model":7,"messages":[]}`, "model", "want a string"},
		"no messages":                  {`{"model":"a"}`, "messages", "is empty"},
		"messages without content":     {messages(`{"role":"assistant","content":""}`), "messages", "have no content"},
		"no role":                      {messages(`{"content":"x"}`), "messages[0].role", "want system"},
		"an old role":                  {messages(`{"role":"function","name":"f","content":"x"}`), "messages[0].role", "want system"},
		"a message of another type":    {messages(`{"role":"user","content":"x"},"y"`), "messages[1]", "want an object"},
		"a user message without text":  {messages(`{"role":"user","content":"x"},{"role":"user","content":" "}`), "messages[1].content", "is empty"},
		"content of another type":      {messages(`{"role":"user","content":7}`), "messages[0].content", "want a string or an array of parts"},
		"a part of another type":       {messages(`{"role":"user","content":["x"]}`), "messages[0].content[0]", "want an object"},
		"a part without a type":        {part(`{"text":"y"}`), "messages[0].content[1].type", "want text, image_url"},
		"text of another type":         {part(`{"type":"text","text":{}}`), "messages[0].content[1].text", "want a string"},
		"a system's picture":           {messages(`{"role":"system","content":[{"type":"image_url","image_url":{"url":"https://x.y"}}]}`), "messages[0].content[0].type", "want text, got"},
		"a picture without a URL":      {part(`{"type":"image_url"}`), "messages[0].content[1].image_url.url", "want an https"},
		"a picture with a file URL":    {part(`{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}`), "messages[0].content[1].image_url.url", "want an https"},
		"a picture with an ftp URL":    {part(`{"type":"image_url","image_url":{"url":"ftp://example.com/a.png"}}`), "messages[0].content[1].image_url.url", "want an https"},
		"a picture that is not base64": {part(`{"type":"image_url","image_url":{"url":"data:text/plain,hi"}}`), "messages[0].content[1].image_url.url", "want data:"},
		"a picture without a type":     {part(`{"type":"image_url","image_url":{"url":"data:;base64,aGk="}}`), "messages[0].content[1].image_url.url", "want a media type"},
		"a picture of invalid base64":  {part(`{"type":"image_url","image_url":{"url":"data:image/png;base64,!!"}}`), "messages[0].content[1].image_url.url", "is not base64"},
		"an empty picture":             {part(`{"type":"image_url","image_url":{"url":"data:image/png;base64,"}}`), "messages[0].content[1].image_url.url", "is empty"},
		"sound in another format":      {part(`{"type":"input_audio","input_audio":{"data":"aGk=","format":"flac"}}`), "messages[0].content[1].input_audio.format", "want wav or mp3"},
		"sound of invalid base64":      {part(`{"type":"input_audio","input_audio":{"data":"!","format":"wav"}}`), "messages[0].content[1].input_audio.data", "is not base64"},
		"a file without content":       {part(`{"type":"file","file":{"filename":"x"}}`), "messages[0].content[1].file", "want exactly one of"},
		"a file twice":                 {part(`{"type":"file","file":{"file_id":"x","file_data":"aGk="}}`), "messages[0].content[1].file", "want exactly one of"},
		"a file of invalid base64":     {part(`{"type":"file","file":{"file_data":"!"}}`), "messages[0].content[1].file.file_data", "is not base64"},
		"a call without an id":         {messages(`{"role":"assistant","tool_calls":[{"function":{"name":"f"}}]}`), "messages[0].tool_calls[0].id", "is empty"},
		"a call without a name":        {messages(`{"role":"assistant","tool_calls":[{"id":"c1","type":"custom"}]}`), "messages[0].tool_calls[0].function.name", "is empty"},
		"arguments as an object":       {messages(`{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":{}}}]}`), "messages[0].tool_calls[0].function.arguments", "want a string"},
		"a result without a call":      {messages(`{"role":"tool","tool_call_id":"c1","content":"x"}`), "messages[0].tool_call_id", "answers no tool call"},
		"a result before its call":     {messages(`{"role":"tool","tool_call_id":"c1","content":"x"},` + call), "messages[0].tool_call_id", "answers no tool call"},
		"two answers":                  {with(`"n":2`), "n", "want 1"},
		"no answer":                    {with(`"n":0`), "n", "want 1"},
		"half an answer":               {with(`"n":1.5`), "n", "want a whole number"},
		"a tool without a name":        {with(`"tools":[{"type":"function"}]`), "tools[0].function.name", "want 1 to 64"},
		"a tool of another type":       {with(`"tools":[{"type":"custom"}]`), "tools[0].type", "want function"},
		"a tool twice":                 {with(`"tools":[` + tool("f") + `,` + tool("f") + `]`), "tools[1].function.name", "given twice"},
		"a schema of a tool":           {with(`"tools":[{"type":"function","function":{"name":"f","parameters":[]}}]`), "tools[0].function.parameters", "want an object"},
		"too many tools":               {with(`"tools":[` + tool("f") + strings.Repeat(","+tool("f"), 128) + `]`), "tools", "at most 128"},
		"tools, required":              {with(`"tools":[` + tool("f") + `],"tool_choice":"required"`), "tool_choice", "want auto or none"},
		"functions":                    {with(`"functions":[{"name":"f"}],"function_call":{"name":"f"}`), "functions", "are not supported"},
		"speech":                       {with(`"modalities":["text","audio"]`), "modalities", "want text"},
		"stream as a word":             {with(`"stream":"yes"`), "stream", "want true or false"},
		"options of another type":      {with(`"stream_options":[]`), "stream_options", "want an object"},
		"a usage as a word":            {with(`"stream_options":{"include_usage":"yes"}`), "stream_options.include_usage", "want true or false"},
		"a user of another type":       {with(`"user":7`), "user", "want a string"},
		"a format of no type":          {with(`"response_format":{}`), "response_format.type", "want text, json_object or json_schema"},
		"a format as a word":           {with(`"response_format":"json"`), "response_format", "want an object"},
		"no schema":                    {with(`"response_format":{"type":"json_schema"}`), "response_format.json_schema.schema", "is missing"},
		"an odd session":               {with(`"metadata":{"session_id":"a b"}`), "metadata.session_id", "want 1 to 128"},
		"a session that is none":       {with(`"metadata":{"session_id":7}`), "metadata.session_id", "want a string"},
		"metadata as a list":           {with(`"metadata":[]`), "metadata", "want an object"},
		"nothing new": {
			`{"model":"a","metadata":{"session_id":"s"},"messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}`, "messages", "nothing new",
		},
		"a long name": {`{"model":"a","messages":[],"` + strings.Repeat("n", 4000) + `":1,"` + strings.Repeat("n", 4000) + `":1}`, strings.Repeat("n", 256) + "…", "given twice"},
	}
	d := open(t, nil)
	d.script(terminal("an answer, though the request is bad", nil))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := d.send("POST", "/v1/chat/completions", c.body)
			require.Equal(t, 400, a.status, "%s", a.body)
			p := a.problem(t)
			require.Equal(t, "invalid_request_error", p.Type)
			require.Equal(t, "invalid_value", p.Code)
			require.Contains(t, p.Message, c.message)
			if c.param == "" {
				require.Nil(t, p.Param)
			} else {
				require.NotNil(t, p.Param, "%s", a.body)
				require.Equal(t, c.param, *p.Param)
			}
		})
	}
	for name, header := range map[string][2]string{
		"a long key":  {"Idempotency-Key", strings.Repeat("k", 257)},
		"an odd wish": {"Turnstone-On-Disconnect", "explode"}, "an odd session": {"Turnstone-Session-Id", "a b"}, "an odd tenant": {"Turnstone-Tenant", "a b"},
	} {
		t.Run(name, func(t *testing.T) {
			a := d.complete("", header[0], header[1])
			require.Equal(t, 400, a.status, "%s", a.body)
			a.problem(t)
		})
	}
	for _, media := range []string{"application/x-www-form-urlencoded", ""} {
		a := d.complete("", "Content-Type", media)
		require.Equal(t, 415, a.status, "%s", a.body)
		require.Contains(t, a.problem(t).Message, "Content-Type")
	}
	for _, model := range []string{"no such/name", ":fast", strings.Repeat("m", 500)} {
		a := d.send("POST", "/v1/chat/completions", `{"model":"`+model+`","messages":[{"role":"user","content":"x"}]}`)
		require.Equal(t, 404, a.status)
		require.Equal(t, "model_not_found", a.problem(t).Code)
		require.Less(t, len(a.body), 500)
	}
	require.Empty(t, d.rt.Submitted())
}

func TestBodyLimit(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.BodyBytes = 1000 })
	a := d.complete(`,"x":"` + strings.Repeat("y", 1000) + `"`)
	require.Equal(t, 413, a.status)
	var body struct {
		Error struct {
			Message string `json:"message"`
			Type    string `json:"type"`
		} `json:"error"`
	}
	require.NoError(t, json.Unmarshal([]byte(a.body), &body))
	require.Contains(t, body.Error.Message, "larger than 1000 bytes")
}
