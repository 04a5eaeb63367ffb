package langchain

import (
	"github.com/tmc/langchaingo/llms"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Wrap returns a model of any client.
func Wrap(llm llms.Model, cfg Config) (agent.Model, error) {
	client, err := wire.NewClient("scripted", "", cfg)
	return &model{client: client, llm: llm}, err
}
