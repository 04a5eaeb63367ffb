package pipeline

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/internal/tool"
)

// The kinds of literals. Pipelines whose literals differ in kind have different shapes. The elements of a list are of one kind.
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

// literal is a value in a pipeline that does not belong to its shape: a param, the value of a comparison, k, a reference.
type literal struct {
	kind        string
	name        string // of a parameter in its place
	description string // of a parameter in its place
	value       json.RawMessage
}

// visitor returns the value that replaces a literal.
type visitor func(l *literal) json.RawMessage

// keepValue is a visitor that changes nothing.
func keepValue(l *literal) json.RawMessage { return l.value }

var errNoDocument = errors.New("is no pipeline")

// mapLiterals returns a copy of the document in which visit has replaced the literals. It visits documents of one shape in the same order.
func (d document) mapLiterals(visit visitor) (document, error) {
	out := make(document, len(d))
	for i, fields := range d {
		out[i] = maps.Clone(fields)
		var err error
		switch d.stepName(i) {
		case "http_request":
			err = mapParams(out[i], visit)
		case "table_filter":
			c := conditionMapper{visit: visit}
			out[i]["condition"], err = c.mapNode(fields["condition"], false)
		case "top_k":
			mapMember(out[i], "k", &literal{kind: literalInteger, name: "top", description: "How many rows to keep"}, visit)
		case "join":
			mapMember(out[i], "left", &literal{kind: literalReference, name: "left_ref", description: "Reference of the left dataset"}, visit)
			mapMember(out[i], "right", &literal{kind: literalReference, name: "right_ref", description: "Reference of the right dataset"}, visit)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// literals returns the literals of the document in the order of mapLiterals.
func (d document) literals() ([]literal, error) {
	var all []literal
	_, err := d.mapLiterals(func(l *literal) json.RawMessage {
		all = append(all, *l)
		return l.value
	})
	return all, err
}

// mapMember replaces a member of a step. l is the literal without its value.
func mapMember(fields map[string]json.RawMessage, member string, l *literal, visit visitor) {
	raw, ok := fields[member]
	if !ok {
		return
	}
	l.value = raw
	if literalKind(raw) == literalParameter {
		l.kind = literalParameter
	}
	fields[member] = visit(l)
}

func mapParams(fields map[string]json.RawMessage, visit visitor) error {
	raw, ok := fields["params"]
	if !ok {
		return nil
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(raw, &params); err != nil {
		return err
	}
	for _, name := range sortedKeys(params) {
		l := &literal{kind: literalKind(params[name]), name: snakeCase(name), description: "Query parameter " + shortText(name), value: params[name]}
		if l.kind != "" {
			params[name] = visit(l)
		}
	}
	var err error
	fields["params"], err = tool.EncodeJSON(params)
	return err
}

// conditionMapper replaces the literals in a condition, and collects what it finds there.
type conditionMapper struct {
	visit          visitor
	comparesObject bool     // a comparison has an object as value, which could be mistaken for a parameter
	fields         []string // that are compared, each once
}

// mapNode returns a node of the condition with its literals replaced. isNegated reports whether an odd number of "not" encloses the node.
func (c *conditionMapper) mapNode(raw json.RawMessage, isNegated bool) (json.RawMessage, error) {
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
			fields[name], err = c.mapNode(inner, !isNegated)
		} else {
			fields[name], err = c.mapNodes(inner, isNegated)
		}
		if err != nil {
			return nil, err
		}
		return tool.EncodeJSON(fields)
	}
	return c.mapComparison(fields, isNegated)
}

func (c *conditionMapper) mapNodes(raw json.RawMessage, isNegated bool) (json.RawMessage, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for i := range list {
		var err error
		if list[i], err = c.mapNode(list[i], isNegated); err != nil {
			return nil, err
		}
	}
	return tool.EncodeJSON(list)
}

// mapComparison returns a comparison with its value replaced. The values of matches and exists, null, and lists of mixed kinds belong to the
// shape and stay.
func (c *conditionMapper) mapComparison(fields map[string]json.RawMessage, isNegated bool) (json.RawMessage, error) {
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
	c.comparesObject = c.comparesObject || value[0] == '{'
	kind := literalKind(value)
	isList := strings.HasSuffix(kind, "s")
	takesList := op == "in"
	if kind == literalParameter || kind != "" && isList == takesList {
		fields["value"] = c.visit(&literal{
			kind: kind, name: comparisonName(field, op, isNegated), description: comparisonDescription(field, op, isNegated), value: value,
		})
	}
	return tool.EncodeJSON(fields)
}

// literalKind returns the kind of a literal, empty if the value belongs to the shape.
func literalKind(raw json.RawMessage) string {
	switch kindName(raw) {
	case "a string":
		return literalString
	case "a number":
		return literalNumber
	case "a boolean":
		return literalBoolean
	case "an object":
		if parameterName(raw) != "" {
			return literalParameter
		}
		return ""
	case "an array":
		return listKind(raw)
	default:
		return ""
	}
}

// listKind returns the kind of a list of scalars, empty if it has no elements or elements of several kinds.
func listKind(raw json.RawMessage) string {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return ""
	}
	kind := literalKind(list[0])
	if !slices.Contains([]string{literalString, literalNumber, literalBoolean}, kind) {
		return ""
	}
	if slices.ContainsFunc(list, func(v json.RawMessage) bool { return literalKind(v) != kind }) {
		return ""
	}
	return kind + "s"
}

// parameterName returns the name in {"$parameter":"name"}, empty for any other value.
func parameterName(raw json.RawMessage) string {
	var p struct {
		Name string `json:"$parameter"`
	}
	if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &p) != nil {
		return ""
	}
	return p.Name
}
