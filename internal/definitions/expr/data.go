package expr

import (
	"maps"

	"cel.dev/cel-go/cel"
)

// Data is what an expression looks at. Its values are decoded JSON: nil, bool, float64 or json.Number (or any of Go's numbers), string,
// []any, map[string]any. It is not changed.
type Data struct {
	Input any            // what came into the node
	Steps map[string]any // what the nodes before gave out, by node id
	Run   map[string]any // run_id, workflow_tag, …
}

// rowsMember is the member of an object that holds its rows.
const rowsMember = "rows"

// Rows returns the rows of what came in; ok is false when it has none: then it is one thing.
func (d *Data) Rows() (rows []any, ok bool) {
	switch in := d.Input.(type) {
	case []any:
		return in, true
	case map[string]any:
		rows, ok = in[rowsMember].([]any)
		return rows, ok
	default:
		return nil, false
	}
}

// WithRows returns what came in with other rows: a list becomes the list, an object keeps its other members.
func (d *Data) WithRows(rows []any) any {
	in, ok := d.Input.(map[string]any)
	if !ok {
		return rows
	}
	out := make(map[string]any, len(in))
	maps.Copy(out, in)
	out[rowsMember] = rows
	return out
}

// The names that are always there.
const (
	nameInput = "input"
	nameRow   = "row"
	nameSteps = "steps"
	nameRun   = "run"
)

// scope is the activation of one evaluation: one row, or all that came in.
type scope struct {
	data *Data
	row  any
}

// ResolveName returns a variable, ok false for one that is missing. A map that is nil is empty: a run without steps has none.
func (s *scope) ResolveName(name string) (any, bool) {
	switch name {
	case nameInput:
		return s.data.Input, true
	case nameRow:
		return s.row, true
	case nameSteps:
		return given(s.data.Steps), true
	case nameRun:
		return given(s.data.Run), true
	}
	members, _ := s.row.(map[string]any)
	v, ok := members[name]
	return v, ok
}

// Parent is nil: there are no other variables.
func (s *scope) Parent() cel.Activation { return nil }

func given(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// null reports whether one of the paths, or a part of it, leads to null: what CEL then says of types is about a value that is not there.
func (s *scope) null(paths [][]string) bool {
	for _, path := range paths {
		at, ok := s.ResolveName(path[0])
		for _, name := range path[1:] {
			members, isObject := at.(map[string]any)
			if !ok || !isObject {
				break
			}
			at, ok = members[name]
		}
		if ok && at == nil {
			return true
		}
	}
	return false
}
