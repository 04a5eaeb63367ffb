package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/llm/openai"
)

func generate(t *testing.T, transport *llmtest.Transport, baseURL string, req agent.ModelRequest) (agent.ModelReply, error) {
	t.Helper()
	m, err := openai.New(openai.Config{APIKey: "k", BaseURL: baseURL, HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	return m.Generate(t.Context(), req, func(agent.Delta) error { return nil })
}

func stream(deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString(`data: {"choices":[{"index":0,"delta":` + d + "}]}\n\n")
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	return b.String()
}

var hello = agent.ModelRequest{Model: "m", Messages: []agent.Message{agent.UserText("Hello")}}

// Compatible servers differ from OpenAI in these ways.
func TestCompatibleServers(t *testing.T) {
	call := func(id, args string) agent.Block {
		return agent.Block{Type: agent.BlockToolCall, ID: id, Name: "f", Args: json.RawMessage(args)}
	}
	for name, row := range map[string]struct {
		body   string
		blocks []agent.Block
		finish agent.FinishReason
	}{
		"every call has index 0": {stream(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"b","function":{"name":"f","arguments":"{\"x\":2}"}}]}`,
		), []agent.Block{call("a", `{"x":1}`), call("b", `{"x":2}`)}, agent.FinishToolCalls},
		"id, type and name in every chunk": {stream(
			`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\""}}]}`,
			`{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":":1}"}}]}`,
		), []agent.Block{call("a", `{"x":1}`)}, agent.FinishToolCalls},
		"calls together in one chunk, without an end marker": {strings.ReplaceAll(stream(
			`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]}`,
		), "data: [DONE]\n\n", ""), []agent.Block{call("a", `{}`), call("b", `{}`)}, agent.FinishToolCalls},
		"reasoning, the other field": {
			stream(`{"reasoning":"Hm."}`, `{"content":"Yes."}`),
			[]agent.Block{{Type: agent.BlockReasoning, Reasoning: "Hm."}, agent.Text("Yes.")},
			agent.FinishStop,
		},
		"fields of other types": {
			stream(`{"content":["of","parts"],"reasoning":"Hm.","audio":[],"annotations":7}`, `{"content":"Yes.","tool_calls":null}`),
			[]agent.Block{{Type: agent.BlockReasoning, Reasoning: "Hm."}, agent.Text("Yes.")},
			agent.FinishStop,
		},
		"a refusal": {stream(`{"refusal":"I will not."}`), []agent.Block{agent.Text("I will not.")}, agent.FinishContentFilter},
		"a second choice": {
			"data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"other\"}}]}\n\n" + stream(`{"content":"Yes."}`),
			[]agent.Block{agent.Text("Yes.")},
			agent.FinishStop,
		},
	} {
		t.Run(name, func(t *testing.T) {
			reply, err := generate(t, &llmtest.Transport{Events: row.body}, "https://vllm.example.org/v1", hello)
			require.NoError(t, err)
			require.Equal(t, row.blocks, reply.Blocks)
			require.Equal(t, row.finish, reply.FinishReason)
		})
	}
}

func TestCallWithoutAnIDGetsOne(t *testing.T) {
	reply, err := generate(t, &llmtest.Transport{Events: stream(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"{}"}}]}`)},
		"https://vllm.example.org/v1", hello)
	require.NoError(t, err)
	require.Len(t, agent.ToolCalls(reply.Blocks), 1)
	require.NotEmpty(t, reply.Blocks[0].ID)
}

func TestPartialReply(t *testing.T) {
	body := `data: {"model":"m-1","choices":[{"index":0,"delta":{"content":"Half"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}` + "\n\n"
	reply, err := generate(t, &llmtest.Transport{Events: body}, "https://vllm.example.org/v1", hello)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.Equal(t, agent.ModelReply{
		Blocks: []agent.Block{agent.Text("Half")}, Usage: agent.Usage{InputTokens: 9, OutputTokens: 1}, Received: 4, Model: "m-1",
	}, reply)
}

func TestMaxTokensByServer(t *testing.T) {
	req := hello
	req.MaxTokens = 5
	for base, field := range map[string]string{
		"":                                     "max_completion_tokens",
		"https://eu.api.openai.com/v1":         "max_completion_tokens",
		"https://corp.openai.azure.com/openai": "max_completion_tokens",
		"https://vllm.example.org/v1":          "max_tokens",
		"http://vllm.internal:8000/v1":         "max_tokens",
		"https://api.openai.com.example.org":   "max_tokens",
	} {
		transport := &llmtest.Transport{Events: stream(`{"content":"Yes."}`)}
		_, err := generate(t, transport, base, req)
		require.NoError(t, err)
		require.Contains(t, string(transport.Sent), `"`+field+`":5`, base)
	}
}

func TestMedia(t *testing.T) {
	transport := &llmtest.Transport{Events: stream(`{"content":"Yes."}`)}
	req := hello
	req.Messages = []agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{
		{Type: agent.BlockAudio, Base64: "QUJD", MIMEType: "audio/wav"},
		{Type: agent.BlockFile, Base64: "QUJD", MIMEType: "application/pdf"},
		{Type: agent.BlockFile, FileID: "file-1"},
	}}}
	_, err := generate(t, transport, "", req)
	require.NoError(t, err)
	require.Contains(t, string(transport.Sent), `"input_audio":{"data":"QUJD","format":"wav"}`)
	require.Contains(t, string(transport.Sent), `"file_data":"data:application/pdf;base64,QUJD"`)
	require.Contains(t, string(transport.Sent), `"file_id":"file-1"`)
	require.Equal(t, "https://api.openai.com/v1/chat/completions", transport.URL)
}

// FuzzStream checks that any stream is an error or a reply that can be stored.
func FuzzStream(f *testing.F) {
	f.Add([]byte(stream(`{"content":"Yes."}`)))
	f.Add([]byte(stream(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]}`)))
	f.Add([]byte("data: {\"error\":{\"message\":\"m\",\"code\":429}}\n\n"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":null,\"finish_reason\":7}],\"usage\":[]}\n\n: c\n\ndata:[DONE]\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		reply, err := generate(t, &llmtest.Transport{Events: string(body)}, "https://vllm.example.org/v1", hello)
		llmtest.RequireStorable(t, reply, err)
	})
}
