// Package llm finds the model behind a plan's profile: providers by name, each with its client, and the profiles of the catalog, which
// bring address and key themselves. The clients live in the packages below and share package wire. All pass the suite of llmtest.
package llm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

const (
	// maxOpen bounds how many opened models are kept: one per provider, address, key and timeout in use.
	maxOpen = 256
	// idlePerHost keeps connections for the calls of one busy worker; net/http keeps two.
	idlePerHost = 64
)

// Secrets finds the secret that a reference in a document of tenant means, such as env:NAME or file:/path. Its errors are [agent.Error]
// values that name the reference and never the secret.
type Secrets interface {
	Reveal(ctx context.Context, tenant, ref string) (string, error)
}

// Settings configures [Open].
type Settings struct {
	Providers []Provider // configured, with their keys
	Kinds     []Provider // that profiles may name without an entry in the configuration; nil: [Builtin]
	Secrets   Secrets    // nil: a profile with an auth is refused
	// Outbound sends the requests to addresses that the configuration does not name: those of documents, and those of providers that are
	// not configured. It must keep to the egress rules. Nil: such a profile is refused.
	Outbound *http.Client
}

// Models opens models by provider. It satisfies turns.Models. It is safe for concurrent use.
type Models struct {
	providers map[string]Provider // configured
	kinds     map[string]Provider // that profiles may name as well
	secrets   Secrets
	shared    *http.Client // of configured addresses
	outbound  *http.Client // of all others; nil: there are none

	mu   sync.Mutex
	open *simplelru.LRU[clientID, client]
}

// New is [Open] with providers alone.
func New(providers ...Provider) (*Models, error) { return Open(Settings{Providers: providers}) }

