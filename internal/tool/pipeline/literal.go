package pipeline

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/tool"
)

// The kinds of literals; a list has elements of one kind. A literal of one kind never stands for one of another: they have two shapes.
const (
	literalString    = "string"
	literalNumber    = "number"
	literalBoolean   = "boolean"
	literalStrings   = "strings"
	literalNumbers   = "numbers"
	literalBooleans  = "booleans"
	literalInteger   = "integer"   // k
	literalReference = "reference" // of a dataset
	literalParameter = "parameter" // in a composite: {"$parameter":"name"}
)

// literal is a value in a pipeline that is no part of its shape: a param, the value of a comparison, k, a reference.
type literal struct {
	kind  string
	name  string // what a parameter in its place would be called
	about string // and what it is, for a model
	value json.RawMessage
}

// visitor is shown each literal and answers with what shall stand in its place.
type visitor func(l *literal) json.RawMessage

// keepValue is a visitor that changes nothing.
func keepValue(l *literal) json.RawMessage { return l.value }

var errNoDocument = errors.New("is no pipeline")

// each returns a document with the literals that visit puts into it. Equal shapes are visited in equal order.
func (d document) each(visit visitor) (document, error) {
	out := make(document, len(d))
	for i, fields := range d {
		out[i] = maps.Clone(fields)
		var err error
		switch d.stepName(i) {
		case "http_request":
			err = visitParams(out[i], visit)
		case "table_filter":
			c := conditionWalk{visit: visit}
			out[i]["condition"], err = c.node(fields["condition"], false)
		case "top_k":
			visitMember(out[i], "k", &literal{kind: literalInteger, name: "top", about: "How many rows to keep"}, visit)
		case "join":
			visitMember(out[i], "left", &literal{kind: literalReference, name: "left_ref", about: "Reference of the left dataset"}, visit)
			visitMember(out[i], "right", &literal{kind: literalReference, name: "right_ref", about: "Reference of the right dataset"}, visit)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// literals lists them in the order of each.
func (d document) literals() ([]literal, error) {
	var all []literal
	_, err := d.each(func(l *literal) json.RawMessage {
		all = append(all, *l)
		return l.value
	})
	return all, err
}

func visitMember(fields map[string]json.RawMessage, member string, l *literal, visit visitor) {
	raw, ok := fields[member]
	if !ok {
		return
	}
	l.value = raw
	if kindOf(raw) == literalParameter {
		l.kind = literalParameter
	}
	fields[member] = visit(l)
}

func visitParams(fields map[string]json.RawMessage, visit visitor) error {
	raw, ok := fields["params"]
	if !ok {
		return nil
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(raw, &params); err != nil {
		return err
	}
	for _, name := range sortedKeys(params) {
		l := &literal{kind: kindOf(params[name]), name: snake(name), about: "Query parameter " + shortQuote(name), value: params[name]}
		if l.kind != "" {
			params[name] = visit(l)
		}
	}
	var err error
	fields["params"], err = tool.EncodeJSON(params)
	return err
}

// conditionWalk visits the values of a condition's tests.
type conditionWalk struct {
	visit  visitor
	opaque bool     // a test compares with an object, which could be taken for a parameter
	fields []string // of the tests, each once
}

// node returns a node with the values that visit gave; negated is whether an odd number of "not" is around it.
func (c *conditionWalk) node(raw json.RawMessage, negated bool) (json.RawMessage, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, errNoDocument
	}
	for _, name := range []string{"and", "or", "not"} {
		inner, ok := fields[name]
		if !ok {
			continue
		}
		var err error
		if name == "not" {
			fields[name], err = c.node(inner, !negated)
		} else {
			fields[name], err = c.nodes(inner, negated)
		}
		if err != nil {
			return nil, err
		}
		return tool.EncodeJSON(fields)
	}
	return c.test(fields, negated)
}

func (c *conditionWalk) nodes(raw json.RawMessage, negated bool) (json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for i := range list {
		var err error
		if list[i], err = c.node(list[i], negated); err != nil {
			return nil, err
		}
	}
	return tool.EncodeJSON(list)
}

// test visits the value of a comparison. A pattern and what exists asks for are a part of the shape, and so are null and lists of mixed
// kinds.
func (c *conditionWalk) test(fields map[string]json.RawMessage, negated bool) (json.RawMessage, error) {
	var field, op string
	if json.Unmarshal(fields["field"], &field) != nil || json.Unmarshal(fields["op"], &op) != nil {
		return nil, errNoDocument
	}
	if !slices.Contains(c.fields, field) {
		c.fields = append(c.fields, field)
	}
	if op == "==" {
		op = "="
		fields["op"] = json.RawMessage(`"="`)
	}
	value := fields["value"]
	if op == "matches" || op == "exists" || len(value) == 0 {
		return tool.EncodeJSON(fields)
	}
	kind := kindOf(value)
	c.opaque = c.opaque || value[0] == '{'
	list := strings.HasSuffix(kind, "s")
	if kind != "" && (kind == literalParameter || list == (op == "in")) {
		fields["value"] = c.visit(&literal{kind: kind, name: comparedName(field, op, negated), about: comparedAbout(field, op, negated), value: value})
	}
	return tool.EncodeJSON(fields)
}

// kindOf says of which kind a literal is; empty for what stays as it is.
func kindOf(raw json.RawMessage) string {
	switch describe(raw) {
	case "a string":
		return literalString
	case "a number":
		return literalNumber
	case "a boolean":
		return literalBoolean
	case "an object":
		if parameterOf(raw) != "" {
			return literalParameter
		}
		return ""
	case "an array":
		return kindOfList(raw)
	default:
		return ""
	}
}

func kindOfList(raw json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return ""
	}
	first := kindOf(list[0])
	if !slices.Contains([]string{literalString, literalNumber, literalBoolean}, first) {
		return ""
	}
	for _, v := range list[1:] {
		if kindOf(v) != first {
			return ""
		}
	}
	return first + "s"
}

// parameterOf is the name in {"$parameter":"name"}, else empty.
func parameterOf(raw json.RawMessage) string {
	var p struct {
		Name string `json:"$parameter"`
	}
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &p) != nil {
		return ""
	}
	return p.Name
}
