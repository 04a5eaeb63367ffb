package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/llm/openai"
)

// Citations, images and audio become blocks. Those in an unexpected form are ignored.
func TestExtras(t *testing.T) {
	piece := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	body := stream(
		`{"content":"It rains."}`,
		`{"annotations":[{"type":"url_citation","url_citation":{"url":"https://example.org/w","title":"W","start_index":0,"end_index":9}},{"type":"other"}]}`,
		`{"annotations":"none","images":7,"audio":{"data":"%%%"}}`,
		`{"images":[{"type":"image_url","image_url":{"url":"https://example.org/a.png"}},{"type":"image_url","image_url":{"url":"data:;base64,"}}]}`,
		`{"audio":{"id":"a","transcript":" Well."}}`, `{"audio":{"data":"`+piece("one")+`"}}`, `{"audio":{"data":"`+piece("two!")+`","expires_at":1}}`,
	)
	reply, err := generate(t, &llmtest.Transport{Events: body}, "https://gateway.example.org/v1", hello)
	require.NoError(t, err)
	start, end := 0, 9
	require.Equal(t, []agent.Block{
		{Type: agent.BlockText, Text: "It rains. Well.", Annotations: []agent.Annotation{
			{Type: "citation", URL: "https://example.org/w", Title: "W", StartIndex: &start, EndIndex: &end},
		}},
		{Type: agent.BlockImage, URL: "https://example.org/a.png"},
		{Type: agent.BlockAudio, MIMEType: "audio/pcm", Base64: piece("onetwo!")},
	}, reply.Blocks)
}

// A note replaces a block that is left out.
func TestNotes(t *testing.T) {
	transport := &llmtest.Transport{Events: stream(`{"content":"Yes."}`)}
	req := hello
	req.Messages = []agent.Message{
		{Role: agent.RoleSystem, Blocks: []agent.Block{agent.Text("Note."), {Type: agent.BlockImage, FileID: "f"}}},
		{Role: agent.RoleUser, Blocks: []agent.Block{
			agent.Text("Compare."),
			{Type: agent.BlockFile, URL: "https://example.org/secret.pdf", Name: "a.pdf", MIMEType: "application/pdf"},
			{Type: agent.BlockAudio, Base64: "QUJD", MIMEType: "audio/ogg"},
			{Type: agent.BlockReasoning, Reasoning: "hidden"},
		}},
		{Role: agent.RoleAssistant, Blocks: []agent.Block{
			agent.Text("One. "), {Type: agent.BlockServerToolCall, ID: "s", Name: "web_search"}, {Type: agent.BlockReasoning, Reasoning: "hidden"}, agent.Text("Two."),
		}},
		agent.UserText("Go on."),
	}
	_, err := generate(t, transport, "", req)
	require.NoError(t, err)
	var sent struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal(transport.Sent, &sent))
	require.JSONEq(t, `"Note.\n[An image was left out: the provider cannot take it.]"`, string(sent.Messages[0].Content))
	require.JSONEq(t, `[{"type":"text","text":"Compare."},`+
		`{"type":"text","text":"[A file (a.pdf, application/pdf) was left out: the provider takes no file by URL.]"},`+
		`{"type":"text","text":"[An audio recording (audio/ogg) was left out: the provider takes wav and mp3.]"}]`, string(sent.Messages[1].Content))
	require.JSONEq(t, `"One. \n[A call of a tool of another provider (web_search) was left out: the provider cannot take it.]\nTwo."`,
		string(sent.Messages[2].Content))
}

func TestOutputSchemaIsStrictWhereItFits(t *testing.T) {
	for schema, strict := range map[string]bool{
		`{"type":"object","properties":{"q":{"type":"string"}},"required":["q"],"additionalProperties":false}`: true,
		`{"type":"object","properties":{"q":{"type":"string"}}}`:                                               false,
	} {
		transport := &llmtest.Transport{Events: stream(`{"content":"{}"}`)}
		req := hello
		req.OutputSchema = json.RawMessage(schema)
		_, err := generate(t, transport, "", req)
		require.NoError(t, err)
		require.Contains(t, string(transport.Sent), `"type":"json_schema"`)
		require.Contains(t, string(transport.Sent), `"properties":{"q":{"type":"string"}}`)
		if strict {
			require.Contains(t, string(transport.Sent), `"strict":true`)
		} else {
			require.NotContains(t, string(transport.Sent), `"strict"`)
		}
	}
}

func TestConformance(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.OpenAI{}, Open: openai.New, Requests: "testdata/requests"})
}

func TestConformanceOllama(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.OpenAI{}, Open: openai.NewOllama, Requests: "testdata/ollama"})
}
