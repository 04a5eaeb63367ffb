package bedrock_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/bedrock"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

// gaps are the cases for which the API of Bedrock has no form.
var gaps = map[string]string{
	"reply/model as reported":  `actual  : "alias"`,
	"request/output schema":    "the schema is asked for",
	"request/tools and choice": `expected: "none"`,
}

func TestConformance(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.Bedrock{}, Open: bedrock.New, Requests: "testdata/requests", Gaps: gaps})
}

func TestCredentials(t *testing.T) {
	for _, name := range []string{"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_BEARER_TOKEN_BEDROCK"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	const region = "https://bedrock-runtime.eu-west-1.amazonaws.com"
	for fault, cfg := range map[string]bedrock.Config{
		"base_url: is empty":        {APIKey: "k"},
		"api_key: is empty":         {BaseURL: region},
		"base_url: names no region": {BaseURL: "https://example.org", Ambient: true},
	} {
		_, err := bedrock.New(cfg)
		require.ErrorContains(t, err, fault)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
	var received *http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received = r
		d := llmtest.Bedrock{}
		w.Header().Set("Content-Type", d.ContentType())
		_, _ = io.WriteString(w, strings.Join(d.Frames(llmtest.TextReply("hi", 9)), ""))
	}))
	defer server.Close()
	m, err := bedrock.New(bedrock.Config{BaseURL: region, Ambient: true, HTTPClient: llmtest.Redirect(server.URL)})
	require.NoError(t, err)
	reply, err := m.Generate(t.Context(), agent.ModelRequest{Model: "anthropic.claude-v1:0", Messages: []agent.Message{agent.UserText("Hi")}}, nil)
	require.NoError(t, err)
	require.Equal(t, "hi", agent.Normalize(reply.Blocks))
	require.Contains(t, received.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/")
	require.Contains(t, received.Header.Get("Authorization"), "/eu-west-1/bedrock/aws4_request")
	require.Equal(t, "/model/anthropic.claude-v1%3A0/converse-stream", received.URL.EscapedPath())
}
