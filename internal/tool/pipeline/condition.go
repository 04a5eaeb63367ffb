package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// The bounds of a condition.
const (
	maxConditions     = 200 // nodes of the tree
	maxConditionDepth = 16
	maxIn             = 1000 // values of "in"
)

// condition is a node of a filter's tree: {"and":[…]}, {"or":[…]}, {"not":…} or a test {"field","op","value"}.
type condition interface {
	// holds judges row i, an object.
	holds(ctx context.Context, i int, r row) (bool, error)
	// check looks back when all rows were judged: a test that could never hold, because its field does not exist or its value is of
	// another type, is a fault rather than an empty answer.
	check(rows []row) error
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

func (c allOf) check(rows []row) error { return checkAll(c, rows) }

type anyOf []condition

func (c anyOf) holds(ctx context.Context, i int, r row) (bool, error) {
	for _, part := range c {
		if ok, err := part.holds(ctx, i, r); err != nil || ok {
			return ok, err
		}
	}
	return false, nil
}

func (c anyOf) check(rows []row) error { return checkAll(c, rows) }

type noneOf struct{ part condition }

func (c noneOf) holds(ctx context.Context, i int, r row) (bool, error) {
	ok, err := c.part.holds(ctx, i, r)
	return !ok, err
}

func (c noneOf) check(rows []row) error { return c.part.check(rows) }

func checkAll(parts []condition, rows []row) error {
	for _, part := range parts {
		if err := part.check(rows); err != nil {
			return err
		}
	}
	return nil
}

// parseCondition reads a node; at names it in faults, left counts the nodes that may still come.
func parseCondition(raw json.RawMessage, at string, depth int, left *int) (condition, error) {
	if *left--; *left < 0 {
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
			part, err := parseCondition(inner, at+".not", depth+1, left)
			return noneOf{part}, err
		}
		parts, err := parseConditions(inner, at+"."+name, depth+1, left)
		if name == "or" {
			return anyOf(parts), err
		}
		return allOf(parts), err
	}
	return parseTest(raw, fields, at)
}

func parseConditions(raw json.RawMessage, at string, depth int, left *int) ([]condition, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || list == nil {
		return nil, invalid(at, "want an array, got %s", describe(raw))
	}
	if len(list) == 0 {
		return nil, invalid(at, "is empty")
	}
	parts := make([]condition, len(list))
	for i := range list {
		part, err := parseCondition(list[i], indexed(at, i), depth, left)
		if err != nil {
			return nil, err
		}
		parts[i] = part
	}
	return parts, nil
}

// test compares a field of a row with a value.
type test struct {
	at      string // where it is in the arguments
	field   *path
	op      string
	value   value
	values  []value  // in
	pattern *pattern // matches
	negated bool     // exists with false

	// What was seen, for check.
	judged, found, compared, clashed int
	clash                            value
}

func operators() []string {
	return []string{"=", "!=", "<", "<=", ">", ">=", "in", "contains", "matches", "exists"}
}

func parseTest(raw json.RawMessage, fields map[string]json.RawMessage, at string) (condition, error) {
	for _, name := range sortedKeys(fields) {
		if name != "field" && name != "op" && name != "value" {
			return nil, invalid(at+"."+clip(name), "unknown field: want field, op and value, or one of and, or, not")
		}
	}
	var in struct {
		Field *string         `json:"field"`
		Op    *string         `json:"op"`
		Value json.RawMessage `json:"value"`
	}
	if err := decodeInto(raw, &in); err != nil {
		return nil, under(err, at)
	}
	switch {
	case in.Field == nil:
		return nil, invalid(at+".field", "is required")
	case in.Op == nil:
		return nil, invalid(at+".op", "is required")
	}
	field, err := parsePath(at+".field", *in.Field)
	if err != nil {
		return nil, err
	}
	t := &test{at: at, field: field, op: *in.Op}
	if t.op == "==" {
		t.op = "="
	}
	if !slices.Contains(operators(), t.op) {
		return nil, invalid(at+".op", "unknown operator %q: want one of %s", clip(t.op), strings.Join(operators(), " "))
	}
	return t, t.parseValue(fields["value"])
}

