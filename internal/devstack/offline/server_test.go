package offline_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/offline"
)

// post posts a body to a server and returns the status and the body of the answer.
func post(t *testing.T, s *offline.Server, path, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.BaseURL()+path, strings.NewReader(body))
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(raw)
}

func start(t *testing.T) *offline.Server {
	t.Helper()
	s, err := offline.Start(t.Context(), "127.0.0.1:0", offline.Config{FlightsURL: "http://api/flights", TokenDelay: -1})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Close(ctx))
	})
	return s
}

const tools = `"tools":[{"type":"function","function":{"name":"execute_pipeline","parameters":{}}}]`

type chunk struct {
	Object  string
	Choices []struct {
		Message, Delta struct {
			Role      string
			Content   *string
			ToolCalls []struct {
				Index    int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	s := start(t)
	status, body := post(t, s, "/chat/completions", `{"model":"turnstone-offline","messages":[{"role":"user","content":[{"type":"text","text":"say 3 words"}]}]}`)
	require.Equal(t, http.StatusOK, status, body)
	var c chunk
	require.NoError(t, json.Unmarshal([]byte(body), &c))
	require.Equal(t, "chat.completion", c.Object)
	require.Equal(t, "word1 word2 word3", *c.Choices[0].Message.Content)
	require.Equal(t, "stop", *c.Choices[0].FinishReason)
	require.Equal(t, 3, c.Usage.CompletionTokens)
	require.Positive(t, c.Usage.PromptTokens)

	_, body = post(t, s, "/chat/completions", `{"model":"turnstone-offline","messages":[{"role":"user","content":"fetch airlines"}],`+tools+`}`)
	c = chunk{}
	require.NoError(t, json.Unmarshal([]byte(body), &c))
	require.Nil(t, c.Choices[0].Message.Content)
	require.Equal(t, "execute_pipeline", c.Choices[0].Message.ToolCalls[0].Function.Name)
	require.Equal(t, "tool_calls", *c.Choices[0].FinishReason)
}

// TestStream joins the chunks of a stream.
func TestStream(t *testing.T) {
	t.Parallel()
	s := start(t)
	for prompt, want := range map[string]string{
		"say 40 words":   "",
		"fetch airlines": `{"session_id":"offline","pipeline":[{"step":"http_request","url":"http://api/airlines","method":"GET"}]}`,
	} {
		_, body := post(t, s, "/chat/completions", `{"model":"turnstone-offline","stream":true,"stream_options":{"include_usage":true},`+
			`"messages":[{"role":"user","content":"`+prompt+`"}],`+tools+`}`)
		var text, id, args, finish string
		var last chunk
		ended := false
		for lines := bufio.NewScanner(strings.NewReader(body)); lines.Scan(); {
			data, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			if ended = data == "[DONE]"; ended {
				break
			}
			last = chunk{}
			require.NoError(t, json.Unmarshal([]byte(data), &last), data)
			require.Equal(t, "chat.completion.chunk", last.Object)
			for _, choice := range last.Choices {
				if choice.Delta.Content != nil {
					text += *choice.Delta.Content
				}
				for _, call := range choice.Delta.ToolCalls {
					id += call.ID
					args += call.Function.Arguments
				}
				if choice.FinishReason != nil {
					finish = *choice.FinishReason
				}
			}
		}
		require.True(t, ended)
		require.NotNil(t, last.Usage, "the last chunk has the usage")
		require.Equal(t, want, args)
		if want == "" {
			require.Len(t, strings.Fields(text), 40)
			require.Equal(t, "stop", finish)
			require.Equal(t, 40, last.Usage.CompletionTokens)
		} else {
			require.Regexp(t, `^call_[0-9a-f]{24}$`, id)
			require.Equal(t, "tool_calls", finish)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	s := start(t)
	const call = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	completion := func(messages string) string { return `{"model":"turnstone-offline","messages":[` + messages + `]}` }
	for _, x := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/chat/completions", `{`, 400, "could not be read"},
		{"/chat/completions", `{"model":"gpt-9","messages":[]}`, 404, "model_not_found"},
		{"/chat/completions", completion(call), 400, "c1"},
		{"/chat/completions", completion(call + `,{"role":"user","content":"x"}`), 400, "messages[1]"},
		{"/chat/completions", completion(`{"role":"tool","tool_call_id":"c1","content":"x"}`), 400, "messages[0]"},
		{"/chat/completions", completion(`{"role":"user","content":5}`), 400, "content"},
		{"/embeddings", `{"model":"turnstone-offline","input":5}`, 400, "input"},
		{"/nowhere", `{}`, 404, "unknown_url"},
	} {
		status, body := post(t, s, x.path, x.body)
		require.Equal(t, x.status, status, body)
		require.Contains(t, body, x.want)
		require.Contains(t, body, `{"error":{`)
	}
}

// TestEmbeddings checks that texts with common words are nearer to each other than texts without.
func TestEmbeddings(t *testing.T) {
	t.Parallel()
	s := start(t)
	_, body := post(t, s, "/embeddings", `{"model":"turnstone-offline","input":["a direct turn","the turn is direct","zebras"]}`)
	var e struct {
		Data []struct{ Embedding []float64 }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &e), body)
	dot := func(i, j int) (sum float64) {
		for k, x := range e.Data[i].Embedding {
			sum += x * e.Data[j].Embedding[k]
		}
		return sum
	}
	require.InDelta(t, 1, dot(0, 0), 1e-9)
	require.Greater(t, dot(0, 1), dot(0, 2)+0.3)
	status, _ := post(t, s, "/embeddings", `{"model":"turnstone-offline","input":"one text"}`)
	require.Equal(t, http.StatusOK, status)
}
