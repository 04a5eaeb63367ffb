package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// pair is a name and value of a query, form or cookie, unescaped.
type pair struct{ name, value string }

// flatValue is a value in one of the three forms that styles can write.
type flatValue struct {
	text  string
	list  []string
	pairs []pair
	kind  flatKind
}

type flatKind int

const (
	isText flatKind = iota
	isList
	isObject
)

// serialization returns the style and explode of a parameter or of a form's property: those of the document, or the defaults of OpenAPI.
func serialization(in, style string, explode *bool) (string, bool) {
	exploded := in == "query" || in == "cookie"
	switch {
	case style == "" && exploded:
		style = "form"
	case style == "":
		style = "simple"
	case style == "spaceDelimited", style == "pipeDelimited":
		exploded = false
	}
	if explode != nil {
		exploded = *explode
	}
	return style, exploded
}

// orderedObject is an object with the names of its members in the order in which they are written.
type orderedObject struct {
	members map[string]any
	names   []string
}

// MemberOrder returns, for each member of an object that is an object itself, the names of its members in the order in which they stand. The
// JSON must be well-formed.
func MemberOrder(raw json.RawMessage) map[string][]string {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil
	}
	order := map[string][]string{}
	for name, member := range members {
		if d := json.NewDecoder(bytes.NewReader(member)); member[0] == '{' {
			order[name] = namesIn(d)
		}
	}
	return order
}

// namesIn returns the names of the members of the object that a decoder is about to read.
func namesIn(d *json.Decoder) (names []string) {
	_, err := d.Token()
	for err == nil && d.More() {
		var name json.Token
		var value json.RawMessage
		if name, err = d.Token(); err == nil {
			names = append(names, fmt.Sprint(name))
			err = d.Decode(&value)
		}
	}
	return names
}

// flatten turns a value into texts. Only the style deepObject can write values that are nested deeper.
func flatten(v any) (flatValue, error) {
	switch v := v.(type) {
	case []any:
		w := flatValue{kind: isList, list: make([]string, 0, len(v))}
		for i, element := range v {
			text, err := textOf(element)
			if err != nil {
				return w, agent.Invalid("["+strconv.Itoa(i)+"]", "%w", err)
			}
			w.list = append(w.list, text)
		}
		return w, nil
	case map[string]any:
		return flatten(orderedObject{v, sortedKeys(v)})
	case orderedObject:
		w := flatValue{kind: isObject}
		for _, name := range v.names {
			if v.members[name] == nil {
				continue
			}
			text, err := textOf(v.members[name])
			if err != nil {
				return w, agent.Invalid("."+clip.Bytes(name, 100), "%w", err)
			}
			w.pairs = append(w.pairs, pair{name, text})
		}
		return w, nil
	default:
		text, err := textOf(v)
		return flatValue{text: text}, err
	}
}

// rejectDivider refuses texts that hold the divider where it is not escaped, or is escaped like a divider: a server would read several
// values.
func (w *flatValue) rejectDivider(divider string) error {
	divided := func(field string) error {
		return agent.Invalid(field, "holds %q, which divides the values here: it would be read as several", divider)
	}
	for i, text := range w.list {
		if strings.Contains(text, divider) {
			return divided("[" + strconv.Itoa(i) + "]")
		}
	}
	for _, p := range w.pairs {
		if strings.Contains(p.name, divider) || strings.Contains(p.value, divider) {
			return divided("." + clip.Bytes(p.name, 100))
		}
	}
	return nil
}

func textOf(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	case nil:
		return "", agent.Errorf(agent.CodeInvalid, "", "null cannot be written here")
	default:
		return "", agent.Errorf(agent.CodeInvalid, "", "a list or object cannot be nested here")
	}
}

// pathText writes a value into a path (RFC 6570 with {x}, {.x} and {;x}).
func pathText(name, style string, explode bool, v any) (string, error) {
	w, err := flatten(v)
	if err != nil {
		return "", err
	}
	prefix, between := "", ","
	switch style {
	case "simple":
	case "label":
		prefix = "."
		if explode {
			between = "."
			if err := w.rejectDivider(between); err != nil { // the other dividers are escaped in a value, and only there
				return "", err
			}
		}
	case "matrix":
		prefix = ";" + escape(name, false)
		if explode {
			between = ";"
		}
	default:
		return "", unknownStyleError(style, "path")
	}
	var parts []string
	switch {
	case w.kind == isText && style == "matrix" && w.text == "":
		return prefix, nil
	case w.kind == isText && style == "matrix":
		return prefix + "=" + escape(w.text, false), nil
	case w.kind == isText:
		return prefix + escape(w.text, false), nil
	case w.kind == isList && style == "matrix" && explode:
		for _, text := range w.list {
			parts = append(parts, escape(name, false)+"="+escape(text, false))
		}
		prefix = ";"
	case w.kind == isList:
		for _, text := range w.list {
			parts = append(parts, escape(text, false))
		}
	case explode:
		for _, p := range w.pairs {
			parts = append(parts, escape(p.name, false)+"="+escape(p.value, false))
		}
		if style == "matrix" {
			prefix = ";"
		}
	default:
		for _, p := range w.pairs {
			parts = append(parts, escape(p.name, false), escape(p.value, false))
		}
	}
	if style == "matrix" && prefix != ";" {
		prefix += "="
	}
	if len(parts) == 0 {
		return "", nil
	}
	return prefix + strings.Join(parts, between), nil
}

