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

// CompositeStore is a [tool.Composites] in memory. The zero value is empty and ready to use.
type CompositeStore struct {
	mu         sync.Mutex
	counted    map[string]bool // by tenant and key
	shapes     map[string]*shapeUses
	composites []*storedComposite
}

type shapeUses struct {
	count   int64
	samples []json.RawMessage
}

// storedComposite is a composite with all its versions, the newest last.
type storedComposite struct {
	versions          []agent.Composite
	describedByPerson bool
}

var _ tool.Composites = (*CompositeStore)(nil)

// UsePipeline implements [tool.Composites].
func (m *CompositeStore) UsePipeline(ctx context.Context, use agent.PipelineUse) (agent.PipelineUses, error) {
	if err := ctx.Err(); err != nil {
		return agent.PipelineUses{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.shapes == nil {
		m.shapes, m.counted = map[string]*shapeUses{}, map[string]bool{}
	}
	id := use.Tenant + "/" + use.Shape
	s := m.shapes[id]
	if s == nil {
		s = &shapeUses{}
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
		c := m.current(k)
		out.Composite = &c
	}
	return out, nil
}

// SaveComposite implements [tool.Composites].
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
		c.ID, c.Name, c.Version, c.CreatedAt, c.UpdatedAt = fmt.Sprintf("cmp_%d", len(m.composites)+1), m.freeName(c.Tenant, c.Name), 1, now, now
		k = &storedComposite{versions: []agent.Composite{c}}
		m.composites = append(m.composites, k)
	case c.Version == k.newest().Version+1:
		next := *k.newest()
		next.Parameters, next.Pipeline, next.EffectFree, next.Version, next.UpdatedAt = c.Parameters, c.Pipeline, c.EffectFree, c.Version, now
		if !k.describedByPerson {
			next.Description = c.Description
		}
		k.versions = append(k.versions, next)
	}
	return m.current(k), nil
}

// Composites implements [tool.Composites].
func (m *CompositeStore) Composites(ctx context.Context, tenant string) ([]agent.Composite, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []agent.Composite
	for _, k := range m.composites {
		if k.newest().Tenant == tenant {
			out = append(out, m.current(k))
		}
	}
	slices.SortFunc(out, func(a, b agent.Composite) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Composite implements [tool.Composites].
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
	c, current := k.versions[version-1], m.current(k)
	c.Name, c.Description, c.Enabled, c.Uses = current.Name, current.Description, current.Enabled, current.Uses
	return c, nil
}

// ChangeComposite changes a composite as a person does.
func (m *CompositeStore) ChangeComposite(_ context.Context, tenant, nameOrID string, change agent.CompositeChange) (agent.Composite, error) {
	const op = "change composite"
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.find(func(o *agent.Composite) bool { return o.Tenant == tenant && (o.ID == nameOrID || o.Name == nameOrID) })
	if k == nil {
		return agent.Composite{}, agent.Errorf(agent.CodeNotFound, op, "there is no composite %q", nameOrID)
	}
	c := k.newest()
	if change.Name != nil && *change.Name != c.Name {
		if m.find(func(o *agent.Composite) bool { return o.Tenant == tenant && o.Name == *change.Name }) != nil {
			return agent.Composite{}, agent.FieldErrorf(agent.CodeConflict, "name", "%q is taken", *change.Name)
		}
		c.Name = *change.Name
	}
	if change.Description != nil {
		c.Description, k.describedByPerson = *change.Description, true
	}
	if change.Enabled != nil {
		c.Enabled = *change.Enabled
	}
	c.UpdatedAt = time.Now().UTC()
	return m.current(k), nil
}

func (m *CompositeStore) find(matches func(c *agent.Composite) bool) *storedComposite {
	for _, k := range m.composites {
		if matches(k.newest()) {
			return k
		}
	}
	return nil
}

func (k *storedComposite) newest() *agent.Composite { return &k.versions[len(k.versions)-1] }

// current returns the newest version with the uses of its shape.
func (m *CompositeStore) current(k *storedComposite) agent.Composite {
	c := *k.newest()
	c.Uses = 0
	if s := m.shapes[c.Tenant+"/"+c.Shape]; s != nil {
		c.Uses = s.count
	}
	return c
}

// freeName returns the name, with a number appended if it is taken.
func (m *CompositeStore) freeName(tenant, name string) string {
	free := name
	for n := 2; m.find(func(o *agent.Composite) bool { return o.Tenant == tenant && o.Name == free }) != nil; n++ {
		suffix := fmt.Sprintf("_%d", n)
		free = name[:min(len(name), maxName-len(suffix))] + suffix
	}
	return free
}
