package openai

import (
	"github.com/turnstone-run/turnstone/agent"
)

// OllamaURL is where Ollama listens by default.
const OllamaURL = "http://127.0.0.1:11434/v1"

// NewOllama returns a model of an Ollama server, through its OpenAI-compatible endpoint: that one streams, calls tools and reports usage,
// which langchaingo's native client does not (docs/adr/0002). BaseURL includes /v1, and no key is needed. Of media it takes images and
// audio in base64 alone. A schema becomes its format, but beside tools that suppresses their calls, hence no such capability. An error is
// [agent.CodeInvalid] with the field.
func NewOllama(cfg Config) (agent.Model, error) {
	if cfg.BaseURL == "" {
		cfg.BaseURL = OllamaURL
	}
	media := Media{ImageTypes: []string{"image/jpeg", "image/png", "image/webp"}, Audio: true}
	return NewWith("ollama", cfg, Options{Media: &media})
}
