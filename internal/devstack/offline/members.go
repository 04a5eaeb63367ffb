package offline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

const (
	optionalDepth = 2     // how deep properties are given that nobody requires
	maxMembers    = 1_000 // of one object or list
)

// object gives the required properties, and of the others those that something is known of, or all where nothing is required.
func (m *maker) object(p *place, at spot) (json.RawMessage, error) {
	least, most := p.count("minProperties", 0), p.count("maxProperties", maxSchema)
	names := slices.Clone(p.required)
	switch {
	case len(names) > most:
		return nil, errNever
	case max(len(names), least) > maxMembers:
		return nil, errBudget
	}
	for _, want := range []func(string) bool{m.known.has, func(string) bool { return len(p.required) == 0 }, func(string) bool { return len(names) < least }} {
		for _, n := range p.names {
			if len(names) < most && !slices.Contains(names, n) && (at.depth < optionalDepth || len(names) < least) && want(n) {
				names = append(names, n)
			}
		}
	}
	for i := 1; len(names) < least; i++ {
		if n := fmt.Sprintf("key%d", i); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return p.position(a) - p.position(b) })
	var out bytes.Buffer
	out.WriteByte('{')
	for _, n := range names {
		v, err := m.make(p.property(n), at.below(n))
		if err != nil {
			if !slices.Contains(p.required, n) && len(names) > least {
				continue
			}
			return nil, fmt.Errorf("%s: %w", clipRunes(n, 100), err)
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(encoded(n, nil))
		out.WriteByte(':')
		out.Write(v)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// position is where a property stands in the schema; those that it does not declare come last.
func (p *place) position(name string) int {
	if i := slices.Index(p.names, name); i >= 0 {
		return i
	}
	return len(p.names)
}

// property is the schema of a property.
func (p *place) property(name string) json.RawMessage {
	if s, ok := p.properties[name]; ok {
		return s
	}
	if s, ok := p.keywords["additionalProperties"]; ok {
		return s
	}
	return json.RawMessage("true")
}

// array gives as many items as must be, or as are known; else one, near the top, so that a reader sees what there could be.
func (m *maker) array(p *place, at spot) (json.RawMessage, error) {
	const shownDepth = 4
	least, most := p.count("minItems", 0), p.count("maxItems", maxSchema)
	var first, heads []json.RawMessage
	if c, ok := p.keywords["contains"]; ok {
		for range min(p.count("minContains", 1), maxMembers+1) {
			first = append(first, c)
		}
	}
	if raw, ok := p.keywords["prefixItems"]; ok {
		var err error
		if heads, err = list("prefixItems", raw); err != nil {
			return nil, err
		}
	}
	known := m.known.items(at.name)
	want := max(least, len(first), min(max(len(known), 1), most))
	if at.depth > shownDepth {
		want = max(least, len(first))
	}
	switch {
	case want > most || least > most:
		return nil, errNever
	case want > maxMembers:
		return nil, errBudget
	}
	unique := string(p.keywords["uniqueItems"]) == "true"
	var items []json.RawMessage
	for i := range want {
		schema := p.keywords["items"]
		if i < len(heads) {
			schema = heads[i]
		}
		if schema == nil {
			schema = json.RawMessage("true")
		}
		if i < len(first) {
			schema = both(schema, first[i])
		}
		v, err := m.item(schema, known, i, at)
		for try := 0; unique && err == nil && holds(items, v) && try < 2+len(items); try++ {
			next := spot{name: at.name, depth: at.depth + 1, nth: i + try}
			v, err = m.make(schema, next)
		}
		if err == nil && unique && holds(items, v) {
			err = errNever
		}
		if err != nil {
			if i >= max(least, len(first)) {
				break
			}
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		items = append(items, v)
	}
	return slices.Concat([]byte{'['}, bytes.Join(asBytes(items), []byte{','}), []byte{']'}), nil
}

// item makes one of a list, out of what is known of it.
func (m *maker) item(schema json.RawMessage, known []json.RawMessage, i int, at spot) (json.RawMessage, error) {
	next := spot{name: at.name, depth: at.depth + 1, nth: at.nth}
	if i >= len(known) {
		return m.make(schema, next)
	}
	outer := m.known
	inner := outer.of(known[i])
	m.known = inner
	defer func() { m.known = outer }()
	return m.make(schema, next)
}

func asBytes(list []json.RawMessage) [][]byte {
	out := make([][]byte, len(list))
	for i := range list {
		out[i] = list[i]
	}
	return out
}
