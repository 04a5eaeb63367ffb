package library

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
)

// Undo returns the operations that revert the change from before to after in the definition newest. All three are canonical. Nodes and schedules are
// identified by id, edges by their ends; their order does not matter. There are no operations if newest has nothing left of the change.
//
// If an element of the change was changed again since, the error is [agent.CodeConflict] with its path in newest as the Field.
func Undo(before, after, newest json.RawMessage) ([]Operation, error) {
	var was, became, is definitionParts
	for raw, into := range map[*json.RawMessage]*definitionParts{&before: &was, &after: &became, &newest: &is} {
		if err := into.read(*raw); err != nil {
			return nil, err
		}
	}
	u := &undoBuilder{}
	u.undoDescription(was.Description, became.Description, is.Description)
	for i, list := range []string{"edges", "nodes", "schedules"} {
		if err := u.undoList(list, was.lists[i], became.lists[i], is.lists[i]); err != nil {
			return nil, err
		}
	}
	return u.operations, u.err
}

// definitionParts are the description and the elements of a definition.
type definitionParts struct {
	Description string
	lists       [3][]element // edges, nodes, schedules
}

// element is a node, an edge or a schedule.
type element struct {
	key string
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
	p.Description = d.Description
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

// undoBuilder collects the operations of Undo.
type undoBuilder struct {
	operations []Operation
	err        error
}

func (u *undoBuilder) undoDescription(before, after, newest string) {
	switch {
	case before == after || newest == before:
	case newest != after:
		u.err = agent.FieldErrorf(agent.CodeConflict, "description", "was changed since")
	default:
		raw, err := json.Marshal(before)
		if err != nil {
			u.err = agent.Errorf(agent.CodeInternal, "take back patch", "%w", err)
			return
		}
		u.operations = append(u.operations, Operation{Op: "replace", Path: "/description", Value: raw})
	}
}

// undoList adds the operations that revert the change of one list.
func (u *undoBuilder) undoList(name string, before, after, current []element) error {
	current = slices.Clone(current)
	for _, e := range after {
		old, existed := findElement(before, e.key)
		if existed && old.raw == e.raw {
			continue
		}
		at := slices.IndexFunc(current, func(c element) bool { return c.key == e.key })
		path := fmt.Sprintf("/%s/%d", name, at)
		switch {
		case at < 0 && !existed, at >= 0 && existed && current[at].raw == old.raw: // reverted already
		case at < 0:
			return agent.FieldErrorf(agent.CodeConflict, name, "%q was changed by the patch and removed since", e.key)
		case current[at].raw != e.raw:
			return agent.FieldErrorf(agent.CodeConflict, fmt.Sprintf("%s[%d]", name, at), "%q was changed since", e.key)
		case existed:
			u.operations = append(u.operations, Operation{Op: "replace", Path: path, Value: json.RawMessage(old.raw)})
			current[at] = old
		default:
			u.operations = append(u.operations, Operation{Op: "remove", Path: path})
			current = slices.Delete(current, at, at+1)
		}
	}
	for i, e := range before {
		if _, kept := findElement(after, e.key); kept {
			continue
		}
		at := slices.IndexFunc(current, func(c element) bool { return c.key == e.key })
		switch {
		case at < 0:
			at = min(i, len(current))
			u.operations = append(u.operations, Operation{Op: "add", Path: fmt.Sprintf("/%s/%d", name, at), Value: json.RawMessage(e.raw)})
			current = slices.Insert(current, at, e)
		case current[at].raw != e.raw:
			return agent.FieldErrorf(agent.CodeConflict, fmt.Sprintf("%s[%d]", name, at), "%q was removed by the patch and added otherwise since", e.key)
		}
	}
	return nil
}

func findElement(list []element, key string) (element, bool) {
	at := slices.IndexFunc(list, func(e element) bool { return e.key == key })
	if at < 0 {
		return element{}, false
	}
	return list[at], true
}
