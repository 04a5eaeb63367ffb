package pipeline

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/internal/tool"
)

// shapeVersion is a part of every shape. It is raised if a change of the code changes the shapes of pipelines.
const shapeVersion = "pipeline shape/1"

// maxDocument is the maximum size of a pipeline that is counted, in bytes.
const maxDocument = 16 << 10

// document is the steps of a pipeline in canonical form, in which equivalent pipelines are equal: the query of a URL is moved to params, and
// nulls and defaults are left out.
type document []map[string]json.RawMessage

// canonicalDocument returns the canonical form of a pipeline. ok is false if the pipeline must not be promoted: it has effects, a URL with a
// user name, a param or text that looks like a secret, a comparison with an object, no steps, or too many bytes.
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
	if err != nil || len(raw) > maxDocument {
		return nil, false
	}
	doc, err = decodeDocument(raw)
	return doc, err == nil && !doc.hasSecret()
}

// canonicalStep changes the members of a step to their canonical form. It returns false if the step must not be promoted.
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
		c := conditionMapper{visit: keepValue}
		fields["condition"], err = c.mapNode(fields["condition"], false)
		return err == nil && !c.comparesObject
	}
	return true
}

// canonicalRequest moves the query of the URL to the params. It returns false if the request must not be promoted.
func canonicalRequest(s *httpRequest, fields map[string]json.RawMessage) bool {
	var text string
	if s.url.User != nil || json.Unmarshal(fields["url"], &text) != nil {
		return false
	}
	address, err := parseURL(text)
	if err != nil {
		return false
	}
	all := map[string][]json.RawMessage{}
	for name, values := range address.Query() {
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
	address.RawQuery, address.ForceQuery = "", false
	encoded, err := tool.EncodeJSON(address.String())
	if err != nil {
		return false
	}
	clear(fields)
	fields["step"], fields["url"] = json.RawMessage(`"http_request"`), encoded
	return setParams(fields, all)
}

// setParams sets the params of a request. Several values of one name become a list; if they are of different kinds, a list of strings. It
// returns false if they cannot be encoded.
func setParams(fields map[string]json.RawMessage, all map[string][]json.RawMessage) bool {
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
		if literalKind(raw) == "" {
			texts := make([]string, len(values))
			for i, v := range values {
				texts[i] = queryText(v)
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

// paramValues returns the values of a param, which is a list or a single value. Nulls are left out.
func paramValues(raw json.RawMessage) []json.RawMessage {
	list := []json.RawMessage{raw}
	if raw[0] == '[' && json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return slices.DeleteFunc(list, func(v json.RawMessage) bool { return string(v) == "null" })
}

// queryText returns a scalar as it is written in a query.
func queryText(raw json.RawMessage) string {
	if raw[0] == '"' {
		return string(unquote(raw))
	}
	return string(raw)
}

// encode returns the document as canonical JSON, except that numbers keep their digits.
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
	withoutValues, err := d.mapLiterals(func(l *literal) json.RawMessage { return json.RawMessage(`{"$literal":"` + l.kind + `"}`) })
	if err != nil {
		return "", err
	}
	raw, err := withoutValues.encode()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append([]byte(shapeVersion), raw...))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// hasSource reports whether the first step provides rows. Otherwise the rows are those of input_ref.
func (d document) hasSource() bool {
	switch d.stepName(0) {
	case "http_request":
		return true
	case "join":
		_, ok := d[0]["left"]
		return ok
	default:
		return false
	}
}

// stepName returns the name of step i, empty if there is no such step.
func (d document) stepName(i int) string {
	if i >= len(d) {
		return ""
	}
	return d.text(i, "step")
}

// text returns a member of step i, empty if it is no string.
func (d document) text(i int, member string) string {
	raw := d[i][member]
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	return string(unquote(raw))
}
