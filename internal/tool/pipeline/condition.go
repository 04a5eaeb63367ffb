package pipeline

import (
	"context"
	"encoding/json"
)

// The bounds of a condition.
const (
	maxConditions     = 200 // nodes of the tree
	maxConditionDepth = 16
)

// condition is a node of a filter's tree: {"and":[…]}, {"or":[…]}, {"not":…} or a test {"field","op","value"}.
type condition interface {
	// holds reports whether row i, an object, meets the condition.
	holds(ctx context.Context, i int, r row) (bool, error)
	// check returns a fault for a test that could hold for no row, because its field does not exist or its value is of another type. It is
	// called after all rows. The order of the parts does not matter.
	check(ctx context.Context, rows []row) error
}

type allOf []condition

func (c allOf) holds(ctx context.Context, i int, r row) (bool, error) {
	for _, part := range c {
		if ok, err := part.holds(ctx, i, r); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

func (c allOf) check(ctx context.Context, rows []row) error { return checkAll(ctx, c, rows) }

type anyOf []condition

func (c anyOf) holds(ctx context.Context, i int, r row) (bool, error) {
	for _, part := range c {
		if ok, err := part.holds(ctx, i, r); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

func (c anyOf) check(ctx context.Context, rows []row) error { return checkAll(ctx, c, rows) }

type negation struct{ part condition }

func (c negation) holds(ctx context.Context, i int, r row) (bool, error) {
	ok, err := c.part.holds(ctx, i, r)
	return !ok, err
}

func (c negation) check(ctx context.Context, rows []row) error { return c.part.check(ctx, rows) }

func checkAll(ctx context.Context, parts []condition, rows []row) error {
	for _, part := range parts {
		if err := part.check(ctx, rows); err != nil {
			return err
		}
	}
	return nil
}

// conditionReader reads the tree.
type conditionReader struct {
	left     int      // nodes that may still come
	optional []string // the fields that some test asks for with exists
}

func parseCondition(raw json.RawMessage) (condition, error) {
	r := &conditionReader{left: maxConditions}
	return r.node(raw, "condition", 1)
}

// node reads a node, whose name in faults is at.
func (r *conditionReader) node(raw json.RawMessage, at string, depth int) (condition, error) {
	if r.left--; r.left < 0 {
		return nil, invalid("condition", "has more than %d parts", maxConditions)
	}
	if depth > maxConditionDepth {
		return nil, invalid("condition", "is nested more than %d deep", maxConditionDepth)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, invalid(at, "want an object, got %s", describe(raw))
	}
	for _, name := range []string{"and", "or", "not"} {
		inner, ok := fields[name]
		if !ok {
			continue
		}
		if len(fields) > 1 {
			return nil, invalid(at, "%q stands alone", name)
		}
		if name == "not" {
			part, err := r.node(inner, at+".not", depth+1)
			return negation{part}, err
		}
		parts, err := r.nodes(inner, at+"."+name, depth+1)
		if name == "or" {
			return anyOf(parts), err
		}
		return allOf(parts), err
	}
	return r.test(raw, fields, at)
}

func (r *conditionReader) nodes(raw json.RawMessage, at string, depth int) ([]condition, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, invalid(at, "want an array, got %s", describe(raw))
	}
	if len(list) == 0 {
		return nil, invalid(at, "is empty")
	}
	parts := make([]condition, len(list))
	for i := range list {
		part, err := r.node(list[i], elementName(at, i), depth)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	return parts, nil
}