// queryText writes a value into a query or form: name=value&name=value, escaped.
func queryText(name, style string, explode, reserved bool, v any) (string, error) {
	if style == "deepObject" {
		pairs, err := deepPairs(name, v)
		return joinPairs(pairs, reserved), err
	}
	between, ok := map[string]string{"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}[style]
	if !ok {
		return "", unknownStyleError(style, "query")
	}
	w, err := flatten(v)
	if err != nil {
		return "", err
	}
	key := escape(name, false) + "="
	switch {
	case w.kind == isText:
		return key + escape(w.text, reserved), nil
	case w.kind == isList && explode:
		pairs := make([]pair, len(w.list))
		for i, text := range w.list {
			pairs[i] = pair{name, text}
		}
		return joinPairs(pairs, reserved), nil
	case w.kind == isObject && explode:
		return joinPairs(w.pairs, reserved), nil
	}
	if between != "," || reserved { // a dividing comma is not escaped, and one in a value is
		if err := w.rejectDivider(between); err != nil {
			return "", err
		}
	}
	if between != "," {
		between = escape(between, false)
	}
	var parts []string
	for _, text := range w.list {
		parts = append(parts, escape(text, reserved))
	}
	for _, p := range w.pairs {
		parts = append(parts, escape(p.name, reserved), escape(p.value, reserved))
	}
	return key + strings.Join(parts, between), nil
}

// deepPairs writes name[member][0]=value, which servers understand that take nested values in a query. OpenAPI defines only one level of an
// object.
func deepPairs(name string, v any) ([]pair, error) {
	var all []pair
	add := func(key string, value any) error {
		if value == nil {
			return nil
		}
		pairs, err := deepPairs(name+"["+key+"]", value)
		all = append(all, pairs...)
		return err
	}
	switch v := v.(type) {
	case map[string]any:
		return deepPairs(name, orderedObject{v, sortedKeys(v)})
	case orderedObject:
		for _, key := range v.names {
			if err := add(key, v.members[key]); err != nil {
				return nil, err
			}
		}
		return all, nil
	case []any:
		for i, element := range v {
			if err := add(strconv.Itoa(i), element); err != nil {
				return nil, err
			}
		}
		return all, nil
	default:
		text, err := textOf(v)
		return []pair{{name, text}}, err
	}
}

func joinPairs(pairs []pair, reserved bool) string {
	parts := make([]string, len(pairs))
	for i, p := range pairs {
		parts[i] = escape(p.name, false) + "=" + escape(p.value, reserved)
	}
	return strings.Join(parts, "&")
}

// headerText writes a value into a header: it is not escaped.
func headerText(explode bool, v any) (string, error) {
	w, err := flatten(v)
	if err != nil {
		return "", err
	}
	switch w.kind {
	case isText:
		return w.text, nil
	case isList:
		return strings.Join(w.list, ","), w.rejectDivider(",")
	default:
		if err := w.rejectDivider(","); err != nil {
			return "", err
		}
		parts := make([]string, 0, len(w.pairs))
		for _, p := range w.pairs {
			if explode {
				parts = append(parts, p.name+"="+p.value)
			} else {
				parts = append(parts, p.name, p.value)
			}
		}
		return strings.Join(parts, ","), nil
	}
}

// cookieText writes a value into a Cookie header: name=value; name=value, escaped.
func cookieText(name string, explode bool, v any) (string, error) {
	text, err := queryText(name, "form", explode, false, v)
	return strings.ReplaceAll(text, "&", "; "), err
}

func unknownStyleError(style, in string) error {
	return agent.Errorf(agent.CodeInvalid, "", "the document wants the style %q in the %s, which there is not", clip.Bytes(style, 40), in)
}

// escape writes all but unreserved characters as %XX. reserved keeps the characters that RFC 3986 reserves, except those that would end a
// value: a value must not become two.
func escape(s string, reserved bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 ||
			reserved && strings.IndexByte(":/?@!$'()*,;=", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}
