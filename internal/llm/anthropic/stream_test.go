package anthropic_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/anthropic"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

func generate(t *testing.T, transport *llmtest.Transport, baseURL string, req agent.ModelRequest) (agent.ModelReply, error) {
	t.Helper()
	return newModel(t, transport, baseURL).Generate(t.Context(), req, nil)
}

func newModel(t *testing.T, transport *llmtest.Transport, baseURL string) agent.Model {
	t.Helper()
	m, err := anthropic.New(anthropic.Config{APIKey: "k", BaseURL: baseURL, HTTPClient: &http.Client{Transport: transport}})
	require.NoError(t, err)
	return m
}

func stream(events ...string) string {
	var b strings.Builder
	for _, e := range events {
		var kind struct{ Type string }
		_ = json.Unmarshal([]byte(e), &kind)
		b.WriteString("event: " + kind.Type + "\ndata: " + e + "\n\n")
	}
	return b.String()
}

const (
	start = `{"type":"message_start","message":{"model":"claude-1","usage":` +
		`{"input_tokens":5,"cache_creation_input_tokens":30,"cache_read_input_tokens":200,"output_tokens":1}}}`
	ended = `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":17}}`
	stop  = `{"type":"message_stop"}`
)

var hello = agent.ModelRequest{Model: "m", Messages: []agent.Message{agent.UserText("Hello")}}

func TestInputTokensIncludeTheCache(t *testing.T) {
	reply, err := generate(t, &llmtest.Transport{Events: stream(start, ended, stop)}, "", hello)
	require.NoError(t, err)
	require.Equal(t, agent.Usage{InputTokens: 235, OutputTokens: 17, CachedTokens: 200}, reply.Usage)
	require.Equal(t, "claude-1", reply.Model)
}

func TestPartialReply(t *testing.T) {
	reply, err := generate(t, &llmtest.Transport{Events: stream(start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Ha"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lf"}}`,
	)}, "", hello)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.Equal(t, []agent.Block{agent.Text("Half")}, reply.Blocks)
	require.Equal(t, agent.Usage{InputTokens: 235, OutputTokens: 1, CachedTokens: 200}, reply.Usage)
}

// Thinking is sent back unchanged. A block of an unknown type is kept, but not sent back.
func TestThinkingIsSentBack(t *testing.T) {
	reply, err := generate(t, &llmtest.Transport{Events: stream(start,
		`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm."}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"b3BhcXVl"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"from_the_future","x":1}}`,
		`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{"whole":true}}}`,
		ended, stop,
	)}, "", hello)
	require.NoError(t, err)
	require.Equal(t, []agent.Block{
		{Type: agent.BlockReasoning, Reasoning: "Hm.", Signature: "c2ln"},
		{Type: agent.BlockNonStandard, Value: json.RawMessage(`{"type":"redacted_thinking","data":"b3BhcXVl"}`)},
		{Type: agent.BlockNonStandard, Value: json.RawMessage(`{"type":"from_the_future","x":1}`)},
		{Type: agent.BlockToolCall, ID: "t1", Name: "f", Args: json.RawMessage(`{"whole":true}`)},
	}, reply.Blocks)

	require.JSONEq(t, `[{"type":"thinking","thinking":"Hm.","signature":"c2ln"},{"type":"redacted_thinking","data":"b3BhcXVl"},`+
		`{"type":"text","text":"[A block of type from_the_future was left out: the provider cannot take it.]"},`+
		`{"type":"tool_use","id":"t1","name":"f","input":{"whole":true}}]`, sentBack(t, reply.Blocks))
	require.JSONEq(t, `[{"type":"redacted_thinking","data":"old"}]`, sentBack(t, []agent.Block{
		{Type: agent.BlockReasoning, Extras: json.RawMessage(`{"type":"redacted_thinking","data":"old"}`)}, // stored by an earlier version
	}))
}

