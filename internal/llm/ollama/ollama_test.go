package ollama_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
	"github.com/turnstone-run/turnstone/internal/llm/ollama"
)

func TestConformance(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.OpenAI{}, Open: ollama.New, Requests: "testdata/requests"})
}
