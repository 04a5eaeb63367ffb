package pipeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// readAll reads at most bound bytes; one more is an overflow.
func readAll(r io.Reader, bound int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, bound+1))
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller knows what was read
	}
	if int64(len(body)) > bound {
		return nil, agent.Errorf(agent.CodeOverflow, "", "is larger than %d bytes", bound)
	}
	return body, nil
}

// Where rows usually are in an object; see the package comment for the rule.
func rowFields() []string {
	return []string{"rows", "items", "data", "results", "records", "values", "entries", "hits", "flights"}
}

func wrapperFields() []string { return []string{"data", "result", "response", "payload"} }

// rowsOf finds the rows in a JSON document, at most bound of them. Rows alias body. Errors are [agent.Error] of invalid or overflow.
func rowsOf(body []byte, bound int) ([]row, error) {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if !utf8.Valid(body) {
		body = bytes.ToValidUTF8(body, []byte("\ufffd")) // a row must be storable as JSON
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil, agent.Errorf(agent.CodeInvalid, "", "is empty, not JSON")
	}
	switch body[0] {
	case '[':
		return elements(body, bound)
	case '{':
		return rowsOfObject(body, bound, true)
	default:
		if !json.Valid(body) {
			return nil, agent.Errorf(agent.CodeInvalid, "", "is not JSON: it starts with %q", clip(string(body[:min(len(body), 40)])))
		}
		return nil, agent.Errorf(agent.CodeInvalid, "", "is %s, not an array or an object", describe(body))
	}
}

func rowsOfObject(body []byte, bound int, descend bool) ([]row, error) {
	fields := map[string]json.RawMessage{}
	if err := members(body, func(name string, v json.RawMessage) bool { fields[name] = v; return true }); err != nil {
		return nil, err
	}
	for _, name := range rowFields() {
		if v := fields[name]; len(v) > 0 && v[0] == '[' {
			return elements(v, bound)
		}
	}
	var arrays []string
	for _, name := range sortedKeys(fields) {
		if holdsObjects(fields[name]) {
			arrays = append(arrays, name)
		}
	}
	switch {
	case len(arrays) == 1:
		return elements(fields[arrays[0]], bound)
	case len(arrays) > 1:
		return nil, agent.Errorf(agent.CodeInvalid, "", "has several arrays and none is obviously the rows: %s",
			clip(strings.Join(arrays, ", ")))
	}
	if descend {
		for _, name := range wrapperFields() {
			if v := fields[name]; len(v) > 0 && v[0] == '{' {
				return rowsOfObject(v, bound, false)
			}
		}
	}
	return []row{body}, nil
}

// holdsObjects reports whether v is an array whose first element is an object.
func holdsObjects(v json.RawMessage) bool {
	if len(v) == 0 || v[0] != '[' {
		return false
	}
	rest := bytes.TrimLeft(v[1:], " \t\r\n")
	return len(rest) > 0 && rest[0] == '{'
}

func newDecoder(raw []byte) *jsontext.Decoder {
	return jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// elements splits an array without copying it.
func elements(raw []byte, bound int) ([]row, error) {
	dec := newDecoder(raw)
	if _, err := dec.ReadToken(); err != nil {
		return nil, malformed(err)
	}
	rows := []row{}
	for dec.PeekKind() != ']' {
		if len(rows) == bound {
			return nil, agent.Errorf(agent.CodeOverflow, "", "has more than %d rows", bound)
		}
		v, err := dec.ReadValue()
		if err != nil {
			return nil, malformed(err)
		}
		end := dec.InputOffset()
		rows = append(rows, row(raw[end-int64(len(v)):end:end]))
	}
	return rows, closed(dec)
}

// members calls yield with the members of an object, in order, until yield says stop. It checks what follows the object only when
// it gets there.
func members(raw []byte, yield func(name string, v json.RawMessage) bool) error {
	dec := newDecoder(raw)
	if _, err := dec.ReadToken(); err != nil {
		return malformed(err)
	}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return malformed(err)
		}
		name := token.String()
		v, err := dec.ReadValue()
		if err != nil {
			return malformed(err)
		}
		end := dec.InputOffset()
		if !yield(name, raw[end-int64(len(v)):end:end]) {
			return nil
		}
	}
	return closed(dec)
}

// closed reads the end of an array or object and of the document.
func closed(dec *jsontext.Decoder) error {
	if _, err := dec.ReadToken(); err != nil {
		return malformed(err)
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return agent.Errorf(agent.CodeInvalid, "", "is malformed JSON: something follows its end")
	}
	return nil
}

func malformed(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return agent.Errorf(agent.CodeInvalid, "", "is malformed JSON at byte %d: %s", syntax.ByteOffset, clip(syntax.Err.Error()))
	}
	return agent.Errorf(agent.CodeInvalid, "", "is malformed JSON: it ends too early")
}

// path names a field of a row: a name, or names joined by dots; in an array, a position. A field whose name itself has a dot is
// found first.
type path string

// find returns the value at the path. A row that is no object is a fault: the step cannot mean anything there.
func (p path) find(r row) (json.RawMessage, bool, error) {
	if len(r) == 0 || r[0] != '{' {
		return nil, false, invalid("", "the rows are not objects: one is %s", describe(r))
	}
	v, ok := p.in(r)
	return v, ok, nil
}

func (p path) in(v json.RawMessage) (json.RawMessage, bool) {
	head, rest, dotted := strings.Cut(string(p), ".")
	var whole, part json.RawMessage
	switch {
	case len(v) == 0:
	case v[0] == '{':
		_ = members(v, func(name string, m json.RawMessage) bool { // a row is well-formed: it was read as a whole
			if name == string(p) {
				whole = m
				return false
			}
			if dotted && name == head {
				part = m
			}
			return true
		})
	case v[0] == '[':
		i, err := strconv.Atoi(head)
		if err != nil || i < 0 {
			return nil, false
		}
		part = nth(v, i)
		if !dotted {
			whole = part
		}
	}
	if whole != nil {
		return whole, true
	}
	if part != nil && dotted {
		return path(rest).in(part)
	}
	return nil, false
}

// nth returns an element of a well-formed array, nil when there is none.
func nth(v json.RawMessage, i int) json.RawMessage {
	dec := newDecoder(v)
	if _, err := dec.ReadToken(); err != nil {
		return nil
	}
	for ; dec.PeekKind() != ']'; i-- {
		element, err := dec.ReadValue()
		if err != nil {
			return nil
		}
		if i == 0 {
			return json.RawMessage(element.Clone())
		}
	}
	return nil
}

// noSuchField is the fault of a path that no row has; it names those that the first row has, so that a model can correct itself.
func noSuchField(field string, p path, rows []row) error {
	var names []string
	if len(rows) > 0 && rows[0][0] == '{' {
		_ = members(rows[0], func(name string, _ json.RawMessage) bool {
			names = append(names, clip(name))
			return len(names) < 30
		})
	}
	slices.Sort(names)
	return invalid(field, "no row has a field %q; the first row has %s", clip(string(p)), strings.Join(names, ", "))
}

// checkPath refuses a path that cannot name anything; field names it in the fault.
func checkPath(field, p string) error {
	switch {
	case p == "":
		return invalid(field, "is empty")
	case len(p) > 500:
		return invalid(field, "is %d bytes, at most 500", len(p))
	}
	return nil
}

// indexed names an element of a list.
func indexed(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
