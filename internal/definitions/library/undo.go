package library

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// undo returns the operations that revert the change from before to after in the definition newest. All three are canonical. Nodes and schedules are
// identified by ID, edges by their ends; their order does not matter. There are no operations if newest no longer has any part of the change.
//
// Its error is [agent.CodeConflict] if an element of the change was changed again since. Field is the path of the element in newest.
func undo(before, after, newest json.RawMessage) ([]Operation, error) {
	var parts [3]definitionParts
	for i, document := range []json.RawMessage{before, after, newest} {
		if err := parts[i].read(document); err != nil {
			return nil, err
		}
	}
	u := &undoBuilder{}
	if err := u.undoDescription(parts[0].description, parts[1].description, parts[2].description); err != nil {
		return nil, err
	}
	for i, list := range []string{"edges", "nodes", "schedules"} {
		before, after := parts[0].lists[i], parts[1].lists[i]
		current, err := u.undoChanges(list, before, after, parts[2].lists[i])
		if err != nil {
			return nil, err
		}
		if err := u.restoreRemoved(list, before, after, current); err != nil {
			return nil, err
		}
	}
	return u.operations, nil
}

// definitionParts are the description and the elements of a definition.
type definitionParts struct {
	description string
	lists       [3][]element // edges, nodes, schedules
}

// element is a node, an edge or a schedule.
type element struct {
	key string // its ID, or both ends of an edge
	raw string
}

func (p *definitionParts) read(document json.RawMessage) error {
	var d struct {
		Description string            `json:"description"`
		Edges       []json.RawMessage `json:"edges"`
		Nodes       []json.RawMessage `json:"nodes"`
		Schedules   []json.RawMessage `json:"schedules"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return agent.Errorf(agent.CodeInternal, "take back patch", "what is stored is no definition: %w", err)
	}
	p.description = d.Description
	for i, list := range [][]json.RawMessage{d.Edges, d.Nodes, d.Schedules} {
		for _, raw := range list {
			var names struct{ ID, From, To string }
			if err := json.Unmarshal(raw, &names); err != nil {
				return agent.Errorf(agent.CodeInternal, "take back patch", "what is stored is no definition: %w", err)
			}
			key := names.ID
			if key == "" {
				key = names.From + " → " + names.To
			}
			p.lists[i] = append(p.lists[i], element{key: key, raw: string(raw)})
		}
	}
	return nil
}

// undoBuilder collects the operations of undo.
type undoBuilder struct{ operations []Operation }

func (u *undoBuilder) undoDescription(before, after, newest string) error {
	switch {
	case before == after || newest == before:
		return nil
	case newest != after:
		return agent.FieldErrorf(agent.CodeConflict, "description", "was changed since")
	}
	raw, err := json.Marshal(before)
	if err != nil {
		return agent.Errorf(agent.CodeInternal, "take back patch", "%w", err)
	}
	u.operations = append(u.operations, Operation{Op: "replace", Path: "/description", Value: raw})
	return nil
}

// undoChanges adds the operations that revert added and changed elements of one list. It returns the list after the operations.
func (u *undoBuilder) undoChanges(name string, before, after, newest []element) ([]element, error) {
	current := slices.Clone(newest)
	for _, e := range after {
		var old element
		oldIndex := indexOf(before, e.key)
		existed := oldIndex >= 0
		if existed {
			old = before[oldIndex]
		}
		if existed && old.raw == e.raw {
			continue
		}
		index := indexOf(current, e.key)
		path := fmt.Sprintf("/%s/%d", name, index)
		isReverted := (index < 0 && !existed) || (index >= 0 && existed && current[index].raw == old.raw)
		switch {
		case isReverted:
		case index < 0:
			return nil, agent.FieldErrorf(agent.CodeConflict, name, "%q was changed by the patch and removed since", e.key)
		case current[index].raw != e.raw:
			return nil, agent.FieldErrorf(agent.CodeConflict, fmt.Sprintf("%s[%d]", name, index), "%q was changed since", e.key)
		case existed:
			u.operations = append(u.operations, Operation{Op: "replace", Path: path, Value: json.RawMessage(old.raw)})
			current[index] = old
		default:
			u.operations = append(u.operations, Operation{Op: "remove", Path: path})
			current = slices.Delete(current, index, index+1)
		}
	}
	return current, nil
}

// restoreRemoved adds the operations that add the removed elements of one list to current.
func (u *undoBuilder) restoreRemoved(name string, before, after, current []element) error {
	for i, e := range before {
		if indexOf(after, e.key) >= 0 {
			continue
		}
		index := indexOf(current, e.key)
		switch {
		case index < 0:
			index = min(i, len(current))
			u.operations = append(u.operations, Operation{Op: "add", Path: fmt.Sprintf("/%s/%d", name, index), Value: json.RawMessage(e.raw)})
			current = slices.Insert(current, index, e)
		case current[index].raw != e.raw:
			return agent.FieldErrorf(agent.CodeConflict, fmt.Sprintf("%s[%d]", name, index), "%q was removed by the patch and added otherwise since", e.key)
		}
	}
	return nil
}

// indexOf returns the index of the element with a key, -1 if there is none.
func indexOf(list []element, key string) int {
	return slices.IndexFunc(list, func(e element) bool { return e.key == key })
}
