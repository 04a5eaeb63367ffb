package offline_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/offline"
)

const (
	tools   = `"tools":[{"type":"function","function":{"name":"execute_pipeline","strict":true,"description":"d","parameters":{"type":"object"}}}]`
	flights = "fetch flights from NYC to LAX, sort by price, show top 3"
)

// model serves a model without delays that knows the flights API.
func model(t *testing.T, cfg offline.Config) string {
	t.Helper()
	if cfg.TokenDelay == 0 {
		cfg.TokenDelay = -1
	}
	if cfg.FlightsURL == "" {
		cfg.FlightsURL = "http://127.0.0.1:8081/flights"
	}
	srv := httptest.NewServer(offline.New(cfg))
	t.Cleanup(srv.Close)
	return srv.URL
}

func post(t *testing.T, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// request makes a body; messages and more are JSON.
func request(more string, messages ...string) string {
	body := `{"model":"turnstone-offline","messages":[` + strings.Join(messages, ",") + `]`
	if more != "" {
		body += "," + more
	}
	return body + "}"
}

func user(text string) string { return fmt.Sprintf(`{"role":"user","content":%q}`, text) }

type answer struct {
	Object  string
	Model   string
	Choices []struct {
		Message struct {
			Role      string
			Content   *string
			ToolCalls []call `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
}

type call struct {
	Index    int
	ID       string
	Type     string
	Function struct{ Name, Arguments string }
}

func ask(t *testing.T, url, body string) answer {
	t.Helper()
	resp := post(t, url, body)
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", raw)
	var a answer
	require.NoError(t, json.Unmarshal(raw, &a))
	require.Len(t, a.Choices, 1)
	require.Equal(t, a.Usage.Prompt+a.Usage.Completion, a.Usage.Total)
	return a
}

func text(t *testing.T, a answer) string {
	t.Helper()
	require.NotNil(t, a.Choices[0].Message.Content)
	return *a.Choices[0].Message.Content
}

func TestToolCall(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	body := request(tools, `{"role":"system","content":"Be brief.\nSession: sess-7\nMore."}`, user(flights))
	a := ask(t, url, body)
	require.Equal(t, "chat.completion", a.Object)
	require.Equal(t, "tool_calls", a.Choices[0].FinishReason)
	require.Nil(t, a.Choices[0].Message.Content)
	require.Len(t, a.Choices[0].Message.ToolCalls, 1)
	c := a.Choices[0].Message.ToolCalls[0]
	require.Equal(t, "function", c.Type)
	require.Equal(t, "execute_pipeline", c.Function.Name)
	require.JSONEq(t, `{"session_id":"sess-7","pipeline":[
		{"step":"http_request","url":"http://127.0.0.1:8081/flights","method":"GET","params":{"origin":"NYC","dest":"LAX"}},
		{"step":"table_sort","field":"price","order":"asc"},{"step":"top_k","k":3}]}`, c.Function.Arguments)

	again := ask(t, url, body)
	require.Equal(t, a, again, "the same request gets another answer")
	other := ask(t, url, request(tools, user("hi"), `{"role":"assistant","content":"hi"}`, user(flights)))
	require.NotEqual(t, c.ID, other.Choices[0].Message.ToolCalls[0].ID, "two turns share a call id")
	require.Contains(t, other.Choices[0].Message.ToolCalls[0].Function.Arguments, `"session_id":"offline"`)
}

func TestTwoCallsInParallel(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	prompt := user("fetch twice flights from NYC to LAX")
	calls := ask(t, url, request(tools, prompt)).Choices[0].Message.ToolCalls
	require.Len(t, calls, 2)
	require.NotEqual(t, calls[0].ID, calls[1].ID)
	require.Equal(t, calls[0].Function, calls[1].Function)
	require.Len(t, ask(t, url, request(tools+`,"parallel_tool_calls":false`, prompt)).Choices[0].Message.ToolCalls, 1)
}

// conversation is a prompt, the call it became, and the tool's result.
func conversation(result string) []string {
	args := `{"session_id":"s","pipeline":[{"step":"http_request","url":"http://x/y","method":"GET"}]}`
	return []string{
		user(flights),
		fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"execute_pipeline","arguments":%q}}]}`, args),
		fmt.Sprintf(`{"role":"tool","tool_call_id":"call_1","content":%q}`, result),
	}
}

func TestAnswersAboutToolResults(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	many := strings.Repeat(`{"id":1},`, 11) + `{"id":1}`
	tests := []struct {
		name, result string
		says         []string
	}{
		{
			"rows", `{"rows":[{"id":"F1","price":99.50,"note":"a|b"},{"id":"F2","price":120}],"row_count":2,"steps":[]}`,
			[]string{"Found 2 rows:\n\n| id | price | note |\n|---|---|---|\n| F1 | 99.50 | a\\|b |\n| F2 | 120 |  |\n"},
		},
		{"many rows", `{"rows":[` + many + `],"row_count":12}`, []string{"Found 12 rows; the first 10:"}},
		{"no rows", `{"rows":[],"row_count":0}`, []string{"Found no rows."}},
		{"rows that are no objects", `{"rows":[1,"x"],"row_count":2}`, []string{"- 1\n- x\n"}},
		{
			"stored, and out of the cache", `{"ref":"cas://sha256:00fe","rows":[` + many + `],"row_count":12,"steps":[],"cache_hit":true}`,
			[]string{"Found 12 rows; the first 10:", "All rows are stored as cas://sha256:00fe."},
		},
		{
			"wide rows", `{"rows":[{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"price":7,"h":8}],"row_count":1}`,
			[]string{"| a | b | c | d | e | price |\n"},
		},
		{
			"stored elsewhere", `{"ref":"cas://sha256:00ff","preview":{"type":"dataset","row_count":50,"sample":[{"id":1}]}}`,
			[]string{"Found 50 rows; the first 1:", "cas://sha256:00ff"},
		},
		{
			"failure", `{"error":{"type":"unavailable","message":"http_request: request api.x: timed out","retryable":true,"step":"http_request","field":"pipeline[0]"}}`,
			[]string{"That did not work: http_request: request api.x: timed out (pipeline[0]).", "Trying again later may help."},
		},
		{"failure as text", `Error: out of money`, []string{"That did not work: Error: out of money."}},
		{"something else", `{"temperature":20}`, []string{"The tool answered:", `{"temperature":20}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := ask(t, url, request(tools, conversation(tt.result)...))
			require.Equal(t, "stop", a.Choices[0].FinishReason)
			for _, s := range tt.says {
				require.Contains(t, text(t, a), s)
			}
		})
	}
}

func TestFollowUps(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	next := []string{`{"role":"assistant","content":"Found."}`, user("now filter those under $500")}
	arguments := func(result string) string {
		a := ask(t, url, request(tools, append(conversation(result), next...)...))
		require.Len(t, a.Choices[0].Message.ToolCalls, 1)
		return a.Choices[0].Message.ToolCalls[0].Function.Arguments
	}
	require.NotContains(t, arguments(`{"rows":[]}`), `\u003c`)
	require.JSONEq(t, `{"session_id":"offline","input_ref":"cas://sha256:00ff","pipeline":[
		{"step":"table_filter","condition":{"field":"price","op":"<","value":500}}]}`, arguments(`{"ref":"cas://sha256:00ff","preview":{}}`))
	require.JSONEq(t, `{"session_id":"offline","pipeline":[{"step":"http_request","url":"http://x/y","method":"GET"},
		{"step":"table_filter","condition":{"field":"price","op":"<","value":500}}]}`, arguments(`{"rows":[]}`))
	require.Contains(t, text(t, ask(t, url, request(tools, next[1]))), "there are none yet")
}

func TestPlainAnswers(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	require.Equal(t, "word1 word2 word3", text(t, ask(t, url, request("", user("say 3 words")))))
	require.Contains(t, text(t, ask(t, url, request("", user(flights)))), "was not offered")
	require.Contains(t, text(t, ask(t, url, request(tools+`,"tool_choice":"none"`, user(flights)))), "was not offered")
	unknown := text(t, ask(t, url, request(tools, user("what is the capital of France?"))))
	require.Contains(t, unknown, "offline model")
	require.Contains(t, unknown, "without general knowledge")
	require.Contains(t, unknown, flights)
	require.Contains(t, unknown, "OPENAI_API_KEY")

	a := ask(t, url, request(`"max_completion_tokens":2`, user("say 5 words")))
	require.Equal(t, "word1 word2 ", text(t, a))
	require.Equal(t, "length", a.Choices[0].FinishReason)
	require.Equal(t, 2, a.Usage.Completion)

	require.Equal(t, "word1", text(t, ask(t, url, request("",
		`{"role":"user","content":[{"type":"text","text":"say 1 "},{"type":"text","text":"word"},{"type":"image_url","image_url":{"url":"http://x"}}]}`))))
}

// events reads a stream to its end: the chunks, without the final [DONE], which must be there.
func events(t *testing.T, r io.Reader) []map[string]json.RawMessage {
	t.Helper()
	var out []map[string]json.RawMessage
	s := bufio.NewScanner(r)
	done := false
	for s.Scan() {
		if s.Text() == "" {
			continue
		}
		require.False(t, done, "something follows [DONE]")
		data, ok := strings.CutPrefix(s.Text(), "data: ")
		require.True(t, ok, s.Text())
		if data == "[DONE]" {
			done = true
			continue
		}
		var c map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(data), &c))
		out = append(out, c)
	}
	require.NoError(t, s.Err())
	require.True(t, done)
	return out
}

type delta struct {
	Delta struct {
		Role      string
		Content   *string
		ToolCalls []call `json:"tool_calls"`
	}
	FinishReason *string `json:"finish_reason"`
}

func choices(t *testing.T, chunks []map[string]json.RawMessage) []delta {
	t.Helper()
	var out []delta
	for _, c := range chunks {
		require.JSONEq(t, `"chat.completion.chunk"`, string(c["object"]))
		var list []delta
		require.NoError(t, json.Unmarshal(c["choices"], &list))
		out = append(out, list...)
	}
	return out
}

func TestStreamedText(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	resp := post(t, url, request(`"stream":true`, user("say 3 words")))
	require.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	chunks := events(t, resp.Body)
	list := choices(t, chunks)
	require.Len(t, list, 5, "a first chunk, one for each word, a last one")
	require.Len(t, chunks, 5, "no chunk of usage: it was not asked for")
	require.Equal(t, "assistant", list[0].Delta.Role)
	var b strings.Builder
	for _, d := range list[:4] {
		require.NotNil(t, d.Delta.Content)
		require.Nil(t, d.FinishReason)
		b.WriteString(*d.Delta.Content)
	}
	require.Equal(t, "word1 word2 word3", b.String())
	require.Equal(t, "stop", *list[4].FinishReason)
	for _, c := range chunks {
		require.NotContains(t, c, "usage", "usage was not asked for")
	}
}

func TestStreamedUsage(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	chunks := events(t, post(t, url, request(`"stream":true,"stream_options":{"include_usage":true}`, user("say 3 words"))).Body)
	last := chunks[len(chunks)-1]
	require.JSONEq(t, `[]`, string(last["choices"]))
	require.JSONEq(t, `{"prompt_tokens":4,"completion_tokens":3,"total_tokens":7}`, string(last["usage"]))
	for _, c := range chunks[:len(chunks)-1] {
		require.Equal(t, "null", string(c["usage"]))
	}
}

func TestStreamedToolCalls(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	body := request(tools+`,"stream":true`, user("fetch twice flights from NYC to LAX, top 3"))
	list := choices(t, events(t, post(t, url, body).Body))
	var ids, args [2]string
	pieces := [2]int{}
	for _, d := range list[:len(list)-1] {
		require.Len(t, d.Delta.ToolCalls, 1)
		c := d.Delta.ToolCalls[0]
		if c.ID != "" {
			require.Empty(t, ids[c.Index], "a call begins twice")
			require.Equal(t, "function", c.Type)
			require.Equal(t, "execute_pipeline", c.Function.Name)
			require.Empty(t, c.Function.Arguments)
			ids[c.Index] = c.ID
			continue
		}
		require.NotEmpty(t, ids[c.Index], "arguments come before their call")
		require.Empty(t, c.Type)
		args[c.Index] += c.Function.Arguments
		pieces[c.Index]++
	}
	require.Equal(t, "tool_calls", *list[len(list)-1].FinishReason)
	whole := ask(t, url, request(tools, user("fetch twice flights from NYC to LAX, top 3"))).Choices[0].Message.ToolCalls
	for i := range whole {
		require.Equal(t, whole[i].ID, ids[i])
		require.Equal(t, whole[i].Function.Arguments, args[i])
		require.Greater(t, pieces[i], 5, "arguments come in several pieces")
	}
}

func TestPace(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{TokenDelay: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(request(`"stream":true`, user("say 2 words"))))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	first, err := bufio.NewReader(resp.Body).ReadString('\n')
	require.NoError(t, err, "the first chunk does not wait")
	require.Contains(t, first, `"role":"assistant"`)
	cancel() // the server's Close, in the cleanup, hangs if the handler does not notice

	began := time.Now()
	events(t, post(t, url, request(`"stream":true`, user("say 3 words slowly"))).Body)
	require.GreaterOrEqual(t, time.Since(began), 150*time.Millisecond)
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{})
	tests := []struct {
		name, body   string
		status       int
		param, error string
	}{
		{"no JSON", `{`, 400, "", "could not parse the JSON body"},
		{"an array", `[]`, 400, "", "could not parse the JSON body"},
		{"unknown parameter", `{"model":"turnstone-offline","messages":[],"temprature":1}`, 400, "", "Unrecognized request argument supplied: temprature"},
		{"no model", `{"messages":[` + user("x") + `]}`, 400, "", "must provide a model"},
		{"unknown model", `{"model":"gpt-9","messages":[` + user("x") + `]}`, 404, "", "The model `gpt-9` does not exist"},
		{"no messages", `{"model":"turnstone-offline"}`, 400, "messages", "Missing required parameter"},
		{"empty messages", request(""), 400, "messages", "empty array"},
		{"messages of another type", `{"model":"turnstone-offline","messages":"x"}`, 400, "messages", "Invalid type for 'messages'"},
		{"role", request("", `{"role":"robot","content":"x"}`), 400, "messages[0].role", "Invalid value: 'robot'"},
		{"content missing", request("", `{"role":"user"}`), 400, "messages[0].content", "Invalid type"},
		{"content null", request("", `{"role":"user","content":null}`), 400, "messages[0].content", "Invalid type"},
		{"content a number", request("", `{"role":"user","content":3}`), 400, "messages[0].content", "Invalid type"},
		{"result without a call", request("", user("x"), `{"role":"tool","tool_call_id":"call_1","content":"x"}`), 400, "messages[1].role", "must be a response"},
		{"call without a result", request("", conversation("x")[:2]...), 400, "messages[1]", "did not have response messages: call_1"},
		{"call overtaken", request("", append(conversation("x")[:2], user("x"))...), 400, "messages[2]", "did not have response messages: call_1"},
		{"stream options alone", request(`"stream_options":{"include_usage":true}`, user("x")), 400, "stream_options", "only allowed when 'stream' is enabled"},
		{"empty tools", request(`"tools":[]`, user("x")), 400, "tools", "empty array"},
		{"tool's name", request(`"tools":[{"type":"function","function":{"name":"a b"}}]`, user("x")), 400, "tools[0].function.name", "pattern"},
		{"tool's type", request(`"tools":[{"type":"magic","function":{"name":"a"}}]`, user("x")), 400, "tools[0].type", "'magic'"},
		{"tool's parameters", request(`"tools":[{"type":"function","function":{"name":"a","parameters":[]}}]`, user("x")), 400, "tools[0].function.parameters", "object"},
		{"choice without tools", request(`"tool_choice":"auto"`, user("x")), 400, "tool_choice", "only allowed when 'tools'"},
		{"temperature", request(`"temperature":3`, user("x")), 400, "temperature", "0 to 2"},
		{"tokens", request(`"max_tokens":0`, user("x")), 400, "max_tokens", ">= 1"},
		{"several answers", request(`"n":2`, user("x")), 400, "n", "'n' must be 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp := post(t, url, tt.body)
			require.Equal(t, tt.status, resp.StatusCode)
			require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
			var e struct {
				Error struct {
					Message, Type string
					Param, Code   *string
				}
			}
			require.NoError(t, json.NewDecoder(resp.Body).Decode(&e))
			require.Contains(t, e.Error.Message, tt.error)
			require.Equal(t, "invalid_request_error", e.Error.Type)
			if tt.param == "" {
				require.Nil(t, e.Error.Param)
			} else {
				require.NotNil(t, e.Error.Param)
				require.Equal(t, tt.param, *e.Error.Param)
			}
		})
	}
}

func TestTooManyAtOnce(t *testing.T) {
	t.Parallel()
	url := model(t, offline.Config{MaxConcurrent: 1, TokenDelay: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(request(`"stream":true`, user("say 2 words"))))
	require.NoError(t, err)
	first, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer first.Body.Close()
	second := post(t, url, request("", user("say 1 word")))
	require.Equal(t, http.StatusTooManyRequests, second.StatusCode)
	require.Equal(t, "1", second.Header.Get("Retry-After"))
}

func TestStartAndClose(t *testing.T) {
	t.Parallel()
	srv, err := offline.Start(t.Context(), "127.0.0.1:0", offline.Config{Models: []string{"a", "b"}})
	require.NoError(t, err)
	get := func(path string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.BaseURL()+path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(b)
	}
	status, body := get("/models")
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"object":"list","data":[{"id":"a","object":"model","created":0,"owned_by":"turnstone"},{"id":"b","object":"model","created":0,"owned_by":"turnstone"}]}`, body)
	for path, want := range map[string]int{"/models/b": 200, "/models/c": 404, "/nowhere": 404, "/chat/completions": 405} {
		status, _ = get(path)
		require.Equal(t, want, status, path)
	}
	_, err = offline.Start(t.Context(), strings.TrimSuffix(strings.TrimPrefix(srv.BaseURL(), "http://"), "/v1"), offline.Config{})
	require.ErrorContains(t, err, "in use")
	require.NoError(t, srv.Close(t.Context()))
}
