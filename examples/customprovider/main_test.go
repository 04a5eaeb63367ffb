package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
)

// TestProvider opens the provider as the runtime does: by its name, with the configured URL and key.
func TestProvider(t *testing.T) {
	const key = "sk-acme"
	answers := map[string]string{
		"good": `{"text":"It is "}
{"text":"late."}
{"call":{"type":"tool_call","id":"c1","name":"clock","args":{"zone":"UTC"}}}
{"end":{"reason":"tool_calls","usage":{"input_tokens":9,"output_tokens":4}}}
`,
		"cut": `{"text":"It is "}` + "\n",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked request
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || r.URL.Path != "/generate" || r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if asked.Model == "busy" {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"error":{"message":"too fast, `+key+`"}}`)
			return
		}
		fmt.Fprint(w, answers[asked.Model])
	}))
	defer server.Close()
	provider := llm.Custom(acme())
	provider.Config = llm.Config{APIKey: key, BaseURL: server.URL}
	models, err := llm.New(provider)
	require.NoError(t, err)
	m, err := models.Model(t.Context(), agent.PlanModel{Provider: "acme"})
	require.NoError(t, err)
	ask := func(name string) (text string, reply agent.ModelReply, err error) {
		reply, err = m.Generate(t.Context(), agent.ModelRequest{Model: name, Messages: []agent.Message{agent.UserText("How late is it?")}},
			func(d agent.Delta) error { text += d.Text; return nil })
		return text, reply, err
	}

	text, reply, err := ask("good")
	require.NoError(t, err)
	require.Equal(t, "It is late.", text)
	require.Equal(t, agent.ModelReply{
		Blocks: []agent.Block{
			agent.Text("It is late."), {Type: agent.BlockToolCall, ID: "c1", Name: "clock", Args: json.RawMessage(`{"zone":"UTC"}`)},
		},
		Usage: agent.Usage{InputTokens: 9, OutputTokens: 4}, FinishReason: agent.FinishToolCalls, Model: "good",
	}, reply)

	_, _, err = ask("cut")
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	_, _, err = ask("busy")
	require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err))
	require.ErrorContains(t, err, "acme: 429 Too Many Requests: too fast, [redacted]")

	_, err = llm.New(acme())
	require.ErrorContains(t, err, `"acme": api_key: is empty`)
}

// The program does not start if the configuration names an unknown provider.
func TestRunNamesAnUnknownProvider(t *testing.T) {
	t.Chdir(t.TempDir())
	env := []string{"DATABASE_URL=postgres://127.0.0.1:1/none", "TURNSTONE_LLM_PROVIDER=acne", "TURNSTONE_LLM_MODEL=m"}
	err := run(t.Context(), nil, env)
	require.ErrorContains(t, err, `llm.provider: unknown provider "acne": want one of acme, anthropic, `)
}
