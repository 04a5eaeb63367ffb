package tooltest

import (
	"bytes"
	"context"
	"encoding/json"
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

// AddReferences keeps what is new, see [tool.References].
func (m *ReferenceStore) AddReferences(ctx context.Context, tenant string, s agent.SessionID, refs []agent.Reference) ([]agent.Reference, error) {
	if err := agent.Interrupted(ctx, "add references"); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[conversation][]agent.Reference{}
	}
	at := conversation{tenant, s}
	list := slices.Clone(m.kept[at]) // an error half way keeps nothing
	places := make([]int, len(refs))
	for i := range refs {
		place := slices.IndexFunc(list, func(known agent.Reference) bool { return isSameReference(&known, &refs[i]) })
		if place < 0 {
			added := cloneReference(&refs[i])
			added.Number, added.AddedAt = len(list)+1, time.Now().UTC()
			place, list = len(list), append(list, added)
		}
		merged, err := mergeReference(list, place, &refs[i])
		if err != nil {
			return nil, err
		}
		list[place], places[i] = merged, place
	}
	m.kept[at] = list
	answer := make([]agent.Reference, len(refs))
	for i, place := range places {
		answer[i] = cloneReference(&list[place])
	}
	return answer, nil
}

// References lists them by number.
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

// mergeReference adds to a kept source the aliases that no other source has and the members of the item that it lacks.
func mergeReference(list []agent.Reference, place int, with *agent.Reference) (agent.Reference, error) {
	merged := cloneReference(&list[place])
	for _, name := range referenceNames(with) {
		taken := slices.ContainsFunc(list, func(r agent.Reference) bool { return slices.Contains(referenceNames(&r), name) })
		if !taken && !slices.Contains(referenceNames(&merged), name) {
			merged.Aliases = append(merged.Aliases, name)
		}
	}
	var item, more map[string]json.RawMessage
	if err := json.Unmarshal(merged.Item, &item); err != nil {
		return merged, agent.Invalid("item", "want an object: %w", err)
	}
	if err := json.Unmarshal(with.Item, &more); err != nil {
		return merged, agent.Invalid("item", "want an object: %w", err)
	}
	for name, value := range more {
		if _, has := item[name]; !has {
			item[name] = value
		}
	}
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
