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

// condition is a node of a filter's tree: {"and":[…]}, {"or":[…]}, {"not":…} or a comparison {"field","op","value"}.
type condition interface {
	// holds reports whether row i, which is the object r, meets the condition.
	holds(ctx context.Context, i int, r row) (bool, error)
	// check returns a fault for a comparison that cannot hold for any row, because no row has its field or a value of a comparable type. It
	// is called after holds has been called for all rows. The order of the parts of a condition does not affect the result.
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

// conditionParser parses the tree of a condition.
type conditionParser struct {
	nodes    int      // that have been parsed
	optional []string // fields that some part of the condition tests with exists
}

func parseCondition(raw json.RawMessage) (condition, error) {
	return (&conditionParser{}).parseNode(raw, "condition", 1)
}

// parseNode parses a node. field is its name in faults.
func (p *conditionParser) parseNode(raw json.RawMessage, field string, depth int) (condition, error) {
	if p.nodes++; p.nodes > maxConditions {
		return nil, invalid("condition", "has more than %d parts", maxConditions)
	}
	if depth > maxConditionDepth {
		return nil, invalid("condition", "is nested more than %d deep", maxConditionDepth)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, invalid(field, "want an object, got %s", kindName(raw))
	}
	for _, name := range []string{"and", "or", "not"} {
		inner, ok := members[name]
		if !ok {
			continue
		}
		if len(members) > 1 {
			return nil, invalid(field, "%q stands alone", name)
		}
		if name == "not" {
			part, err := p.parseNode(inner, field+".not", depth+1)
			return negation{part}, err
		}
		parts, err := p.parseNodes(inner, field+"."+name, depth+1)
		if name == "or" {
			return anyOf(parts), err
		}
		return allOf(parts), err
	}
	return p.parseComparison(raw, members, field)
}

func (p *conditionParser) parseNodes(raw json.RawMessage, field string, depth int) ([]condition, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, invalid(field, "want an array, got %s", kindName(raw))
	}
	if len(list) == 0 {
		return nil, invalid(field, "is empty")
	}
	parts := make([]condition, len(list))
	for i := range list {
		part, err := p.parseNode(list[i], elementName(field, i), depth)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	return parts, nil
}
