// Package ollama is an [agent.Model] for an Ollama server, through its OpenAI-compatible endpoint: that one streams, calls tools and
// reports usage, which langchaingo's native client does not (docs/adr/0002). Of media it takes images and audio in base64 alone. A schema is
// passed on as its format, but beside tools it suppresses their calls, hence no such capability. Embeddings use its own endpoint.
package ollama

import (
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/openai"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// BaseURL is where Ollama listens unless told otherwise.
const BaseURL = "http://127.0.0.1:11434/v1"

// Config is the configuration of the client; BaseURL includes /v1, and no key is needed.
type Config = wire.Config

// New makes the model. An error is [agent.CodeInvalid] with the field.
func New(cfg Config) (agent.Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = BaseURL
	}
	media := openai.Media{ImageTypes: []string{"image/jpeg", "image/png", "image/webp"}, Audio: true}
	return openai.NewWith("ollama", cfg, openai.Options{Media: &media})
}
