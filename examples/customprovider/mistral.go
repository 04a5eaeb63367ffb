// Package mistral is an [agent.Model] for Mistral's API, which speaks OpenAI's protocol.
package mistral

import (
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/openai"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// BaseURL is where the API is when the configuration says nothing.
const BaseURL = "https://api.mistral.ai/v1"

// Config is the configuration of the client; BaseURL includes /v1.
type Config = wire.Config

// New makes the model. An error is [agent.CodeInvalid] with the field.
func New(cfg Config) (agent.Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = BaseURL
	}
	return openai.NewNamed("mistral", cfg)
}
