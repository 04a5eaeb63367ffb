package langchain_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/langchain"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

func TestConformance(t *testing.T) {
	for _, h := range []llmtest.Harness{
		{Dialect: llmtest.OpenAI{}, Open: langchain.OpenAI, Requests: "testdata/openai", Gaps: openaiGaps()},
		{Dialect: llmtest.Anthropic{}, Open: langchain.Anthropic, Requests: "testdata/anthropic", Gaps: anthropicGaps()},
		{Dialect: llmtest.Ollama{}, Open: langchain.Ollama, Requests: "testdata/ollama", Gaps: ollamaGaps()},
	} {
		t.Run(h.Requests, func(t *testing.T) { llmtest.Exercise(t, h) })
	}
}

// scripted is a scripted llms.Model.
type scripted func(ctx context.Context, messages []llms.MessageContent, o llms.CallOptions) (*llms.ContentResponse, error)

func (f scripted) GenerateContent(ctx context.Context, m []llms.MessageContent, opts ...llms.CallOption) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, opt := range opts {
		opt(&o)
	}
	return f(ctx, m, o)
}

func (f scripted) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return "", errors.New("not used")
}

func request() agent.ModelRequest {
	return agent.ModelRequest{Model: "m", Messages: []agent.Message{agent.UserText("Hello")}}
}

// Some clients call back from a goroutine that outlives the call.
func TestNothingIsEmittedAfterACall(t *testing.T) {
	late := make(chan func() error, 1)
	m, err := langchain.Wrap(scripted(func(ctx context.Context, _ []llms.MessageContent, o llms.CallOptions) (*llms.ContentResponse, error) {
		late <- func() error { return o.StreamingFunc(ctx, []byte("late")) }
		return nil, errors.New("boom")
	}), langchain.Config{})
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), request(), func(agent.Delta) error {
		t.Error("emit after the end")
		return nil
	})
	require.ErrorContains(t, err, "scripted: boom")
	require.Error(t, (<-late)())
}

func TestKeyStaysOutOfErrors(t *testing.T) {
	m, err := langchain.Wrap(scripted(func(context.Context, []llms.MessageContent, llms.CallOptions) (*llms.ContentResponse, error) {
		return nil, errors.New("bad key sk-1234")
	}), langchain.Config{APIKey: "sk-1234"})
	require.NoError(t, err)
	_, err = m.Generate(t.Context(), request(), nil)
	require.ErrorContains(t, err, "bad key [redacted]")
}
