package openai

import (
	"cmp"

	"github.com/turnstone-run/turnstone/agent"
)

// OllamaURL is the default address of Ollama.
const OllamaURL = "http://127.0.0.1:11434/v1"

// NewOllama returns a model of an Ollama server. It uses the OpenAI-compatible endpoint, because langchaingo's client for the native one has no
// streaming of tool calls and no usage (docs/adr/0002). BaseURL ends with /v1. No key is needed. Ollama takes images and audio in base64. It enforces
// a schema, but then calls no tools, so that the model does not declare the capability. An error is [agent.CodeInvalid] with the field.
func NewOllama(cfg Config) (agent.Model, error) {
	cfg.BaseURL = cmp.Or(cfg.BaseURL, OllamaURL)
	media := Media{ImageTypes: []string{"image/jpeg", "image/png", "image/webp"}, Audio: true}
	return NewWith("ollama", cfg, Options{Media: &media})
}
