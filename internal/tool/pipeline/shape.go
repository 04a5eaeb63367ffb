package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/internal/tool"
)

// shapeVersion is a part of every shape: it changes when the same pipeline comes to have another one.
const shapeVersion = "pipeline shape/1"

// maxShaped bounds what is kept of a pipeline, in bytes; longer ones are used and not counted.
const maxShaped = 16 << 10

// document is a pipeline as it is compared and kept: its steps, each by its members, so that pipelines that do the same are the same.
// A query in a URL is among the params, null and what is the default are left out.
type document []map[string]json.RawMessage

// canonicalDocument returns a pipeline as a document; ok is false for one that is not to become a tool: it has effects, a URL names a user,
// a param or a text looks like a secret, it compares with an object, it has no steps, or it is too long.
func canonicalDocument(p *program) (doc document, ok bool) {
	if len(p.steps) == 0 || p.hasEffects() {
		return nil, false
	}
	doc = make(document, len(p.steps))
	for i, s := range p.steps {
		var fields map[string]json.RawMessage
		if json.Unmarshal(p.source[i], &fields) != nil {
			return nil, false
		}
		for name, raw := range fields {
			if string(raw) == "null" {
				delete(fields, name)
			}
		}
		if !canonicalStep(s.step, fields) {
			return nil, false
		}
		doc[i] = fields
	}
	raw, err := doc.encode()
	if err != nil || len(raw) > maxShaped {
		return nil, false
	}
	doc, err = decodeDocument(raw)
	return doc, err == nil && !doc.hasSecret()
}

// canonicalStep gives the members of a step one form for all that mean the same.
func canonicalStep(s step, fields map[string]json.RawMessage) bool {
	var err error
	switch s := s.(type) {
	case *httpRequest:
		return canonicalRequest(s, fields)
	case *tableSort:
		if string(fields["order"]) == `"asc"` {
			delete(fields, "order")
		}
	case *join:
		if string(fields["how"]) == `"inner"` {
			delete(fields, "how")
		}
	case *topK:
		fields["k"] = strconv.AppendInt(nil, int64(s.k), 10)
	case *tableFilter:
		c := conditionWalk{visit: keepValue}
		fields["condition"], err = c.node(fields["condition"], false)
		return err == nil && !c.opaque
	}
	return true
}

// canonicalRequest keeps the address without its query. The names of params and of the query are one set, as they are in the request.
func canonicalRequest(s *httpRequest, fields map[string]json.RawMessage) bool {
	var text string
	if s.url.User != nil || json.Unmarshal(fields["url"], &text) != nil {
		return false
	}
	given := &httpRequest{method: http.MethodGet}
	if given.parseURL(text) != nil {
		return false
	}
	all := map[string][]json.RawMessage{}
	for name, values := range given.url.Query() {
		for _, v := range values {
			raw, err := tool.EncodeJSON(v)
			if err != nil {
				return false
			}
			all[name] = append(all[name], raw)
		}
	}
	var params map[string]json.RawMessage
	if raw, ok := fields["params"]; ok && json.Unmarshal(raw, &params) != nil {
		return false
	}
	for name, raw := range params {
		all[name] = append(all[name], paramValues(raw)...)
	}
	for name := range all {
		if isSecretName(name) {
			return false
		}
	}
	given.url.RawQuery, given.url.ForceQuery = "", false
	address, err := tool.EncodeJSON(given.url.String())
	if err != nil {
		return false
	}
	clear(fields)
	fields["step"], fields["url"] = json.RawMessage(`"http_request"`), address
	return putParams(fields, all)
}

// putParams writes the params: one value by itself, several as a list of one kind, else of texts as in a query.
func putParams(fields map[string]json.RawMessage, all map[string][]json.RawMessage) bool {
	params := make(map[string]json.RawMessage, len(all))
	for name, values := range all {
		switch len(values) {
		case 0:
			continue
		case 1:
			params[name] = values[0]
			continue
		}
		raw, err := tool.EncodeJSON(values)
		if err != nil {
			return false
		}
		if kindOf(raw) == "" {
			texts := make([]string, len(values))
			for i, v := range values {
				texts[i] = textOf(v)
			}
			if raw, err = tool.EncodeJSON(texts); err != nil {
				return false
			}
		}
		params[name] = raw
	}
	if len(params) == 0 {
		return true
	}
	raw, err := tool.EncodeJSON(params)
	fields["params"] = raw
	return err == nil
}

// paramValues lists the values of a param: those of a list, or the one. Null has none.
func paramValues(raw json.RawMessage) []json.RawMessage {
	list := []json.RawMessage{raw}
	if raw[0] == '[' && json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return slices.DeleteFunc(list, func(v json.RawMessage) bool { return string(v) == "null" })
}

// textOf returns a scalar as a query has it.
func textOf(raw json.RawMessage) string {
	if raw[0] == '"' {
		return string(unquote(raw))
	}
	return string(raw)
}

// encode returns a document as JSON: members by name, strings in their shortest form, numbers as they were written.
func (d document) encode() (json.RawMessage, error) {
	raw, err := tool.EncodeJSON(d)
	if err != nil {
		return nil, err
	}
	v := jsontext.Value(raw)
	if err := v.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		return nil, err
	}
	return json.RawMessage(v), nil
}

func decodeDocument(raw json.RawMessage) (document, error) {
	var d document
	err := json.Unmarshal(raw, &d)
	return d, err
}

// shape returns the hash of a pipeline without its literals.
func (d document) shape() (string, error) {
	bare, err := d.each(func(l *literal) json.RawMessage { return json.RawMessage(`{"$literal":"` + l.kind + `"}`) })
	if err != nil {
		return "", err
	}
	raw, err := bare.encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(shapeVersion), raw...))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// hasOwnRows reports whether the pipeline has rows of its own; else it works on those of input_ref.
func (d document) hasOwnRows() bool {
	switch d.stepName(0) {
	case "http_request":
		return true
	case "join":
		_, left := d[0]["left"]
		return left
	default:
		return false
	}
}

func (d document) stepName(i int) string {
	if i >= len(d) {
		return ""
	}
	return d.text(i, "step")
}

// text returns a member that is a string, empty for any other.
func (d document) text(i int, member string) string {
	raw := d[i][member]
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	return string(unquote(raw))
}
