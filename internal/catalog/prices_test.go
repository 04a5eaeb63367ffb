package catalog_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog"
)

// prices returns the prices of an agent's models, as input, cached and output by profile.
func (w *world) prices(tenant, name string) map[string]string {
	out := map[string]string{}
	p := w.plan(tenant, name)
	for i := range p.Models {
		m := &p.Models[i]
		out[m.Profile] = fmt.Sprint(m.InputPerMTok, m.CachedPerMTok, m.OutputPerMTok)
	}
	return out
}

// Configured models have the shipped prices of their names unless they have their own.
func TestConfiguredModelsArePriced(t *testing.T) {
	tests := []struct {
		provider, model, baseURL string
		own                      float64
		want                     string
	}{
		{provider: "openai", model: "gpt-4o", want: "2.5 1.25 10"},
		{provider: "openai", model: "gpt-4o-2024-08-06", want: "2.5 1.25 10"},
		{provider: "openai", model: "gpt-4o-2024-05-13", want: "5 5 15"}, // a snapshot with its own price
		{provider: "openai", model: "gpt-4o-mini-2024-07-18", want: "0.15 0.075 0.6"},
		{provider: "langchain-openai", model: "gpt-4o", want: "2.5 1.25 10"},
		{provider: "anthropic", model: "claude-opus-4-1-20250805", want: "15 1.5 75"},
		{provider: "anthropic", model: "claude-opus-4-20250514", want: "15 1.5 75"},
		{provider: "anthropic", model: "claude-3-5-haiku-latest", want: "0.8 0.08 4"},
		{provider: "googleai", model: "gemini-2.5-flash", want: "0.3 0.03 2.5"},
		{provider: "openai", model: "gpt-4o", own: 7, want: "7 0 0"},
		{provider: "openai", model: "gpt-4o", baseURL: "https://other.example/v1", want: "0 0 0"}, // another service
		{provider: "mistral", model: "gpt-4o", want: "0 0 0"},
		{provider: "openai", model: "gpt-4o-audio", want: "0 0 0"},
		{provider: "openai", model: "gpt-4o-2024", want: "0 0 0"}, // not a date
	}
	var models []catalog.ConfiguredModel
	want := map[string]string{}
	for i, tt := range tests {
		name := fmt.Sprintf("m%d", i)
		want[name] = tt.want
		models = append(models, catalog.ConfiguredModel{Entry: tt.provider, Profile: agent.ModelProfile{
			Name: name, Provider: tt.provider, Model: tt.model, BaseURL: tt.baseURL, Price: agent.ModelPrice{InputPerMTok: tt.own},
		}})
	}
	w := newWorld(t, func(c *catalog.Config) { c.Parts.Models = models })
	require.Equal(t, want, w.prices("default", "analyst"))
}

const sameName = "kind: ModelProfile\ntenant: %q\nname: gpt-4o\nprovider: openai\nmodel: gpt-4o\n"

// A document named after a model sets the price of all profiles of the model that its tenants see, without a restart.
func TestDocumentsOverridePrices(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) {
		c.Parts.Models = []catalog.ConfiguredModel{{Entry: "openai", Profile: agent.ModelProfile{Name: "default", Provider: "openai", Model: "gpt-4o-2024-08-06"}}}
	})
	w.apply("kind: AgentInstance\ntenant: acme\nname: own\nnode_id: agent\nnode_version: \"1\"\nparameters: {system_message: x}\nmodels: [default, gpt-4o, o3]\n")
	const shipped = "2.5 1.25 10"
	require.Equal(t, map[string]string{"default": shipped, "gpt-4o": shipped, "o3": "2 0.5 8"}, w.prices("acme", "own"))

	w.apply(fmt.Sprintf(sameName, "acme") + "temperature: 0.2\n")
	require.Equal(t, map[string]string{"default": shipped, "gpt-4o": shipped, "o3": "2 0.5 8"}, w.prices("acme", "own"), "it has no price")

	w.apply(fmt.Sprintf(sameName, "acme") + "price: {input_per_mtok: 1, output_per_mtok: 4, as_of: 2026-11-24}\n")
	require.Equal(t, map[string]string{"default": "1 0 4", "gpt-4o": "1 0 4", "o3": "2 0.5 8"}, w.prices("acme", "own"))
	require.Equal(t, map[string]string{"default": shipped}, w.prices("default", "analyst"), "a tenant has its own price")

	w.apply("kind: ModelProfile\ntenant: acme\nname: gpt-4o\nprovider: openai\nmodel: gpt-9\nprice: {input_per_mtok: 3}\n")
	require.Equal(t, map[string]string{"default": shipped, "gpt-4o": "3 0 0", "o3": "2 0.5 8"}, w.prices("acme", "own"), "it names another model")
}

// A configured profile hides the shipped profile of the same name.
func TestConfiguredModelHidesShippedModel(t *testing.T) {
	w := newWorld(t, func(c *catalog.Config) {
		c.Parts.Models = []catalog.ConfiguredModel{{Entry: "openai/gpt-4o", Profile: agent.ModelProfile{Name: "gpt-4o", Provider: "openai", Model: "gpt-4o-mini"}}}
	})
	p := w.plan("default", "analyst")
	require.Equal(t, "openai/gpt-4o", p.Models[0].Provider)
	require.Equal(t, map[string]string{"gpt-4o": "0.15 0.075 0.6"}, w.prices("default", "analyst"))
}
