// Package app holds the configuration and the explicit list of everything built in.
package app

import (
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/delegate"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/tool/todo"
)

// toolkits lists the built-in toolkits, each with what it needs: the one place where a new one is added.
func toolkits(c *Config) []tool.Factory {
	remembered := c.Tools.Pipeline.CacheTTL
	if remembered == 0 {
		remembered = -1 // nothing is
	}
	return []tool.Factory{
		pipeline.Factory(pipeline.Config{MaxBytes: int64(c.Tools.Pipeline.MaxBytes), CacheTTL: remembered}),
		tool.Ready(todo.New()),
		tool.Ready(delegate.New()),
	}
}

// provider opens the models of a provider: the one place where a new one is added.
func provider(kind string, cfg llm.Config) (llm.Provider, error) {
	switch kind {
	case ProviderOpenAI:
		return llm.OpenAI(cfg), nil
	case ProviderAnthropic:
		return llm.Anthropic(cfg), nil
	case ProviderOllama:
		return llm.Ollama(cfg), nil
	case ProviderOffline:
		return llm.Offline(cfg), nil
	default:
		return llm.Provider{}, agent.Invalid("provider", "unknown provider %q", kind)
	}
}

// middlewares lists the built-in middleware and what the user adds.
func middlewares(c *Config, added []middleware.Named) ([]middleware.Named, []string) {
	names := make([]string, 0, len(added))
	for _, m := range added {
		names = append(names, m.Name)
	}
	return slices.Concat(middleware.Builtin(c.LLM.MaxRetries), added), names
}
