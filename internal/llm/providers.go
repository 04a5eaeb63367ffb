package llm

import (
	"cmp"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/anthropic"
	"github.com/turnstone-run/turnstone/internal/llm/langchain"
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
	OwnURL string                                                 // the address if Config has no base URL; empty: there is none, or it is not known

	// DocumentAddress allows a ModelProfile to set the address or the key. Set it only if every request goes through Config.HTTPClient, which
	// then obeys the egress rules.
	DocumentAddress bool
}

// Builtin returns the providers that need no SDK of a cloud. internal/app adds the others. docs/reference/models.md says what each can do.
func Builtin() []Provider {
	return []Provider{
		OpenAI(Config{}), Anthropic(Config{}), Ollama(Config{}),
		Compatible("offline", Config{}), // the model server of the embedded stack
		compatible("mistral", "https://api.mistral.ai/v1", true, openai.Options{NoStreamOptions: true}),
		compatible("cohere", "https://api.cohere.ai/compatibility/v1", true, openai.Options{NoStreamOptions: true}),
		compatible("huggingface", "https://router.huggingface.co/v1", true, openai.Options{}),
		compatible("ernie", "https://qianfan.baidubce.com/v2", true, openai.Options{}),
		compatible("maritaca", "https://chat.maritaca.ai/api", true, openai.Options{}),
		Compatible("cloudflare", Config{}), // https://api.cloudflare.com/client/v4/accounts/ACCOUNT/ai/v1
		Compatible("watsonx", Config{}),    // https://REGION.ml.cloud.ibm.com/ml/gateway/v1
		llamafile(),
		LangChainOpenAI(Config{}), LangChainAnthropic(Config{}), LangChainOllama(Config{}),
	}
}

// Custom returns a program's provider with an HTTP client like those of the built-in providers: it bounds silence and size, follows no redirects,
// and its failures are [agent.Error] values without the key.
func Custom(p Provider) Provider {
	open, embed := p.Open, p.Embed
	withBounds := func(cfg Config) (Config, error) {
		client, err := wire.NewClient(p.Name, p.OwnURL, cfg)
		if err != nil {
			return Config{}, err
		}
		cfg = client.Config()
		cfg.HTTPClient = client.HTTP()
		return cfg, nil
	}
	if open != nil {
		p.Open = func(cfg Config) (agent.Model, error) {
			cfg, err := withBounds(cfg)
			if err != nil {
				return nil, err
			}
			return open(cfg)
		}
	}
	if embed != nil {
		p.Embed = func(cfg Config, model string) (agent.Embedder, error) {
			cfg, err := withBounds(cfg)
			if err != nil {
				return nil, err
			}
			return embed(cfg, model)
		}
	}
	return p
}

// compatible returns a provider that speaks OpenAI's protocol. Its address is baseURL unless the configuration has another.
func compatible(name, baseURL string, needsKey bool, options openai.Options) Provider {
	errNoURL, errNoKey := agent.Invalid("base_url", "is empty"), agent.Invalid("api_key", "is empty")
	return Provider{Name: name, OwnURL: baseURL, DocumentAddress: true, Open: func(cfg Config) (agent.Model, error) {
		cfg.BaseURL = cmp.Or(cfg.BaseURL, baseURL)
		switch {
		case needsKey && cfg.APIKey == "":
			return nil, errNoKey
		case cfg.BaseURL == "":
			return nil, errNoURL
		}
		return openai.NewWith(name, cfg, options)
	}, Embed: func(cfg Config, model string) (agent.Embedder, error) {
		if cfg.BaseURL = cmp.Or(cfg.BaseURL, baseURL); cfg.BaseURL == "" {
			return nil, errNoURL
		}
		return openai.NewEmbedder(name, cfg, model)
	}}
}

// llamafile returns the provider of a server on this machine that has neither key nor embeddings.
func llamafile() Provider {
	p := compatible("llamafile", "http://127.0.0.1:8080/v1", false, openai.Options{})
	p.Embed = nil
	return p
}

// OpenAI is the provider "openai".
func OpenAI(cfg Config) Provider {
	return Provider{
		Name: "openai", Config: cfg, Open: openai.New, OwnURL: openai.BaseURL, DocumentAddress: true,
		Embed: func(cfg Config, model string) (agent.Embedder, error) {
			return openai.NewEmbedder("openai", cfg, model)
		},
	}
}

// Anthropic is the provider "anthropic".
func Anthropic(cfg Config) Provider {
	return Provider{Name: "anthropic", Config: cfg, Open: anthropic.New, OwnURL: anthropic.BaseURL, DocumentAddress: true}
}

// Ollama is the provider "ollama". Its base URL ends with /v1.
func Ollama(cfg Config) Provider {
	return Provider{Name: "ollama", Config: cfg, Open: openai.NewOllama, Embed: openai.NewOllamaEmbedder, OwnURL: openai.OllamaURL, DocumentAddress: true}
}

// Compatible is a provider with this name that speaks OpenAI's protocol at the base URL of cfg.
func Compatible(name string, cfg Config) Provider {
	p := compatible(name, "", false, openai.Options{})
	p.Config = cfg
	return p
}

// LangChainOpenAI is the provider "langchain-openai": langchaingo's client, with the gaps that docs/adr/0002 lists.
func LangChainOpenAI(cfg Config) Provider {
	return Provider{Name: "langchain-openai", Config: cfg, Open: langchain.OpenAI, DocumentAddress: true}
}

// LangChainAnthropic is the provider "langchain-anthropic": see [LangChainOpenAI].
func LangChainAnthropic(cfg Config) Provider {
	return Provider{Name: "langchain-anthropic", Config: cfg, Open: langchain.Anthropic, DocumentAddress: true}
}

// LangChainOllama is the provider "langchain-ollama": see [LangChainOpenAI]. It calls no tools.
func LangChainOllama(cfg Config) Provider {
	return Provider{Name: "langchain-ollama", Config: cfg, Open: langchain.Ollama, DocumentAddress: true}
}
