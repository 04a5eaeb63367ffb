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

// comparison is a condition that compares a field with a value.
type comparison struct {
	argument     string // the name of the comparison in faults
	field        *path
	op           string
	value        value
	values       []value  // of in
	pattern      *pattern // of matches
	wantsMissing bool     // exists with the value false: the field must be missing

	parser       *conditionParser
	isComparable bool // holds has found a row with the field and, if the operator needs an order, with a value of the same kind
}

func operators() []string {
	return []string{"=", "!=", "<", "<=", ">", ">=", "in", "contains", "matches", "exists"}
}

// parseComparison parses a comparison, whose members are also given in decoded form.
func (p *conditionParser) parseComparison(raw json.RawMessage, members map[string]json.RawMessage, argument string) (condition, error) {
	for _, name := range sortedKeys(members) {
		if name != "field" && name != "op" && name != "value" {
			return nil, invalid(argument+"."+clip.Bytes(name, maxQuote), "unknown field: want field, op and value, or one of and, or, not")
		}
	}
	var in struct {
		Field *string         `json:"field"`
		Op    *string         `json:"op"`
		Value json.RawMessage `json:"value"`
	}
	if err := decodeFields(raw, &in); err != nil {
		return nil, nestField(err, argument)
	}
	switch {
	case in.Field == nil:
		return nil, invalid(argument+".field", "is required")
	case in.Op == nil:
		return nil, invalid(argument+".op", "is required")
	}
	field, err := parsePath(argument+".field", *in.Field)
	if err != nil {
		return nil, err
	}
	c := &comparison{argument: argument, field: field, op: *in.Op, parser: p}
	if c.op == "==" {
		c.op = "="
	}
	if !slices.Contains(operators(), c.op) {
		return nil, invalid(argument+".op", "unknown operator %q: want one of %s", clip.Bytes(c.op, maxQuote), strings.Join(operators(), " "))
	}
	return c, c.parseValue(members["value"])
}

// nestField puts the field of a fault below parent.
func nestField(err error, parent string) error {
	if f, ok := err.(*fault); ok { //nolint:errorlint // faults are not wrapped
		f.failure.Field = strings.TrimSuffix(parent+"."+f.failure.Field, ".")
	}
	return err
}

func (c *comparison) parseValue(raw json.RawMessage) error {
	argument := c.argument + ".value"
	if len(raw) == 0 && c.op != "exists" {
		return invalid(argument, "is required")
	}
	c.value = valueOf(raw)
	switch c.op {
	case "exists":
		c.parser.optional = append(c.parser.optional, c.field.text)
		switch string(c.value.text) {
		case "", "true":
		case "false":
			c.wantsMissing = true
		default:
			return invalid(argument, "want true, false or nothing, got %s", kindName(raw))
		}
	case "in":
		if raw[0] != '[' {
			return invalid(argument, "want an array, got %s", kindName(raw))
		}
		list, err := splitArray(raw, maxIn)
		if err != nil {
			return invalid(argument, "%s", err)
		}
		for _, v := range list {
			c.values = append(c.values, valueOf(v))
		}
	case "matches":
		if c.value.kind != kindString {
			return invalid(argument, "want a pattern as a string, got %s", kindName(raw))
		}
		var err error
		c.pattern, err = compilePattern(argument, string(c.value.text))
		return err
	case "contains":
		if c.value.kind == kindOther || c.value.isAbsent() {
			return invalid(argument, "want a string, number or boolean, got %s", kindName(raw))
		}
	case "<", "<=", ">", ">=":
		if c.value.kind != kindNumber && c.value.kind != kindString {
			return invalid(argument, "%s compares numbers or strings, got %s", c.op, kindName(raw))
		}
	}
	return nil
}

func (c *comparison) holds(ctx context.Context, i int, r row) (bool, error) {
	raw, found := c.field.find(r)
	c.isComparable = c.isComparable || found && !c.needsOrder()
	v := valueOf(raw)
	switch c.op {
	case "exists":
		return v.isAbsent() == c.wantsMissing, nil
	case "=":
		return equalValues(v, c.value), nil
	case "!=":
		return !equalValues(v, c.value), nil
	case "in":
		return slices.ContainsFunc(c.values, func(w value) bool { return equalValues(v, w) }), nil
	case "contains":
		return c.contains(raw, v), nil
	case "matches":
		if v.kind != kindString {
			return false, nil
		}
		if err := c.pattern.checkCost(ctx, c.argument+".field", i, c.field, v.text); err != nil {
			return false, err
		}
		return c.pattern.re.Match(v.text), nil
	default:
		return c.holdsInOrder(v), nil
	}
}

// contains reports whether the value is a part of a string, or an element of an array.
func (c *comparison) contains(raw json.RawMessage, v value) bool {
	switch {
	case v.kind == kindString:
		return bytes.Contains(v.text, c.value.text)
	case v.kind == kindOther && raw[0] == '[':
		for elements := dataset.ElementsOf(raw); ; {
			from, to, ok := elements.Next()
			if !ok || equalValues(valueOf(raw[from:to]), c.value) {
				return ok
			}
		}
	default:
		return false
	}
}

func (c *comparison) holdsInOrder(v value) bool {
	if v.isAbsent() {
		return false
	}
	a, b, ok := alignKinds(v, c.value)
	if !ok {
		return false
	}
	c.isComparable = true
	order := compareValues(&a, &b)
	switch c.op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	default:
		return order >= 0
	}
}

// needsOrder reports whether the operator compares by order, which values of different kinds do not have.
func (c *comparison) needsOrder() bool { return c.op[0] == '<' || c.op[0] == '>' }

// check tests all rows again, because holds is not called for rows that another part of the condition has decided.
func (c *comparison) check(ctx context.Context, rows []row) error {
	if c.isComparable || c.op == "exists" {
		return nil
	}
	found, mismatch, mismatchRow := false, value{}, -1
	for i, r := range rows {
		if err := checkContext(ctx, i); err != nil {
			return err
		}
		raw, ok := c.field.find(r)
		found = found || ok
		v := valueOf(raw)
		switch _, _, sameKind := alignKinds(v, c.value); {
		case ok && !c.needsOrder():
			return nil
		case v.isAbsent():
		case sameKind:
			return nil
		case mismatchRow < 0:
			mismatch, mismatchRow = v, i
		}
	}
	switch {
	case !found && len(rows) > 0 && !c.isOptional():
		return noSuchField(c.argument+".field", c.field, rows)
	case mismatchRow >= 0:
		return invalid(c.argument+".value", "%s cannot be compared with %s, which is the %q of row %d",
			c.value.quote(), mismatch.quote(), clip.Bytes(c.field.text, maxQuote), mismatchRow)
	}
	return nil
}

// isOptional reports whether the condition tests somewhere whether the field, or an object that holds it, exists. Then no row needs to have it.
func (c *comparison) isOptional() bool {
	return slices.ContainsFunc(c.parser.optional, func(name string) bool {
		after, ok := strings.CutPrefix(c.field.text, name)
		return ok && (after == "" || after[0] == '.')
	})
}
