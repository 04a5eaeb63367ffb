package anthropic_test

import (
	"testing"

	"github.com/turnstone-run/turnstone/internal/llm/anthropic"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

func TestConformance(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.Anthropic{}, Open: anthropic.New, Requests: "testdata/requests"})
}
