package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// ReferenceStore is a [tool.References] in memory. It is safe for concurrent use.
type ReferenceStore struct {
	mu   sync.Mutex
	kept map[conversation][]agent.Reference
}

type conversation struct {
	tenant  string
	session agent.SessionID
}

// AddReferences implements [tool.References].
func (m *ReferenceStore) AddReferences(ctx context.Context, tenant string, s agent.SessionID, refs []agent.Reference) ([]agent.Reference, error) {
	if err := agent.Interrupted(ctx, "add references"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[conversation][]agent.Reference{}
	}
	key := conversation{tenant, s}
	list := slices.Clone(m.kept[key]) // so that an error stores nothing
	indexes := make([]int, len(refs))
	for i := range refs {
		index := slices.IndexFunc(list, func(stored agent.Reference) bool { return isSameReference(&stored, &refs[i]) })
		if index < 0 {
			added := cloneReference(&refs[i])
			added.Number, added.AddedAt = len(list)+1, time.Now().UTC()
			index, list = len(list), append(list, added)
		}
		merged, err := mergeReference(list, index, &refs[i])
		if err != nil {
			return nil, err
		}
		list[index], indexes[i] = merged, index
	}
	m.kept[key] = list
	out := make([]agent.Reference, len(refs))
	for i, index := range indexes {
		out[i] = cloneReference(&list[index])
	}
	return out, nil
}

// References implements [tool.References].
func (m *ReferenceStore) References(ctx context.Context, tenant string, s agent.SessionID) ([]agent.Reference, error) {
	if err := agent.Interrupted(ctx, "list references"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.kept[conversation{tenant, s}]
	out := make([]agent.Reference, len(list))
	for i := range list {
		out[i] = cloneReference(&list[i])
	}
	return out, nil
}

func referenceNames(r *agent.Reference) []string { return append([]string{r.Key}, r.Aliases...) }

func isSameReference(a, b *agent.Reference) bool {
	return slices.ContainsFunc(referenceNames(a), func(name string) bool { return slices.Contains(referenceNames(b), name) })
}

// mergeReference returns a stored reference with the aliases of another that no stored reference has, and the members of its item that the
// stored item lacks.
func mergeReference(list []agent.Reference, index int, other *agent.Reference) (agent.Reference, error) {
	merged := cloneReference(&list[index])
	for _, name := range referenceNames(other) {
		taken := slices.ContainsFunc(list, func(r agent.Reference) bool { return slices.Contains(referenceNames(&r), name) })
		if !taken && !slices.Contains(merged.Aliases, name) {
			merged.Aliases = append(merged.Aliases, name)
		}
	}
	var stored, item map[string]json.RawMessage
	if err := json.Unmarshal(merged.Item, &stored); err != nil {
		return merged, agent.Invalid("item", "want an object: %w", err)
	}
	if err := json.Unmarshal(other.Item, &item); err != nil {
		return merged, agent.Invalid("item", "want an object: %w", err)
	}
	maps.Copy(item, stored)
	raw, err := json.Marshal(item)
	if err != nil {
		return merged, agent.Errorf(agent.CodeInternal, "add references", "encode item: %w", err)
	}
	merged.Item = raw
	return merged, nil
}

func cloneReference(r *agent.Reference) agent.Reference {
	out := *r
	out.Aliases, out.Item = slices.Clone(r.Aliases), bytes.Clone(r.Item)
	return out
}
