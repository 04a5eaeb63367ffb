package expr

import (
	"maps"

	"cel.dev/cel-go/cel"
)

// Data has the variables of an expression. Its values are decoded JSON: nil, bool, json.Number or any Go number, string, []any, map[string]any.
// Package expr does not change them.
type Data struct {
	Input any            // input of the node
	Steps map[string]any // outputs of earlier nodes, by node id
	Run   map[string]any // run_id, workflow_tag, …
}

// rowsMember is the member of an object that holds its rows.
const rowsMember = "rows"

// Rows returns the rows of the input; ok is false if the input has none.
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

// WithRows returns the input with other rows. An object keeps its other members.
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

// The variables that always exist.
const (
	nameInput = "input"
	nameRow   = "row"
	nameSteps = "steps"
	nameRun   = "run"
)

// activation resolves the variables of one evaluation.
type activation struct {
	data *Data
	row  any // a row, or the whole input
}

// ResolveName returns the value of a variable; ok is false if it is missing. Steps and Run are never nil.
func (s *activation) ResolveName(name string) (any, bool) {
	switch name {
	case nameInput:
		return s.data.Input, true
	case nameRow:
		return s.row, true
	case nameSteps:
		return emptyIfNil(s.data.Steps), true
	case nameRun:
		return emptyIfNil(s.data.Run), true
	}
	members, _ := s.row.(map[string]any)
	v, ok := members[name]
	return v, ok
}

// Parent returns nil, because there are no other variables.
func (s *activation) Parent() cel.Activation { return nil }

// emptyIfNil returns an empty map for nil.
func emptyIfNil(m map[string]any) map[string]any {
	if m == nil {
		return map[string]any{}
	}
	return m
}

// readsNull reports whether one of the paths, or a prefix of it, leads to null. Then a type error of CEL means that a value is missing.
func (s *activation) readsNull(paths [][]string) bool {
	for _, path := range paths {
		value, exists := s.ResolveName(path[0])
		for _, name := range path[1:] {
			members, isObject := value.(map[string]any)
			if !exists || !isObject {
				break
			}
			value, exists = members[name]
		}
		if exists && value == nil {
			return true
		}
	}
	return false
}