// Open checks the configured providers by opening each once. Providers without an HTTP client share one. An error is
// [agent.CodeInvalid] and names the provider.
func Open(s Settings) (*Models, error) {
	m := &Models{
		providers: make(map[string]Provider, len(s.Providers)), kinds: map[string]Provider{}, secrets: s.Secrets, shared: &http.Client{}, outbound: s.Outbound,
	}
	var err error
	if m.open, err = simplelru.NewLRU[clientID, client](maxOpen, nil); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "open models", "%w", err)
	}
	if base, ok := http.DefaultTransport.(*http.Transport); ok {
		transport := base.Clone()
		transport.MaxIdleConnsPerHost = idlePerHost
		m.shared.Transport = transport
	}
	if s.Kinds == nil {
		s.Kinds = Builtin()
	}
	for _, kind := range s.Kinds {
		if _, taken := m.kinds[kind.Name]; taken || kind.Name == "" || kind.Open == nil {
			return nil, agent.Invalid("provider", "%q is given twice, or without a name or constructor", kind.Name)
		}
		m.kinds[kind.Name] = kind
	}
	for _, p := range s.Providers {
		if _, twice := m.providers[p.Name]; twice || p.Name == "" || p.Open == nil {
			return nil, agent.Invalid("provider", "%q is given twice, or without a name or constructor", p.Name)
		}
		if p.Config.HTTPClient == nil {
			p.Config.HTTPClient = m.shared
		}
		m.providers[p.Name] = p
		if _, err := m.client(&target{provider: p}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Model returns the model of a plan's profile.
//
// A profile with neither base URL nor auth uses the configured provider, with its address and its key. Any other has a separate client. Its key
// is the auth's, read for every call, so that a replaced secret counts from then on; the configured key stays with the configured address.
// Authors of documents choose the base URL of a profile, so its requests go through [Settings].Outbound, and its errors repeat nothing of the
// answer. Configured addresses may be anywhere.
//
// Errors: [agent.CodeInvalid] for an unknown provider, or a profile that lacks what its provider needs; [agent.CodeDenied] for an auth
// that may not be sent to the profile's address, and for an address where no [Settings].Outbound is; the resolver's own for its secret.
func (m *Models) Model(ctx context.Context, pm agent.PlanModel) (agent.Model, error) {
	t, err := m.target(ctx, &pm)
	if err != nil {
		return nil, err
	}
	c, err := m.client(t)
	return c.model, err
}

// Embedder returns the embedder of a plan's profile, whose model is an embedding model. It works like [Models.Model]. A provider without
// embeddings is [agent.CodeInvalid].
func (m *Models) Embedder(ctx context.Context, pm agent.PlanModel) (agent.Embedder, error) {
	t, err := m.target(ctx, &pm)
	if err != nil {
		return nil, err
	}
	if t.provider.Embed == nil {
		return nil, agent.Invalid("provider", "model profile %q: provider %q has no embeddings", t.profile, t.provider.Name)
	}
	if pm.Model == "" {
		return nil, agent.Invalid("model", "model profile %q: is empty", t.profile)
	}
	t.embeds = pm.Model
	c, err := m.client(t)
	return c.embedder, err
}

// Capabilities returns what the model of a plan's profile can do. It needs no connection, key or server address, so that a plan can be checked
// anywhere. A model that is not [agent.Capable] has none. Errors: [agent.CodeInvalid] for an unknown provider or an invalid base URL.
func (m *Models) Capabilities(pm agent.PlanModel) (agent.Capabilities, error) {
	t, err := m.targetWithoutKey(&pm)
	if err != nil {
		return agent.Capabilities{}, err
	}
	cfg := t.provider.Config
	if cfg.APIKey == "" {
		cfg.APIKey = noKey
	}
	if cfg.BaseURL == "" && t.provider.OwnURL == "" {
		cfg.BaseURL = noURL
	}
	model, err := t.provider.Open(cfg)
	if err != nil {
		return agent.Capabilities{}, t.describeError(err)
	}
	if capable, ok := model.(agent.Capable); ok {
		return capable.Capabilities(), nil
	}
	return agent.Capabilities{}, nil
}

// These replace key and address where nothing is sent.
const (
	noKey = "none"
	noURL = "http://nowhere.invalid"
)

// unknownProvider returns the error of a provider that is neither configured nor built in.
func (m *Models) unknownProvider(name string) error {
	return agent.Invalid("provider", "unknown model provider %q: configured are %s; a profile with an address or a key of its own may name %s",
		name, sortedNames(m.providers), sortedNames(m.kinds))
}

func sortedNames(providers map[string]Provider) string {
	names := make([]string, 0, len(providers))
	for name := range providers {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// clientID identifies a client, which is the same for all model names and temperatures. The key is beside the client, so that a new key
// replaces the old one.
type clientID struct {
	provider, baseURL string
	timeout           time.Duration
	secret, header    string // the reference, and the header that carries the key; empty: the provider's own
	byProfile         bool   // address and key are the profile's, not the configured ones
	hidesAnswers      bool   // the address is the profile's: another way out, and other errors
	embeds            string // the embedding model, which its client does know; empty: a client for messages
}

// client is an open client with the key that it sends: a model, or an embedder.
type client struct {
	model    agent.Model
	embedder agent.Embedder
	key      string
}

// client returns the open client of a target, or opens it. Opening connects to nothing.
func (m *Models) client(t *target) (client, error) {
	cfg := t.provider.Config
	if t.timeout > 0 {
		cfg.Timeout = t.timeout
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = wire.DefaultTimeout
	}
	id := clientID{
		provider: t.provider.Name, baseURL: cfg.BaseURL, timeout: cfg.Timeout, secret: t.secret, header: t.header, byProfile: t.byProfile,
		hidesAnswers: cfg.HideAnswers, embeds: t.embeds,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.open.Get(id); ok && known.key == cfg.APIKey {
		return known, nil
	}
	if t.header != "" {
		cfg.HTTPClient = withHeader(cfg.HTTPClient, t.header, cfg.APIKey)
	}
	c := client{key: cfg.APIKey}
	var err error
	if t.embeds != "" {
		c.embedder, err = t.provider.Embed(cfg, t.embeds)
	} else {
		c.model, err = t.provider.Open(cfg)
	}
	if err != nil {
		return client{}, t.describeError(err)
	}
	m.open.Add(id, c)
	return c, nil
}

// describeError adds what a provider or profile lacks to an error.
func (t *target) describeError(err error) error {
	name := t.provider.Name
	if t.profile == "" {
		return agent.Errorf(agent.CodeOf(err), "open model provider", "%q: %w", name, err)
	}
	const lacks = "model profile %q: provider %q has no %s: give the profile %s, or configure llm"
	if e, ok := errors.AsType[*agent.Error](err); ok {
		switch {
		case e.Field == "api_key" && t.provider.Config.APIKey == "":
			return agent.Invalid("auth", lacks, t.profile, name, "key", "an auth")
		case e.Field == "base_url" && t.provider.Config.BaseURL == "":
			return agent.Invalid("base_url", lacks, t.profile, name, "address", "a base_url")
		}
	}
	return fmt.Errorf("model profile %q: provider %q: %w", t.profile, name, err)
}
