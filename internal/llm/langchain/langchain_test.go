package langchain_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/langchain"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

func TestConformanceOpenAI(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{
		Dialect: llmtest.OpenAI{}, Open: langchain.OpenAI, Requests: "testdata/openai", Gaps: openaiGaps(),
	})
}

func TestConformanceAnthropic(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{
		Dialect: llmtest.Anthropic{}, Open: langchain.Anthropic, Requests: "testdata/anthropic", Gaps: anthropicGaps(),
	})
}

func TestConformanceOllama(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{
		Dialect: llmtest.Ollama{}, Open: langchain.Ollama, Requests: "testdata/ollama", Gaps: ollamaGaps(),
	})
}

// scripted is an llms.Model with a transport of its own.
type scripted func(ctx context.Context, messages []llms.MessageContent, o llms.CallOptions) (*llms.ContentResponse, error)

func (f scripted) GenerateContent(ctx context.Context, m []llms.MessageContent, opts ...llms.CallOption) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, opt := range opts {
		opt(&o)
	}
	return f(ctx, m, o)
}

func (f scripted) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.New("not in use")
}

func request() agent.ModelRequest {
	return agent.ModelRequest{Model: "m", Messages: []agent.Message{agent.UserText("Hello")}}
}

func TestWrapStreamsAndReplies(t *testing.T) {
	m, err := langchain.Wrap("mistral", scripted(func(ctx context.Context, _ []llms.MessageContent, o llms.CallOptions) (*llms.ContentResponse, error) {
		require.Equal(t, "m", o.Model)
		require.NoError(t, o.StreamingFunc(ctx, []byte("Hi ")))
		require.NoError(t, o.StreamingFunc(ctx, []byte("there")))
		return &llms.ContentResponse{Choices: []*llms.ContentChoice{{
			Content: "Hi there", StopReason: "FinishReasonStop",
			GenerationInfo: map[string]any{"input_tokens": int32(3), "output_tokens": int32(2)},
		}}}, nil
	}), langchain.Config{})
	require.NoError(t, err)
	text := ""
	reply, err := m.Generate(t.Context(), request(), func(d agent.Delta) error { text += d.Text; return nil })
	require.NoError(t, err)
	require.Equal(t, "Hi there", text)
	require.Equal(t, agent.ModelReply{
		Blocks: []agent.Block{agent.Text("Hi there")}, Usage: agent.Usage{InputTokens: 3, OutputTokens: 2},
		FinishReason: agent.FinishStop, Model: "m",
	}, reply)
}

func TestWrapBoundsSilence(t *testing.T) {
	m, err := langchain.Wrap("mistral", scripted(func(ctx context.Context, _ []llms.MessageContent, o llms.CallOptions) (*llms.ContentResponse, error) {
		require.NoError(t, o.StreamingFunc(ctx, []byte("Hi")))
		<-ctx.Done()
		return nil, errors.New("something about a context")
	}), langchain.Config{Timeout: 50 * time.Millisecond})
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), request(), nil)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, "not a byte for 50ms")
}

// Some clients read on in a goroutine that outlives the call: nothing of that may reach the caller.
func TestWrapShutsTheGateBehindACall(t *testing.T) {
	late := make(chan func() error, 1)
	m, err := langchain.Wrap("mistral", scripted(func(ctx context.Context, _ []llms.MessageContent, o llms.CallOptions) (*llms.ContentResponse, error) {
		late <- func() error { return o.StreamingFunc(ctx, []byte("late")) }
		return nil, errors.New("boom")
	}), langchain.Config{})
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), request(), func(agent.Delta) error {
		t.Error("emit after the end")
		return nil
	})
	require.ErrorContains(t, err, "mistral: boom")
	require.Error(t, (<-late)())
}

func TestWrapKeepsTheKeyOutOfErrors(t *testing.T) {
	m, err := langchain.Wrap("mistral", scripted(func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error) {
		return nil, errors.New("bad key sk-1234")
	}), langchain.Config{APIKey: "sk-1234"})
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), request(), nil)
	require.ErrorContains(t, err, "bad key [redacted]")
}
