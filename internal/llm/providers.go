package llm

import (
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/anthropic"
	"github.com/turnstone-run/turnstone/internal/llm/langchain"
	"github.com/turnstone-run/turnstone/internal/llm/ollama"
	"github.com/turnstone-run/turnstone/internal/llm/openai"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Config is the configuration of any provider.
type Config = wire.Config

// Provider is a named way to open models: the name is what profiles refer to.
type Provider struct {
	Name   string
	Config Config
	Open   func(Config) (agent.Model, error)                      // connects to nothing; the model may be [agent.Capable]
	Embed  func(cfg Config, model string) (agent.Embedder, error) // opens an embedding model; nil: the provider has none
	OwnURL string                                                 // where it is when Config has no base URL; empty: nowhere, or not known
}

// kinds lists the providers that a profile of the catalog may name without an entry in the configuration: the one place where such a
// provider is added.
func kinds() []Provider {
	return []Provider{OpenAI(Config{}), Anthropic(Config{}), Ollama(Config{}), Offline(Config{})}
}

// OpenAI is the provider "openai".
func OpenAI(cfg Config) Provider {
	return Provider{Name: "openai", Config: cfg, Open: openai.New, Embed: embedAs("openai"), OwnURL: openai.BaseURL}
}

// Anthropic is the provider "anthropic".
func Anthropic(cfg Config) Provider {
	return Provider{Name: "anthropic", Config: cfg, Open: anthropic.New, OwnURL: anthropic.BaseURL}
}

// Ollama is the provider "ollama"; the base URL includes /v1.
func Ollama(cfg Config) Provider {
	return Provider{Name: "ollama", Config: cfg, Open: ollama.New, Embed: ollama.NewEmbedder, OwnURL: ollama.BaseURL}
}

// Offline is the provider "offline": the model server of the embedded stack, which speaks OpenAI's protocol. It has no base URL of
// its own.
func Offline(cfg Config) Provider { return Compatible("offline", cfg) }

// Compatible is a provider of any name that speaks OpenAI's protocol at a base URL.
func Compatible(name string, cfg Config) Provider {
	embed := embedAs(name)
	return Provider{Name: name, Config: cfg, Open: func(cfg Config) (agent.Model, error) {
		if cfg.BaseURL == "" {
			return nil, agent.Invalid("base_url", "is empty")
		}
		return openai.NewNamed(name, cfg)
	}, Embed: func(cfg Config, model string) (agent.Embedder, error) {
		if cfg.BaseURL == "" {
			return nil, agent.Invalid("base_url", "is empty")
		}
		return embed(cfg, model)
	}}
}

func embedAs(provider string) func(Config, string) (agent.Embedder, error) {
	return func(cfg Config, model string) (agent.Embedder, error) {
		return openai.NewEmbedder(provider, cfg, model)
	}
}

// LangChainOpenAI is the provider "langchain-openai": langchaingo's own client, with the gaps that docs/adr/0002 lists.
func LangChainOpenAI(cfg Config) Provider {
	return Provider{Name: "langchain-openai", Config: cfg, Open: langchain.OpenAI}
}

// LangChainAnthropic is the provider "langchain-anthropic": see [LangChainOpenAI].
func LangChainAnthropic(cfg Config) Provider {
	return Provider{Name: "langchain-anthropic", Config: cfg, Open: langchain.Anthropic}
}

// LangChainOllama is the provider "langchain-ollama": see [LangChainOpenAI]. It calls no tools.
func LangChainOllama(cfg Config) Provider {
	return Provider{Name: "langchain-ollama", Config: cfg, Open: langchain.Ollama}
}