// sentBack returns the content of an assistant's message that the API receives.
func sentBack(t *testing.T, blocks []agent.Block) string {
	t.Helper()
	transport := &llmtest.Transport{Events: stream(start, ended, stop)}
	req := hello
	req.Messages = append(req.Messages, agent.Message{Role: agent.RoleAssistant, Blocks: blocks})
	_, err := generate(t, transport, "", req)
	require.NoError(t, err)
	var sent struct {
		Messages []struct{ Content json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(transport.Sent, &sent))
	return string(sent.Messages[1].Content)
}

func TestCallIDsOfOtherProviders(t *testing.T) {
	transport := &llmtest.Transport{Events: stream(start, ended, stop)}
	req := hello
	req.Messages = append(req.Messages,
		agent.Message{Role: agent.RoleAssistant, Blocks: []agent.Block{{Type: agent.BlockToolCall, ID: "functions.f:0", Name: "f"}}},
		agent.Message{Role: agent.RoleTool, Blocks: []agent.Block{{Type: agent.BlockToolResult, ToolCallID: "functions.f:0", Status: "success"}}})
	_, err := generate(t, transport, "", req)
	require.NoError(t, err)
	require.Contains(t, string(transport.Sent), `"id":"functions_f_0"`)
	require.Contains(t, string(transport.Sent), `"tool_use_id":"functions_f_0"`)
}

func TestDocuments(t *testing.T) {
	transport := &llmtest.Transport{Events: stream(start, ended, stop)}
	req := hello
	req.Messages = []agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{
		{Type: agent.BlockFile, Base64: "QUJD", MIMEType: "application/pdf"},
		{Type: agent.BlockFile, Base64: "QUJD", MIMEType: "text/markdown"},
		{Type: agent.BlockFile, URL: "https://example.org/a.pdf"},
		{Type: agent.BlockFile, FileID: "file_1", Name: "terms", Extras: json.RawMessage(`{"citations":{"enabled":true},"context":"of 2026"}`)},
		{Type: agent.BlockImage, FileID: "file_2"},
		agent.Text(" "), // is left out, because the API refuses white space
	}}}
	_, err := generate(t, transport, "https://proxy.example.org/anthropic/v1/", req)
	require.NoError(t, err)
	var sent struct {
		Messages []struct{ Content json.RawMessage }
	}
	require.NoError(t, json.Unmarshal(transport.Sent, &sent))
	require.JSONEq(t, `[{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"QUJD"}},`+
		`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"ABC"}},`+
		`{"type":"document","source":{"type":"url","url":"https://example.org/a.pdf"}},`+
		`{"type":"document","source":{"type":"file","file_id":"file_1"},"title":"terms","context":"of 2026","citations":{"enabled":true}},`+
		`{"type":"image","source":{"type":"file","file_id":"file_2"}}]`, string(sent.Messages[0].Content))
	require.Equal(t, "https://proxy.example.org/anthropic/v1/messages", transport.URL)
}

func TestRequestLine(t *testing.T) {
	for base, want := range map[string]string{
		"":                                   "https://api.anthropic.com/v1/messages",
		"https://proxy.example.org":          "https://proxy.example.org/v1/messages",
		"https://proxy.example.org/a/v1/":    "https://proxy.example.org/a/v1/messages",
		"https://proxy.example.org/a?zone=1": "https://proxy.example.org/a/v1/messages",
	} {
		transport := &llmtest.Transport{Events: stream(start, ended, stop)}
		_, err := generate(t, transport, base, hello)
		require.NoError(t, err)
		require.Equal(t, want, transport.URL)
		require.Equal(t, http.Header{
			"Accept": {"application/json"}, "Anthropic-Version": {"2023-06-01"}, "Content-Type": {"application/json"}, "X-Api-Key": {"k"},
		}, transport.Header)
	}
}

// Unexpected events and members do not affect the others.
func TestUnexpectedEvents(t *testing.T) {
	const text = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Yes."}}`
	for name, events := range map[string]string{
		"unknown event":               stream(`{"type":"from_the_future","index":"x"}`),
		"unknown delta":               stream(text, `{"type":"content_block_delta","index":0,"delta":{"type":"from_the_future"}}`),
		"delta of no block":           stream(`{"type":"content_block_delta","index":9,"delta":{"type":"text_delta","text":"No."}}`),
		"event without a name":        "data: [DONE]\n\n",
		"event without data":          "event: content_block_stop\ndata:\n\n",
		"ping that is no JSON":        "event: ping\ndata: .\n\n",
		"name of another event":       "event: message\ndata: " + text + "\n\n",
		"members of unexpected types": stream(`{"type":"message_delta","delta":{"stop_reason":7},"usage":[]}`),
		"no members":                  "event: x\ndata: null\n\n",
	} {
		if !strings.Contains(events, "Yes.") {
			events += stream(text)
		}
		reply, err := generate(t, &llmtest.Transport{Events: stream(start) + events + stream(ended)}, "", hello)
		require.NoError(t, err, name)
		require.Equal(t, []agent.Block{agent.Text("Yes.")}, reply.Blocks, name)
		require.Equal(t, agent.Usage{InputTokens: 235, OutputTokens: 17, CachedTokens: 200}, reply.Usage, name)
	}
}

// FuzzStream checks that any stream is an error or a reply that can be stored.
func FuzzStream(f *testing.F) {
	f.Add([]byte(stream(start, ended, stop)))
	f.Add([]byte(stream(start, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"","name":"f","input":7}}`, ended)))
	f.Add([]byte(stream(`{"type":"error","error":{"type":"overloaded_error","message":"m"}}`)))
	f.Add([]byte("event: error\ndata: nonsense\n\nevent: message_delta\ndata: []\n\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		reply, err := generate(t, &llmtest.Transport{Events: string(body)}, "", hello)
		llmtest.RequireStorable(t, reply, err)
	})
}
