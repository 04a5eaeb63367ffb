package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/catalog/manifest"
)

// Tools describes the toolkits of this process.
type Tools interface {
	// Kits returns the names of the toolkits in the order of their registration.
	Kits() []string
	// Specs returns the tools of a toolkit. Its error is [agent.CodeNotFound] if this process does not have the toolkit.
	Specs(toolkit string) ([]agent.ToolSpec, error)
	// Single reports whether a toolkit is a single tool of its own name.
	Single(toolkit string) bool
	// Properties returns the JSON Schema of a toolkit's parameters, nil if it takes none.
	Properties(toolkit string) json.RawMessage
	// Dynamic reports whether a toolkit has tools that are known only when a turn begins ([agent.DynamicToolkit]).
	Dynamic(toolkit string) bool
	// OnRequest reports whether a toolkit is granted only to agents that name or need it: * does not include it.
	OnRequest(toolkit string) bool
}

// Middleware describes the middleware of this process.
type Middleware interface {
	// Added returns the names of the middleware that was added in Go, in order.
	Added() []string
	// Check returns why middleware cannot work in a plan, which already has its models and tools. A nil plan means any plan. The Field of
	// the error is name or a path that begins with options.
	Check(m agent.PlanMiddleware, p *agent.Plan) error
	// Grants returns the tools that middleware needs ([agent.Granter]), nil if it does not pass Check. Toolkit is the ID of a node, with its
	// version ("todo@2") unless that is 1.
	Grants(m agent.PlanMiddleware) []agent.ToolGrant
}

// Models describes the capabilities of models.
type Models interface {
	// Capabilities returns the capabilities of a model at its provider; m has no Auth. It fails if this process cannot tell.
	Capabilities(m agent.PlanModel) (agent.Capabilities, error)
}

// ConfiguredModel is a model profile that the configuration defines.
type ConfiguredModel struct {
	Profile agent.ModelProfile
	Entry   string // the name of its provider entry, which has the address and the key
}

// Secrets checks references to secrets.
type Secrets interface {
	// Allowed returns why a document of tenant may not use a reference, nil if it may. It does not check that the secret exists.
	Allowed(tenant, ref string) error
}

// Addresses checks URLs against the rules of egress.
type Addresses interface {
	// Check returns why a URL is refused regardless of DNS, nil if it may be allowed.
	Check(url string) error
}

// Parts are the capabilities of a process that plans are compiled against: tools, middleware, models, limits.
type Parts struct {
	Tools      Tools
	Middleware Middleware
	Secrets    Secrets
	Addresses  Addresses    // nil: URLs are checked only when they are used
	Claims     Models       // nil: no model claims a capability
	Limits     agent.Limits // upper bounds
	Models     []ConfiguredModel
	Providers  []string // the model providers that documents may name; nil: any

	kits      []string
	profiles  []string                    // the names of Models
	providers map[string]string           // the Entry of each profile
	prices    map[string]agent.ModelPrice // of shipped profiles, by [priceKey]
	hashOnce  sync.Once
	hash      string
}

func (p *Parts) prepare() {
	p.kits = p.Tools.Kits()
	p.providers = make(map[string]string, len(p.Models))
	for i := range p.Models {
		p.profiles = append(p.profiles, p.Models[i].Profile.Name)
		p.providers[p.Models[i].Profile.Name] = p.Models[i].Entry
	}
}

// digest returns a hash that differs if the same documents may compile to another plan in another build or configuration.
func (p *Parts) digest() string {
	p.hashOnce.Do(func() {
		kits := map[string][]agent.ToolSpec{}
		for _, k := range p.kits {
			kits[k], _ = p.Tools.Specs(k) // a listed toolkit has specs
		}
		raw, _ := json.Marshal([]any{p.Limits, p.Models, p.kits, kits, p.Middleware.Added(), p.prices}) // plain values
		sum := sha256.Sum256(raw)
		p.hash = hex.EncodeToString(sum[:])
	})
	return p.hash
}

// baseLayer returns the base layer: shipped documents, a node for each toolkit that no shipped document describes, and a profile for each
// configured model.
func (p *Parts) baseLayer(shipped []agent.ManifestFile) (map[agent.DocumentKey]*entry, error) {
	documents, faults := manifest.Parse(shipped)
	if err := faults.Err(); err != nil {
		return nil, fmt.Errorf("shipped catalog: %w", err)
	}
	out := make(map[agent.DocumentKey]*entry, len(documents))
	p.prices = map[string]agent.ModelPrice{}
	for _, d := range documents {
		if _, isDuplicate := out[d.Key]; isDuplicate {
			return nil, fmt.Errorf("shipped catalog: %s is there twice", d.Key)
		}
		out[d.Key] = newEntry(d, agent.SourceBuiltin)
		if m, ok := d.Value.(*agent.ModelProfile); ok {
			p.prices[priceKey(m.Provider, m.Name)] = m.Price
		}
	}
	for i := range p.Models {
		profile := p.Models[i].Profile
		profile.Kind, profile.Tenant = agent.KindModel, agent.SharedTenant
		delete(out, agent.DocumentKey{Kind: agent.KindModel, Tenant: agent.SharedTenant, Name: profile.Name}) // hides a shipped profile
		if err := addDerived(out, &profile, agent.SourceConfig); err != nil {
			return nil, fmt.Errorf("model profile %q of the configuration: %w", profile.Name, err)
		}
	}
	for _, kit := range p.kits {
		node := agent.NodeDefinition{
			Kind: agent.KindNode, NodeID: kit, Version: derivedVersion, Type: agent.NodeToolkit, Properties: p.Tools.Properties(kit),
		}
		if p.Tools.Single(kit) {
			node.Type = agent.NodeTool
		}
		if err := addDerived(out, &node, agent.SourceBuiltin); err != nil {
			return nil, fmt.Errorf("toolkit %q: %w", kit, err)
		}
	}
	return out, nil
}

// derivedVersion is the version of the nodes that are made for toolkits.
const derivedVersion = "1"

// addDerived adds a document that this process made, unless a shipped document has the same key.
func addDerived(entries map[agent.DocumentKey]*entry, value any, source string) error {
	d, faults := manifest.New(value)
	if err := faults.Err(); err != nil {
		return err
	}
	if _, isShipped := entries[d.Key]; !isShipped {
		entries[d.Key] = newEntry(d, source)
	}
	return nil
}

func newEntry(d *manifest.Document, source string) *entry {
	return &entry{parsed: d, doc: agent.Document{DocumentKey: d.Key, Body: d.Body, Source: source}}
}
