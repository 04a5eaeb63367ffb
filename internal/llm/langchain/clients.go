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

// noKey stands in for the key of a server that needs none; langchaingo insists on one.
const noKey = "none"

// unnamed is the model a client is made with; every request names its own.
const unnamed = "unnamed"

// OpenAI makes the model over langchaingo's OpenAI client; BaseURL includes /v1.
func OpenAI(cfg Config) (agent.Model, error) {
	client, err := wire.NewClient("langchain-openai", "https://api.openai.com/v1", cfg)
	if err != nil {
		return nil, err
	}
	// Everything that langchaingo would read from the environment is given here.
	llm, err := openai.New(openai.WithToken(cmp.Or(cfg.APIKey, noKey)), openai.WithBaseURL(client.Config().BaseURL), openai.WithModel(unnamed),
		openai.WithOrganization(""), openai.WithHTTPClient(client.HTTP()))
	if err != nil {
		return nil, client.Refuse(err)
	}
	return &model{client: client, llm: llm, traits: traits{saysWhy: true}}, nil
}

// Anthropic makes the model over langchaingo's Anthropic client; BaseURL is without the version, a trailing /v1 is tolerated.
func Anthropic(cfg Config) (agent.Model, error) {
	client, err := wire.NewClient("langchain-anthropic", "https://api.anthropic.com", cfg)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(strings.TrimSuffix(client.Config().BaseURL, "/"), "/v1") + "/v1"
	llm, err := anthropic.New(anthropic.WithToken(cmp.Or(cfg.APIKey, noKey)), anthropic.WithBaseURL(base), anthropic.WithModel(unnamed),
		anthropic.WithHTTPClient(client.HTTP()))
	if err != nil {
		return nil, client.Refuse(err)
	}
	return &model{client: client, llm: llm, traits: traits{onePart: true, saysWhy: true, noImageURL: true}}, nil
}

// Ollama makes the model over langchaingo's client for Ollama's own endpoint; BaseURL is without a path.
func Ollama(cfg Config) (agent.Model, error) {
	client, err := wire.NewClient("langchain-ollama", "http://127.0.0.1:11434", cfg)
	if err != nil {
		return nil, err
	}
	llm, err := ollama.New(ollama.WithServerURL(client.Config().BaseURL), ollama.WithModel(unnamed), ollama.WithHTTPClient(client.HTTP()))
	if err != nil {
		return nil, client.Refuse(err)
	}
	return &model{client: client, llm: llm, traits: traits{oneText: true, forgets: true, noImageURL: true}}, nil
}
