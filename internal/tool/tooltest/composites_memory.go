package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxSamples = 16
	maxName    = 64
)

// CompositeStore is a store of composite tools in memory. The zero value is empty and ready.
type CompositeStore struct {
	mu         sync.Mutex
	counted    map[string]bool // tenant and key
	shapes     map[string]*countedShape
	composites []*keptComposite
}

type countedShape struct {
	count   int64
	samples []json.RawMessage
}

// keptComposite is a composite with all of its versions, the newest last.
type keptComposite struct {
	versions  []agent.Composite
	described bool // by a person
}

var _ tool.Composites = (*CompositeStore)(nil)

// UsePipeline is that of [tool.Composites].
func (m *CompositeStore) UsePipeline(ctx context.Context, use agent.PipelineUse) (agent.PipelineUses, error) {
	if err := ctx.Err(); err != nil {
		return agent.PipelineUses{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shapes == nil {
		m.shapes, m.counted = map[string]*countedShape{}, map[string]bool{}
	}
	id := use.Tenant + "/" + use.Shape
	s := m.shapes[id]
	if s == nil {
		s = &countedShape{}
		m.shapes[id] = s
	}
	if key := use.Tenant + "/" + use.Key; !m.counted[key] {
		m.counted[key] = true
		s.count++
		s.samples = slices.DeleteFunc(s.samples, func(old json.RawMessage) bool { return bytes.Equal(old, use.Steps) })
		s.samples = slices.Insert(s.samples, 0, slices.Clone(use.Steps))
		s.samples = s.samples[:min(len(s.samples), maxSamples)]
	}
	out := agent.PipelineUses{Count: s.count, Samples: slices.Clone(s.samples)}
	if k := m.find(func(c *agent.Composite) bool { return c.Tenant == use.Tenant && c.Shape == use.Shape }); k != nil {
		c := m.present(k)
		out.Composite = &c
	}
	return out, nil
}

// SaveComposite is that of [tool.Composites].
func (m *CompositeStore) SaveComposite(ctx context.Context, c agent.Composite) (agent.Composite, error) {
	if err := ctx.Err(); err != nil {
		return agent.Composite{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now().UTC()
	k := m.find(func(o *agent.Composite) bool { return o.Tenant == c.Tenant && o.Shape == c.Shape })
	switch {
	case k == nil:
		c.ID, c.Name, c.Version, c.CreatedAt, c.UpdatedAt = fmt.Sprintf("cmp_%d", len(m.composites)+1), m.free(c.Tenant, c.Name), 1, now, now
		k = &keptComposite{versions: []agent.Composite{c}}
		m.composites = append(m.composites, k)
	case c.Version == k.newest().Version+1:
		next := *k.newest()
		next.Parameters, next.Pipeline, next.EffectFree, next.Version, next.UpdatedAt = c.Parameters, c.Pipeline, c.EffectFree, c.Version, now
		if !k.described {
			next.Description = c.Description
		}
		k.versions = append(k.versions, next)
	}
	return m.present(k), nil
}

// Composites is that of [tool.Composites].
func (m *CompositeStore) Composites(ctx context.Context, tenant string) ([]agent.Composite, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []agent.Composite
	for _, k := range m.composites {
		if k.newest().Tenant == tenant {
			out = append(out, m.present(k))
		}
	}
	slices.SortFunc(out, func(a, b agent.Composite) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Composite is that of [tool.Composites].
func (m *CompositeStore) Composite(ctx context.Context, tenant, id string, version int64) (agent.Composite, error) {
	if err := ctx.Err(); err != nil {
		return agent.Composite{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(func(o *agent.Composite) bool { return o.Tenant == tenant && o.ID == id })
	if k == nil || version < 1 || version > int64(len(k.versions)) {
		return agent.Composite{}, agent.Errorf(agent.CodeNotFound, "load composite", "there is no version %d of %q", version, id)
	}
	c, now := k.versions[version-1], m.present(k)
	c.Name, c.Description, c.Enabled, c.Uses = now.Name, now.Description, now.Enabled, now.Uses
	return c, nil
}

// ChangeComposite is what a person does to the composite of a name or id.
func (m *CompositeStore) ChangeComposite(_ context.Context, tenant, which string, change agent.CompositeChange) (agent.Composite, error) {
	const op = "change composite"
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(func(o *agent.Composite) bool { return o.Tenant == tenant && (o.ID == which || o.Name == which) })
	if k == nil {
		return agent.Composite{}, agent.Errorf(agent.CodeNotFound, op, "there is no composite %q", which)
	}
	c := k.newest()
	if change.Name != nil && *change.Name != c.Name {
		if m.find(func(o *agent.Composite) bool { return o.Tenant == tenant && o.Name == *change.Name }) != nil {
			return agent.Composite{}, agent.FieldErrorf(agent.CodeConflict, "name", "%q is taken", *change.Name)
		}
		c.Name = *change.Name
	}
	if change.Description != nil {
		c.Description, k.described = *change.Description, true
	}
	if change.Enabled != nil {
		c.Enabled = *change.Enabled
	}
	c.UpdatedAt = time.Now().UTC()
	return m.present(k), nil
}

func (m *CompositeStore) find(is func(c *agent.Composite) bool) *keptComposite {
	for _, k := range m.composites {
		if is(k.newest()) {
			return k
		}
	}
	return nil
}

func (k *keptComposite) newest() *agent.Composite { return &k.versions[len(k.versions)-1] }

// present returns the newest version with the uses of its shape.
func (m *CompositeStore) present(k *keptComposite) agent.Composite {
	c := *k.newest()
	c.Uses = 0
	if s := m.shapes[c.Tenant+"/"+c.Shape]; s != nil {
		c.Uses = s.count
	}
	return c
}

// free returns the name, with a number behind it if it is taken.
func (m *CompositeStore) free(tenant, name string) string {
	try := name
	for n := 2; m.find(func(o *agent.Composite) bool { return o.Tenant == tenant && o.Name == try }) != nil; n++ {
		suffix := fmt.Sprintf("_%d", n)
		try = name[:min(len(name), maxName-len(suffix))] + suffix
	}
	return try
}
