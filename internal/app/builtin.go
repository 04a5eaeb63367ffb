// Package app holds the configuration and the explicit list of everything built in.
package app

import (
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/llm"
	"github.com/turnstone-run/turnstone/internal/middleware"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
)

// Parts is everything that agents are made of.
type Parts struct {
	Registry   *catalog.Registry
	Models     *llm.Models
	Tools      *tool.Registry
	Middleware *middleware.Set
}

// toolkits lists the built-in toolkits: the one place where a new one is added.
func toolkits(web *egress.Client, data pipeline.Datasets, maxBytes int64) []agent.Toolkit {
	return []agent.Toolkit{
		pipeline.New(pipeline.Config{HTTP: web, Datasets: data, MaxBytes: maxBytes}),
	}
}

// provider opens the models of a profile: the one place where a new provider is added. Profiles besides the default have a provider
// entry of their own, because address and key are the profile's.
func provider(name string, m LLM) (llm.Provider, error) {
	cfg := llm.Config{APIKey: m.APIKey.Reveal(), BaseURL: m.BaseURL, Timeout: time.Duration(m.TimeoutSec) * time.Second}
	var p llm.Provider
	switch m.Provider {
	case ProviderOpenAI:
		p = llm.OpenAI(cfg)
	case ProviderAnthropic:
		p = llm.Anthropic(cfg)
	case ProviderOllama:
		p = llm.Ollama(cfg)
	case ProviderOffline:
		p = llm.Offline(cfg)
	default:
		return p, agent.Invalid("provider", "unknown provider %q", m.Provider)
	}
	p.Name = name
	return p, nil
}

// Build makes the parts out of settings, the built-in lists and what the user adds.
func Build(c *Config, plans catalog.PlanStore, data pipeline.Datasets, kits []agent.Toolkit, more []middleware.Named) (*Parts, error) {
	web, err := egress.New(egress.Config{
		AllowHosts: c.Egress.AllowHosts, AllowPrivate: c.Egress.AllowPrivate, MaxBytes: int64(c.Egress.MaxBytes), Timeout: c.Egress.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("egress: %w", err)
	}
	parts := &Parts{}
	if parts.Tools, err = tool.NewRegistry(append(toolkits(web, data, int64(c.Egress.MaxBytes)), kits...)...); err != nil {
		return nil, err
	}
	if parts.Middleware, err = middleware.NewSet(slices.Concat(middleware.Builtin(), more)...); err != nil {
		return nil, err
	}
	profiles, err := c.profiles()
	if err != nil {
		return nil, err
	}
	var providers []llm.Provider
	for _, p := range profiles {
		providers = append(providers, p.provider)
	}
	if parts.Models, err = llm.New(providers...); err != nil {
		return nil, err
	}
	parts.Registry, err = catalog.New(plans, analyst(c, profiles, parts.Tools, more))
	return parts, err
}

// profile is a model that agents may use.
type profile struct {
	model    agent.PlanModel
	provider llm.Provider
}

func (c *Config) profiles() ([]profile, error) {
	named := append([]Model{{Name: defaultProfile, LLM: c.LLM}}, c.Models...)
	out := make([]profile, 0, len(named))
	for _, m := range named {
		name := m.Provider
		if m.Name != defaultProfile {
			name += "/" + m.Name
		}
		p, err := provider(name, m.LLM)
		if err != nil {
			return nil, fmt.Errorf("model profile %q: %w", m.Name, err)
		}
		temperature := m.Temperature
		out = append(out, profile{provider: p, model: agent.PlanModel{
			Profile: m.Name, Provider: name, Model: m.Model, Temperature: &temperature, MaxTokens: m.MaxTokens, TimeoutSec: m.TimeoutSec,
			InputPerMTok: m.InputPerMTok, CachedPerMTok: m.CachedPerMTok, OutputPerMTok: m.OutputPerMTok,
		}})
	}
	return out, nil
}

var _ pipeline.HTTP = (*egress.Client)(nil)
