package mistral_test

import (
	"testing"

	mistral "github.com/turnstone-run/turnstone/examples/customprovider"
	"github.com/turnstone-run/turnstone/internal/llm/llmtest"
)

func TestConformance(t *testing.T) {
	llmtest.Exercise(t, llmtest.Harness{Dialect: llmtest.OpenAI{}, Open: mistral.New, Requests: "testdata/requests"})
}
