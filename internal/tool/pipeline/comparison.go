package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

const maxIn = 1000 // values of "in"

// test compares a field of a row with a value.
type test struct {
	at      string // where it is in the arguments
	field   *path
	op      string
	value   value
	values  []value  // in
	pattern *pattern // matches
	negated bool     // exists with false

	reader       *conditionReader
	isComparable bool // some row that was judged had the field and, for an order, a value to compare
}

func operators() []string {
	return []string{"=", "!=", "<", "<=", ">", ">=", "in", "contains", "matches", "exists"}
}

func (r *conditionReader) test(raw json.RawMessage, fields map[string]json.RawMessage, at string) (condition, error) {
	for _, name := range sortedKeys(fields) {
		if name != "field" && name != "op" && name != "value" {
			return nil, invalid(at+"."+clip.Bytes(name, maxQuote), "unknown field: want field, op and value, or one of and, or, not")
		}
	}
	var in struct {
		Field *string         `json:"field"`
		Op    *string         `json:"op"`
		Value json.RawMessage `json:"value"`
	}
	if err := decodeStrictly(raw, &in); err != nil {
		return nil, nestField(err, at)
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
	t := &test{at: at, field: field, op: *in.Op, reader: r}
	if t.op == "==" {
		t.op = "="
	}
	if !slices.Contains(operators(), t.op) {
		return nil, invalid(at+".op", "unknown operator %q: want one of %s", clip.Bytes(t.op, maxQuote), strings.Join(operators(), " "))
	}
	return t, t.parseValue(fields["value"])
}

// nestField puts the field of a fault below parent.
func nestField(err error, at string) error {
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
		t.reader.optional = append(t.reader.optional, t.field.text)
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
		if t.value.kind == kindOther || t.value.isAbsent() {
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
	t.isComparable = t.isComparable || found && !t.isOrdering()
	v := valueOf(raw)
	switch t.op {
	case "exists":
		return v.isAbsent() == t.negated, nil
	case "=":
		return equalValues(v, t.value), nil
	case "!=":
		return !equalValues(v, t.value), nil
	case "in":
		return slices.ContainsFunc(t.values, func(w value) bool { return equalValues(v, w) }), nil
	case "contains":
		return t.contains(raw, v), nil
	case "matches":
		if v.kind != kindString {
			return false, nil
		}
		if err := t.pattern.checkCost(ctx, t.at+".field", i, t.field, v.text); err != nil {
			return false, err
		}
		return t.pattern.re.Match(v.text), nil
	default:
		return t.holdsInOrder(v), nil
	}
}

// contains reports whether a string has the value as a part, or an array as an element.
func (t *test) contains(raw json.RawMessage, v value) bool {
	switch {
	case v.kind == kindString:
		return bytes.Contains(v.text, t.value.text)
	case v.kind == kindOther && raw[0] == '[':
		for c := dataset.ElementsOf(raw); ; {
			from, to, ok := c.Next()
			if !ok || equalValues(valueOf(raw[from:to]), t.value) {
				return ok
			}
		}
	default:
		return false
	}
}

func (t *test) holdsInOrder(v value) bool {
	if v.isAbsent() {
		return false
	}
	a, b, ok := sameKind(v, t.value)
	if !ok {
		return false
	}
	t.isComparable = true
	c := compareValues(&a, &b)
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

// isOrdering reports whether the operator needs an order, which values of two types do not have.
func (t *test) isOrdering() bool { return t.op[0] == '<' || t.op[0] == '>' }

// check looks at all rows again, because another part of the condition may have decided some of them.
func (t *test) check(ctx context.Context, rows []row) error {
	if t.isComparable || t.op == "exists" {
		return nil
	}
	found, clashes, at := false, value{}, -1
	for i, r := range rows {
		if err := checkContext(ctx, i); err != nil {
			return err
		}
		raw, ok := t.field.find(r)
		found = found || ok
		v := valueOf(raw)
		switch _, _, fits := sameKind(v, t.value); {
		case ok && !t.isOrdering():
			return nil
		case v.isAbsent():
		case fits:
			return nil
		case at < 0:
			clashes, at = v, i
		}
	}
	switch {
	case !found && len(rows) > 0 && !t.isOptional():
		return noSuchField(t.at+".field", t.field, rows)
	case at >= 0:
		return invalid(t.at+".value", "%s cannot be compared with %s, which is the %q of row %d",
			t.value.shortQuote(), clashes.shortQuote(), clip.Bytes(t.field.text, maxQuote), at)
	}
	return nil
}

// isOptional reports whether the condition tests somewhere if the field exists. Then it is no mistake that no row has it.
func (t *test) isOptional() bool {
	return slices.ContainsFunc(t.reader.optional, func(name string) bool {
		rest, ok := strings.CutPrefix(t.field.text, name)
		return ok && (rest == "" || rest[0] == '.')
	})
}
