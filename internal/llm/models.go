// Package llm opens the models that plans name. A model profile uses a configured provider, or has an address and a key of its own. The clients
// of the providers are in the packages below. They share package wire and pass the suite of llmtest.
package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
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
	// maxClients bounds the open clients: one for each provider, address, key and timeout in use.
	maxClients = 256
	// idlePerHost is enough connections for one busy worker; net/http keeps two.
	idlePerHost = 64
)

// Secrets returns the secret of a reference in a tenant's document, such as env:NAME or file:/path. Its errors are [agent.Error] values that
// name the reference and never the secret.
type Secrets interface {
	Reveal(ctx context.Context, tenant, ref string) (string, error)
}

// Settings configures [Open].
type Settings struct {
	Providers []Provider // configured, with their keys
	Kinds     []Provider // that profiles may name although they are not configured; nil: [Builtin]
	Secrets   Secrets    // nil: a profile with an auth is refused
	// Outbound sends the requests to addresses from documents, and to providers that are not configured. It must obey the egress rules. If it
	// is nil, such profiles are refused.
	Outbound *http.Client
}

// Models opens models by provider. It satisfies turns.Models. It is safe for concurrent use.
type Models struct {
	providers map[string]Provider // configured
	kinds     map[string]Provider // that profiles may name although they are not configured
	secrets   Secrets
	shared    *http.Client // for configured addresses
	outbound  *http.Client // for all other addresses; nil: they are refused

	mu      sync.Mutex
	clients *simplelru.LRU[clientID, client]
}

// New returns [Open] with these providers and no other settings.
func New(providers ...Provider) (*Models, error) { return Open(Settings{Providers: providers}) }

// Open returns the models of the configured providers. It opens each provider once to check it. Providers without an HTTP client share one. An
// error is [agent.CodeInvalid] and names the provider.
func Open(s Settings) (*Models, error) {
	m := &Models{
		providers: make(map[string]Provider, len(s.Providers)), kinds: map[string]Provider{}, secrets: s.Secrets, shared: &http.Client{}, outbound: s.Outbound,
	}
	var err error
	if m.clients, err = simplelru.NewLRU[clientID, client](maxClients, nil); err != nil {
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
		if err := addProvider(m.kinds, kind); err != nil {
			return nil, err
		}
	}
	for _, p := range s.Providers {
		p.Config.HTTPClient = cmp.Or(p.Config.HTTPClient, m.shared)
		if err := addProvider(m.providers, p); err != nil {
			return nil, err
		}
		if _, err := m.openClient(&target{provider: p}); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func addProvider(to map[string]Provider, p Provider) error {
	if _, ok := to[p.Name]; ok || p.Name == "" || p.Open == nil {
		return agent.Invalid("provider", "%q is given twice, or without a name or constructor", p.Name)
	}
	to[p.Name] = p
	return nil
}

// Model returns the model of a plan's profile.
//
// A profile without a base URL and an auth uses the configured provider with the configured address and key. Any other profile gets a separate
// client. Its key is the secret of the auth, which is read for every call, so a replaced secret takes effect at once. The configured key is sent
// to the configured address only. Authors of documents choose the base URL of a profile. Requests to it go through [Settings].Outbound, and
// errors do not quote its answers. A configured address may be any address.
//
// Errors: [agent.CodeInvalid] for an unknown provider, or if the profile lacks what its provider needs; [agent.CodeDenied] if the auth may not be
// sent to the profile's address, or if the address needs [Settings].Outbound and that is nil; the error of [Settings].Secrets.
func (m *Models) Model(ctx context.Context, pm agent.PlanModel) (agent.Model, error) {
	t, err := m.target(ctx, &pm)
	if err != nil {
		return nil, err
	}
	c, err := m.openClient(t)
	return c.model, err
}

// Embedder returns the embedder of a plan's profile that names an embedding model. It works like [Models.Model]. The error is
// [agent.CodeInvalid] if the provider has no embeddings.
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
	t.embeddingModel = pm.Model
	c, err := m.openClient(t)
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
	cfg.APIKey = cmp.Or(cfg.APIKey, "none")
	if cfg.BaseURL == "" && t.provider.OwnURL == "" {
		cfg.BaseURL = "http://nowhere.invalid" // to which nothing is sent
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

// unknownProvider returns the error of a provider that is neither configured nor built in.
func (m *Models) unknownProvider(name string) error {
	return agent.Invalid("provider", "unknown model provider %q: configured are %s; a profile with an address or a key of its own may name %s",
		name, sortedNames(m.providers), sortedNames(m.kinds))
}

func sortedNames(providers map[string]Provider) string {
	return strings.Join(slices.Sorted(maps.Keys(providers)), ", ")
}

// clientID identifies an open client. It does not contain the key: a client with a new key replaces the one with the old key.
type clientID struct {
	provider, baseURL string
	timeout           time.Duration
	secret            string // reference of the key; empty: the configured key, or none
	header            string // for the key; empty: the provider's usual header
	isCustom          bool   // address or key come from the profile
	hidesAnswers      bool   // the address comes from the profile, so that errors quote no answers
	embeddingModel    string // empty: the client is for messages, and for all models
}

// client is an open client: a model or an embedder, and the key that it sends.
type client struct {
	model    agent.Model
	embedder agent.Embedder
	key      string
}

// openClient returns the client of a target. It opens one if there is none, or if the key has changed.
func (m *Models) openClient(t *target) (client, error) {
	cfg := t.provider.Config
	cfg.Timeout = cmp.Or(max(t.timeout, 0), cfg.Timeout, wire.DefaultTimeout)
	id := clientID{
		provider: t.provider.Name, baseURL: cfg.BaseURL, timeout: cfg.Timeout, secret: t.secret, header: t.header, isCustom: t.isCustom,
		hidesAnswers: cfg.HideAnswers, embeddingModel: t.embeddingModel,
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.clients.Get(id); ok && c.key == cfg.APIKey {
		return c, nil
	}
	if t.header != "" {
		cfg.HTTPClient = withHeader(cfg.HTTPClient, t.header, cfg.APIKey)
	}
	c := client{key: cfg.APIKey}
	var err error
	if t.embeddingModel != "" {
		c.embedder, err = t.provider.Embed(cfg, t.embeddingModel)
	} else {
		c.model, err = t.provider.Open(cfg)
	}
	if err != nil {
		return client{}, t.describeError(err)
	}
	m.clients.Add(id, c)
	return c, nil
}

// describeError returns an error of opening a client with the names of provider and profile, and with advice if a key or an address is missing.
func (t *target) describeError(err error) error {
	name := t.provider.Name
	if t.profile == "" {
		return agent.Errorf(agent.CodeOf(err), "open model provider", "%q: %w", name, err)
	}
	const missing = "model profile %q: provider %q has no %s: give the profile %s, or configure llm"
	if e, ok := errors.AsType[*agent.Error](err); ok {
		switch {
		case e.Field == "api_key" && t.provider.Config.APIKey == "":
			return agent.Invalid("auth", missing, t.profile, name, "key", "an auth")
		case e.Field == "base_url" && t.provider.Config.BaseURL == "":
			return agent.Invalid("base_url", missing, t.profile, name, "address", "a base_url")
		}
	}
	return fmt.Errorf("model profile %q: provider %q: %w", t.profile, name, err)
}
