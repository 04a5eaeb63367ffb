// Package app holds the configuration and the explicit list of everything built in.
package app

import (
	"slices"

	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/llm/bedrock"
	"github.com/turnstone-run/turnstone/internal/llm/gemini"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/delegate"
	"github.com/turnstone-run/turnstone/internal/tool/mcp"
	"github.com/turnstone-run/turnstone/internal/tool/openapi"
	"github.com/turnstone-run/turnstone/internal/tool/patch"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/tool/research"
	"github.com/turnstone-run/turnstone/internal/tool/todo"
	"github.com/turnstone-run/turnstone/internal/tool/toolsearch"
)

// toolkits lists the built-in toolkits, each with what it needs: the one place where a new one is added.
func toolkits(c *Config, w *World, sample mcp.Sampler) ([]tool.Factory, error) {
	remembered := c.Tools.Pipeline.CacheTTL
	if remembered == 0 {
		remembered = -1 // nothing is
	}
	servers, err := mcpConfig(c, w)
	if err != nil {
		return nil, err
	}
	servers.Sample = sample
	delegated, err := delegation(&c.Tools.Kubernetes, w.Logger)
	if err != nil {
		return nil, err
	}
	r := &c.Tools.Research
	return []tool.Factory{
		pipeline.Factory(pipeline.Config{
			MaxBytes: int64(c.Tools.Pipeline.MaxBytes), CacheTTL: remembered, PromoteAfter: c.Tools.Pipeline.PromoteAfter,
		}),
		patch.Factory(),
		toolsearch.Factory(),
		openapi.Factory(openapi.Config{
			CacheBytes: int64(c.Tools.OpenAPI.CacheBytes), MaxResponse: int64(c.Tools.OpenAPI.MaxResponseBytes), Freshness: c.Tools.OpenAPI.Freshness,
		}),
		delegate.Factory(delegated),
		research.Factory(research.Config{
			PubMedURL: r.PubMedURL, TrialsURL: r.TrialsURL, PreprintsURL: r.PreprintsURL, OpenAlexURL: r.OpenAlexURL, WebProvider: r.WebProvider,
			WebURL: r.WebURL, Contact: r.Contact, MaxWait: r.MaxWait, SourceTimeout: r.SourceTimeout,
			Rates: r.rates(),
		}),
		mcp.Factory(servers),
		tool.Ready(todo.New()),
	}, nil
}

// providers lists the model providers, the built-in ones and what the program adds: the one place where a provider with an SDK of its own
// is added. A build without one is this list without its line.
func providers(added []llm.Provider) []llm.Provider {
	all := append(llm.Builtin(),
		llm.Provider{Name: "googleai", Open: gemini.New, OwnURL: gemini.BaseURL, DocumentAddress: true},
		llm.Provider{Name: "vertex", Open: gemini.NewVertex, DocumentAddress: true},
		llm.Provider{Name: "bedrock", Open: bedrock.New, DocumentAddress: true},
	)
	for _, p := range added {
		all = append(all, llm.Custom(p))
	}
	return all
}

// middlewares lists the built-in middleware and what the user adds.
func middlewares(c *Config, added []middleware.Named) ([]middleware.Named, []string) {
	names := make([]string, 0, len(added))
	for _, m := range added {
		names = append(names, m.Name)
	}
	ofProfile := make(map[string]int, len(c.Models))
	for i := range c.Models {
		ofProfile[c.Models[i].Name] = c.Models[i].MaxRetries
	}
	return slices.Concat(middleware.Builtin(c.LLM.MaxRetries, ofProfile), added), names
}
