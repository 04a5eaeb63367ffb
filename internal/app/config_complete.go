package app

import (
	"net/url"
	"path/filepath"
)

// Models that apply when a provider is named without one. Ollama has none: it serves what was pulled.
const (
	defaultOpenAIModel    = "gpt-4o"
	defaultAnthropicModel = "claude-sonnet-5-5"
	offlineModel          = "turnstone-offline"
)

// complete fills in what depends on other settings.
func (l *loader) complete(dir string) {
	cfg := l.cfg
	if cfg.DataDir != "" {
		cfg.DataDir = inDir(dir, cfg.DataDir)
		if cfg.Storage.BlobURL == "" {
			path := filepath.ToSlash(filepath.Join(cfg.DataDir, "blobs"))
			cfg.Storage.BlobURL = Secret((&url.URL{Scheme: "file", Path: path}).String())
		}
	}
	if cfg.Catalog.Folder != "" {
		cfg.Catalog.Folder = inDir(dir, cfg.Catalog.Folder)
	}
	if cfg.Temporal.ConfigFile != "" {
		cfg.Temporal.ConfigFile = inDir(dir, cfg.Temporal.ConfigFile)
	}
	for _, file := range []*string{&cfg.HTTP.TLSCert, &cfg.HTTP.TLSKey, &cfg.GRPC.TLSCert, &cfg.GRPC.TLSKey, &cfg.GRPC.ClientCA} {
		if *file != "" {
			*file = inDir(dir, *file)
		}
	}
	if cfg.LLM.Provider == "" || cfg.LLM.Provider == ProviderAuto {
		l.chooseProvider()
	}
	l.completeModel(&cfg.LLM, "llm")
	for i := range cfg.Models {
		l.completeModel(&cfg.Models[i].LLM, modelPath(i))
	}
}

// chooseProvider takes what is there. A base URL alone means something compatible with OpenAI.
func (l *loader) chooseProvider() {
	const path = "llm.provider"
	llm := &l.cfg.LLM
	switch {
	case llm.BaseURL != "":
		llm.Provider = ProviderOpenAI
	case l.env[openAIKey] != "":
		llm.Provider, l.cfg.origins[path] = ProviderOpenAI, openAIKey
	case l.env[anthropicKey] != "":
		llm.Provider, l.cfg.origins[path] = ProviderAnthropic, anthropicKey
	default:
		llm.Provider = ProviderOffline
	}
}

// WantsOfflineModel reports whether the process has to serve the offline model itself: it was asked for, not only left over for want of a key.
func (c *Config) WantsOfflineModel() bool {
	return c.LLM.Provider == ProviderOffline && c.LLM.BaseURL == "" && c.origins["llm.provider"] != ""
}

func (l *loader) completeModel(m *LLM, path string) {
	var model, key string
	switch m.Provider {
	case ProviderOpenAI:
		key = openAIKey
		if m.BaseURL == "" { // another service has other models
			model = defaultOpenAIModel
		}
	case ProviderAnthropic:
		model, key = defaultAnthropicModel, anthropicKey
	case ProviderOffline:
		model = offlineModel
	}
	if m.Model == "" {
		m.Model = model
	}
	// A key that this file or a TURNSTONE_ variable gives is meant for Turnstone; the shared one is not, so it comes second.
	if m.APIKey == "" && l.env[key] != "" {
		m.APIKey, l.cfg.origins[path+".api_key"] = Secret(l.env[key]), key
	}
}
