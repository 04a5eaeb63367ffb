package openai_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/llm/openai"
)

func TestConformance(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.OpenAI{}, Open: openai.New, Requests: "testdata/requests"})
}

func TestConformanceOllama(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.OpenAI{}, Open: openai.NewOllama, Requests: "testdata/ollama"})
}
