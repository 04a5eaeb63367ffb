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

// Tools has the toolkits of this process.
type Tools interface {
	// Kits lists their names in the order in which they were given.
	Kits() []string
	// Specs describes the tools of one; [agent.CodeNotFound] when this process does not have it.
	Specs(toolkit string) ([]agent.ToolSpec, error)
	// Single reports whether a toolkit is a single tool of its own name.
	Single(toolkit string) bool
	// Properties is the JSON Schema of a toolkit's parameters, nil when it takes none.
	Properties(toolkit string) json.RawMessage
	// Dynamic reports whether a toolkit has tools that are known only when a turn begins ([agent.DynamicToolkit]).
	Dynamic(toolkit string) bool
	// OnRequest reports whether a toolkit is granted to agents that name it, or that need it, alone: * does not mean it.
	OnRequest(toolkit string) bool
}

// Middleware has the middleware of this process.
type Middleware interface {
	// Added lists what the user added in Go, in order.
	Added() []string
	// Check makes one and says what keeps it from working in a plan, whose models and tools are there already; nil: in any. The error's
	// Field is name, or options and what is within.
	Check(m agent.PlanMiddleware, p *agent.Plan) error
	// Grants lists the tools that one brings along ([agent.Granter]); nil for one that does not pass Check. Their toolkits are nodes, of
	// version 1 unless they say another ("todo@2"): what a tenant calls its bindings makes no difference.
	Grants(m agent.PlanMiddleware) []agent.ToolGrant
}

// Models has the capabilities of models.
type Models interface {
	// Capabilities of a model as its provider serves it; m has no Auth. An error means that it cannot be said here: nothing is claimed then.
	Capabilities(m agent.PlanModel) (agent.Capabilities, error)
}

// ConfiguredModel is a model profile of the configuration.
type ConfiguredModel struct {
	Profile agent.ModelProfile
	Entry   string // the name of its provider entry: address and key stay in the configuration
}

// Secrets has the rules about references to secrets.
type Secrets interface {
	// Allowed returns why a document of tenant may not use a reference, nil if it may. Whether the secret exists is not asked.
	Allowed(tenant, ref string) error
}

// Addresses has the rules of egress.
type Addresses interface {
	// Check returns why a URL would be refused whatever its host resolves to, nil if it may be tried.
	Check(url string) error
}

// Parts is what a process has for all agents. It is no data of the catalog, but plans are compiled against it.
type Parts struct {
	Tools      Tools
	Middleware Middleware
	Secrets    Secrets
	Addresses  Addresses    // nil: the URLs of documents are judged when they are used
	Claims     Models       // nil: no model claims anything
	Limits     agent.Limits // ceilings
	Models     []ConfiguredModel
	Providers  []string // of models, that documents may name; nil: any

	kits      []string
	profiles  []string
	providers map[string]string           // profile → entry
	prices    map[string]agent.ModelPrice // of shipped profiles, by [priceKey]
	once      sync.Once
	sum       string
}

func (p *Parts) prepare() {
	p.kits = p.Tools.Kits()
	p.providers = make(map[string]string, len(p.Models))
	for i := range p.Models {
		p.profiles = append(p.profiles, p.Models[i].Profile.Name)
		p.providers[p.Models[i].Profile.Name] = p.Models[i].Entry
	}
}

// digest returns a digest that changes if the same documents compile to another plan in this build and configuration.
func (p *Parts) digest() string {
	p.once.Do(func() {
		kits := map[string][]agent.ToolSpec{}
		for _, k := range p.kits {
			kits[k], _ = p.Tools.Specs(k) // a kit that is listed has tools
		}
		raw, _ := json.Marshal([]any{p.Limits, p.Models, p.kits, kits, p.Middleware.Added(), p.prices}) // plain values
		sum := sha256.Sum256(raw)
		p.sum = hex.EncodeToString(sum[:])
	})
	return p.sum
}

// baseLayer returns the lower layer: shipped documents, a node for each toolkit that no shipped document describes, and a profile for each
// configured model.
func (p *Parts) baseLayer(shipped []agent.ManifestFile) (map[agent.DocumentKey]*entry, error) {
	documents, faults := manifest.Parse(shipped)
	if err := faults.Err(); err != nil {
		return nil, fmt.Errorf("shipped catalog: %w", err)
	}
	out := make(map[agent.DocumentKey]*entry, len(documents))
	p.prices = map[string]agent.ModelPrice{}
	for _, d := range documents {
		if _, twice := out[d.Key]; twice {
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
		delete(out, agent.DocumentKey{Kind: agent.KindModel, Tenant: agent.SharedTenant, Name: profile.Name}) // the configuration's hides a shipped one
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

// derivedVersion is the version of the nodes of toolkits.
const derivedVersion = "1"

// addDerived adds a document that this process made, unless there is a shipped one of the same key.
func addDerived(to map[agent.DocumentKey]*entry, value any, source string) error {
	d, faults := manifest.New(value)
	if err := faults.Err(); err != nil {
		return err
	}
	if _, shipped := to[d.Key]; !shipped {
		to[d.Key] = newEntry(d, source)
	}
	return nil
}

func newEntry(d *manifest.Document, source string) *entry {
	return &entry{parsed: d, doc: agent.Document{DocumentKey: d.Key, Body: d.Body, Source: source}}
}