// under puts a fault's field below at.
func under(err error, at string) error {
	if f, ok := err.(*fault); ok { //nolint:errorlint // decodeInto returns nothing else
		f.failure.Field = strings.TrimSuffix(at+"."+f.failure.Field, ".")
	}
	return err
}

func (t *test) parseValue(raw json.RawMessage) error {
	at := t.at + ".value"
	if len(raw) == 0 && t.op != "exists" {
		return invalid(at, "is required")
	}
	t.value = valueOf(raw)
	switch t.op {
	case "exists":
		switch string(t.value.text) {
		case "", "true":
		case "false":
			t.negated = true
		default:
			return invalid(at, "want true, false or nothing, got %s", describe(raw))
		}
	case "in":
		if raw[0] != '[' {
			return invalid(at, "want an array, got %s", describe(raw))
		}
		list, err := listOf(raw, maxIn)
		if err != nil {
			return invalid(at, "%s", err)
		}
		for _, v := range list {
			t.values = append(t.values, valueOf(v))
		}
	case "matches":
		return t.parsePattern(at, raw)
	case "contains":
		if t.value.kind == kindOther || t.value.absent() {
			return invalid(at, "want a string, number or boolean, got %s", describe(raw))
		}
	case "<", "<=", ">", ">=":
		if t.value.kind != kindNumber && t.value.kind != kindString {
			return invalid(at, "%s compares numbers or strings, got %s", t.op, describe(raw))
		}
	}
	return nil
}

func (t *test) parsePattern(at string, raw json.RawMessage) error {
	if t.value.kind != kindString {
		return invalid(at, "want a pattern as a string, got %s", describe(raw))
	}
	p, err := compile(at, string(t.value.text))
	t.pattern = p
	return err
}

func (t *test) holds(ctx context.Context, i int, r row) (bool, error) {
	raw, found := t.field.find(r)
	t.judged++
	if found {
		t.found++
	}
	v := valueOf(raw)
	switch t.op {
	case "exists":
		return v.absent() == t.negated, nil
	case "=":
		return equal(v, t.value), nil
	case "!=":
		return !equal(v, t.value), nil
	case "in":
		return slices.ContainsFunc(t.values, func(w value) bool { return equal(v, w) }), nil
	case "contains":
		return t.contains(raw, v), nil
	case "matches":
		if v.kind != kindString {
			return false, nil
		}
		if err := t.pattern.spend(ctx, t.at+".field", i, t.field, v.text); err != nil {
			return false, err
		}
		return t.pattern.re.Match(v.text), nil
	default:
		return t.ordered(v), nil
	}
}

// contains is a part of a string, case and all, or an element of an array.
func (t *test) contains(raw json.RawMessage, v value) bool {
	switch {
	case v.kind == kindString:
		return bytes.Contains(v.text, t.value.text)
	case v.kind == kindOther && raw[0] == '[':
		for c := elementsOf(raw); ; {
			from, to, ok := c.next()
			if !ok || equal(valueOf(raw[from:to]), t.value) {
				return ok
			}
		}
	default:
		return false
	}
}

func (t *test) ordered(v value) bool {
	if v.absent() {
		return false
	}
	a, b, ok := compatible(v, t.value)
	if !ok {
		t.clashed++
		t.clash = v
		return false
	}
	t.compared++
	c := order(&a, &b)
	switch t.op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	default:
		return c >= 0
	}
}

func (t *test) check(rows []row) error {
	switch {
	case t.judged > 0 && t.found == 0 && t.op != "exists":
		return noSuchField(t.at+".field", t.field, rows)
	case t.clashed > 0 && t.compared == 0:
		return invalid(t.at+".value", "%q cannot be compared with %q, which is the %q of a row", clip(string(t.value.text)), clip(string(t.clash.text)),
			clip(t.field.text))
	}
	return nil
}
