// Package llm finds the model behind a plan's profile: providers by name, each with its client. The clients live in the packages
// below; what they share is wire (HTTP) and dialog (messages), and all pass the suite of llmtest.
package llm

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

const (
	// maxOpen bounds how many opened models are kept: one per provider and timeout in use.
	maxOpen = 256
	// idlePerHost keeps connections for the calls of one busy worker; net/http keeps two.
	idlePerHost = 64
)

// Models opens models by provider. It satisfies activities.Models and is safe for concurrent use.
type Models struct {
	providers map[string]Provider
	names     []string

	mu   sync.Mutex
	open map[opened]agent.Model
}

// opened is what tells the models of one provider apart: the client knows neither the model's name nor its temperature.
type opened struct {
	provider string
	timeout  time.Duration
}

// New checks the providers by opening each once. Providers without an HTTP client share one. An error is [agent.CodeInvalid] and
// names the provider.
func New(providers ...Provider) (*Models, error) {
	m := &Models{providers: make(map[string]Provider, len(providers)), open: make(map[opened]agent.Model)}
	shared := &http.Client{}
	if base, ok := http.DefaultTransport.(*http.Transport); ok {
		transport := base.Clone()
		transport.MaxIdleConnsPerHost = idlePerHost
		shared.Transport = transport
	}
	for _, p := range providers {
		if _, twice := m.providers[p.Name]; twice || p.Name == "" || p.Open == nil {
			return nil, agent.Invalid("provider", "%q is given twice, or without a name or constructor", p.Name)
		}
		if p.Config.HTTPClient == nil {
			p.Config.HTTPClient = shared
		}
		m.providers[p.Name] = p
		m.names = append(m.names, p.Name)
		if _, err := m.model(p.Name, p.Config.Timeout); err != nil {
			return nil, err
		}
	}
	slices.Sort(m.names)
	return m, nil
}

// Model returns the model of a plan's profile: its provider's client with the profile's timeout. An unknown provider is
// [agent.CodeInvalid].
func (m *Models) Model(_ context.Context, pm agent.PlanModel) (agent.Model, error) {
	p, ok := m.providers[pm.Provider]
	if !ok {
		return nil, agent.Invalid("provider", "unknown model provider %q: configured are %s", pm.Provider, strings.Join(m.names, ", "))
	}
	timeout := p.Config.Timeout
	if pm.TimeoutSec > 0 {
		timeout = time.Duration(pm.TimeoutSec) * time.Second
	}
	return m.model(pm.Provider, timeout)
}

func (m *Models) model(provider string, timeout time.Duration) (agent.Model, error) {
	if timeout == 0 {
		timeout = wire.DefaultTimeout
	}
	key := opened{provider: provider, timeout: timeout}
	m.mu.Lock()
	defer m.mu.Unlock()
	if model, ok := m.open[key]; ok {
		return model, nil
	}
	p := m.providers[provider]
	p.Config.Timeout = timeout
	model, err := p.Open(p.Config)
	if err != nil {
		e := agent.Errorf(agent.CodeOf(err), "open model provider", "%q: %w", provider, err)
		return nil, e
	}
	if len(m.open) < maxOpen {
		m.open[key] = model
	}
	return model, nil
}
