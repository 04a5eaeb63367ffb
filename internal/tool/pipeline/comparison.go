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

	reader *conditionReader
	apt    bool // some row that was judged had the field and, for an order, a value to compare
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
	t := &test{at: at, field: field, op: *in.Op, reader: r}
	if t.op == "==" {
		t.op = "="
	}
	if !slices.Contains(operators(), t.op) {
		return nil, invalid(at+".op", "unknown operator %q: want one of %s", clip.Bytes(t.op, maxQuote), strings.Join(operators(), " "))
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
	t.apt = t.apt || found && !t.orders()
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
		for c := dataset.ElementsOf(raw); ; {
			from, to, ok := c.Next()
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
		return false
	}
	t.apt = true
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

// orders reports whether the test asks for an order, which values of two types do not have.
func (t *test) orders() bool { return t.op[0] == '<' || t.op[0] == '>' }

// check looks at all rows: in the ones that were judged before, another part of the condition may have decided.
func (t *test) check(ctx context.Context, rows []row) error {
	if t.apt || t.op == "exists" {
		return nil
	}
	found, clashes, at := false, value{}, -1
	for i, r := range rows {
		if err := alive(ctx, i); err != nil {
			return err
		}
		raw, ok := t.field.find(r)
		found = found || ok
		v := valueOf(raw)
		switch _, _, fits := compatible(v, t.value); {
		case ok && !t.orders():
			return nil
		case v.absent():
		case fits:
			return nil
		case at < 0:
			clashes, at = v, i
		}
	}
	switch {
	case !found && len(rows) > 0 && !t.expected():
		return noSuchField(t.at+".field", t.field, rows)
	case at >= 0:
		return invalid(t.at+".value", "%s cannot be compared with %s, which is the %q of row %d",
			t.value.shown(), clashes.shown(), clip.Bytes(t.field.text, maxQuote), at)
	}
	return nil
}

// expected reports whether the condition asks somewhere if there is such a field: then it is no mistake that there is none.
func (t *test) expected() bool {
	return slices.ContainsFunc(t.reader.optional, func(name string) bool {
		rest, ok := strings.CutPrefix(t.field.text, name)
		return ok && (rest == "" || rest[0] == '.')
	})
}
