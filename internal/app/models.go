package app

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
	"github.com/turnstone-run/turnstone/internal/llm"
)

// models opens the providers of the configured profiles, and describes the profiles to the catalog. kinds are all providers there are.
func (p *Parts) models(c *Config, kinds []llm.Provider) ([]catalog.ConfiguredModel, error) {
	named := append([]Model{{Name: defaultProfile, LLM: c.LLM}}, c.Models...)
	var opened []llm.Provider
	configured := make([]catalog.ConfiguredModel, 0, len(named))
	for _, m := range named {
		at := slices.IndexFunc(kinds, func(kind llm.Provider) bool { return kind.Name == m.Provider })
		if at < 0 {
			return nil, fmt.Errorf("model profile %q: %w", m.Name, unknownProvider("provider", m.Provider, kinds))
		}
		entry := kinds[at]
		entry.Config = llm.Config{
			APIKey: m.APIKey.Reveal(), BaseURL: m.BaseURL, Timeout: time.Duration(m.TimeoutSec) * time.Second, Ambient: true,
		}
		if m.Name != defaultProfile { // address and key are the profile's
			entry.Name += "/" + m.Name
		}
		opened = append(opened, entry)
		temperature := m.Temperature
		configured = append(configured, catalog.ConfiguredModel{Entry: entry.Name, Profile: agent.ModelProfile{
			Name: m.Name, Provider: m.Provider, Model: m.Model, BaseURL: m.BaseURL, Temperature: &temperature, MaxTokens: m.MaxTokens,
			TimeoutSec: m.TimeoutSec,
			Price:      agent.ModelPrice{InputPerMTok: m.InputPerMTok, CachedPerMTok: m.CachedPerMTok, OutputPerMTok: m.OutputPerMTok},
		}})
	}
	outbound, err := profileHTTP(c)
	if err != nil {
		return nil, err
	}
	p.Models, err = llm.Open(llm.Settings{Providers: opened, Kinds: kinds, Secrets: p.secrets, Outbound: outbound})
	return configured, err
}

// CheckProviders reports a provider of the configuration that is neither built in nor among what the program adds.
func CheckProviders(c *Config, added []llm.Provider) error {
	kinds := providers(added)
	known := names(kinds)
	var faults []error
	if !slices.Contains(known, c.LLM.Provider) {
		faults = append(faults, unknownProvider("llm.provider", c.LLM.Provider, kinds))
	}
	for i := range c.Models {
		if !slices.Contains(known, c.Models[i].Provider) {
			faults = append(faults, unknownProvider(modelPath(i)+".provider", c.Models[i].Provider, kinds))
		}
	}
	return errors.Join(faults...)
}

func unknownProvider(field, name string, kinds []llm.Provider) error {
	return agent.Invalid(field, "unknown provider %q: want one of %s, or add it to Config.Providers of the program", name, strings.Join(names(kinds), ", "))
}

func names(kinds []llm.Provider) []string {
	names := make([]string, len(kinds))
	for i := range kinds {
		names[i] = kinds[i].Name
	}
	slices.Sort(names)
	return names
}
