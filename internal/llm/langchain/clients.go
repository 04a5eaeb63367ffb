package langchain

import (
	"cmp"
	"strings"

	"github.com/tmc/langchaingo/llms/anthropic"
	"github.com/tmc/langchaingo/llms/ollama"
	"github.com/tmc/langchaingo/llms/openai"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// noKey is the key for a server that needs none, because langchaingo requires one.
const noKey = "none"

// anyModel is the model of a client. Every request names another one.
const anyModel = "unnamed"

// OpenAI returns a model of langchaingo's OpenAI client. BaseURL ends with /v1.
func OpenAI(cfg Config) (agent.Model, error) {
	client, err := wire.NewClient("langchain-openai", "https://api.openai.com/v1", cfg)
	if err != nil {
		return nil, err
	}
	// These options set everything that langchaingo would read from the environment.
	llm, err := openai.New(openai.WithToken(cmp.Or(cfg.APIKey, noKey)), openai.WithBaseURL(client.Config().BaseURL), openai.WithModel(anyModel),
		openai.WithOrganization(""), openai.WithHTTPClient(client.HTTP()))
	if err != nil {
		return nil, client.Refuse(err)
	}
	return &model{client: client, llm: llm, traits: traits{hasStopReason: true}}, nil
}

// Anthropic returns a model of langchaingo's Anthropic client. BaseURL needs no version; /v1 at its end is ignored.
func Anthropic(cfg Config) (agent.Model, error) {
	client, err := wire.NewClient("langchain-anthropic", "https://api.anthropic.com", cfg)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(strings.TrimSuffix(client.Config().BaseURL, "/"), "/v1") + "/v1"
	llm, err := anthropic.New(anthropic.WithToken(cmp.Or(cfg.APIKey, noKey)), anthropic.WithBaseURL(base), anthropic.WithModel(anyModel),
		anthropic.WithHTTPClient(client.HTTP()))
	if err != nil {
		return nil, client.Refuse(err)
	}
	return &model{client: client, llm: llm, traits: traits{onePart: true, hasStopReason: true, noImageURL: true}}, nil
}

// Ollama returns a model of langchaingo's client for Ollama's native endpoint. BaseURL has no path.
func Ollama(cfg Config) (agent.Model, error) {
	client, err := wire.NewClient("langchain-ollama", "http://127.0.0.1:11434", cfg)
	if err != nil {
		return nil, err
	}
	llm, err := ollama.New(ollama.WithServerURL(client.Config().BaseURL), ollama.WithModel(anyModel), ollama.WithHTTPClient(client.HTTP()))
	if err != nil {
		return nil, client.Refuse(err)
	}
	return &model{client: client, llm: llm, traits: traits{oneText: true, losesText: true, noImageURL: true}}, nil
}
