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

// pair is an unescaped name and value of a query, form or cookie.
type pair struct{ name, value string }

// flatValue is a value that styles can write: a text, a list of texts, or an object of texts.
type flatValue struct {
	text  string
	list  []string
	pairs []pair
	kind  flatKind
}

type flatKind int

const (
	flatText flatKind = iota
	flatList
	flatObject
)

// serialization returns the style and explode of a parameter or a form's property. in is the location of the parameter. Missing values have the
// defaults of OpenAPI.
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

// orderedObject is an object and the names of its members in the order in which they are written.
type orderedObject struct {
	members map[string]any
	names   []string
}

// MemberOrder returns, for each member of a JSON object that is an object, the names of its members in the order of the text.
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

// namesIn reads an object and returns the names of its members.
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

// flatten converts a value. It fails for values that are nested deeper, which only the style deepObject can write.
func flatten(v any) (flatValue, error) {
	switch v := v.(type) {
	case []any:
		w := flatValue{kind: flatList, list: make([]string, 0, len(v))}
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
		w := flatValue{kind: flatObject}
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

// rejectDivider returns an error if a text contains the divider of values, which a server would read as several values.
func (w *flatValue) rejectDivider(divider string) error {
	const format = "holds %q, which divides the values here: it would be read as several"
	for i, text := range w.list {
		if strings.Contains(text, divider) {
			return agent.Invalid("["+strconv.Itoa(i)+"]", format, divider)
		}
	}
	for _, p := range w.pairs {
		if strings.Contains(p.name, divider) || strings.Contains(p.value, divider) {
			return agent.Invalid("."+clip.Bytes(p.name, 100), format, divider)
		}
	}
	return nil
}

// textOf returns a string, number or boolean as text.
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

// parts returns the escaped texts of a value. For an object these are name=value if explode is true, otherwise names and values in turn.
func (w *flatValue) parts(explode bool, escape func(string) string) []string {
	if w.kind == flatText {
		return []string{escape(w.text)}
	}
	var out []string
	for _, text := range w.list {
		out = append(out, escape(text))
	}
	for _, p := range w.pairs {
		if explode {
			out = append(out, escape(p.name)+"="+escape(p.value))
		} else {
			out = append(out, escape(p.name), escape(p.value))
		}
	}
	return out
}

// pathText returns the escaped text of a path parameter (RFC 6570: {x}, {.x} and {;x}).
func pathText(name, style string, explode bool, v any) (string, error) {
	w, err := flatten(v)
	if err != nil {
		return "", err
	}
	parts := w.parts(explode, escapeReserved)
	switch {
	case style == "simple":
		return strings.Join(parts, ","), nil
	case style == "label" && len(parts) == 0:
		return "", nil
	case style == "label" && explode:
		return "." + strings.Join(parts, "."), w.rejectDivider(".") // unlike other dividers, a dot in a value is not escaped
	case style == "label":
		return "." + strings.Join(parts, ","), nil
	case style == "matrix":
		return matrixText(escapeReserved(name), explode, &w, parts), nil
	default:
		return "", unknownStyleError(style, "path")
	}
}

// matrixText returns the text of a path parameter with the style matrix: ;name=value;name=value.
func matrixText(name string, explode bool, w *flatValue, parts []string) string {
	switch {
	case w.kind == flatText && w.text == "":
		return ";" + name
	case len(parts) == 0:
		return ""
	case !explode || w.kind == flatText:
		return ";" + name + "=" + strings.Join(parts, ",")
	case w.kind == flatList:
		return ";" + name + "=" + strings.Join(parts, ";"+name+"=")
	default:
		return ";" + strings.Join(parts, ";")
	}
}

// queryText returns the escaped text of a parameter in a query or form: name=value&name=value.
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
	switch {
	case w.kind == flatList && explode:
		pairs := make([]pair, len(w.list))
		for i, text := range w.list {
			pairs[i] = pair{name, text}
		}
		return joinPairs(pairs, reserved), nil
	case w.kind == flatObject && explode:
		return joinPairs(w.pairs, reserved), nil
	}
	if between != "," || reserved { // otherwise commas in values are escaped
		if err := w.rejectDivider(between); err != nil {
			return "", err
		}
	}
	if between != "," {
		between = escapeReserved(between)
	}
	parts := w.parts(false, func(text string) string { return escape(text, reserved) })
	return escapeReserved(name) + "=" + strings.Join(parts, between), nil
}

// deepPairs returns pairs such as name[member][0]=value for a nested value. OpenAPI defines only one level, but servers support more.
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
		parts[i] = escapeReserved(p.name) + "=" + escape(p.value, reserved)
	}
	return strings.Join(parts, "&")
}

// headerText returns the text of a header parameter, which is not escaped.
func headerText(explode bool, v any) (string, error) {
	w, err := flatten(v)
	if err == nil {
		err = w.rejectDivider(",")
	}
	return strings.Join(w.parts(explode, func(text string) string { return text }), ","), err
}

// cookieText returns the escaped text of a cookie parameter: name=value; name=value.
func cookieText(name string, explode bool, v any) (string, error) {
	text, err := queryText(name, "form", explode, false, v)
	return strings.ReplaceAll(text, "&", "; "), err
}

func unknownStyleError(style, in string) error {
	return agent.Errorf(agent.CodeInvalid, "", "the document wants the style %q in the %s, which there is not", clip.Bytes(style, 40), in)
}

// escapeReserved escapes all but unreserved characters of RFC 3986 as %XX.
func escapeReserved(s string) string { return escape(s, false) }

// escape escapes all but unreserved characters as %XX. If reserved is true, it keeps reserved characters of RFC 3986, except those that would end the
// value.
func escape(s string, reserved bool) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if isUnreserved(c) || (reserved && strings.IndexByte(":/?@!$'()*,;=", c) >= 0) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
	}
	return b.String()
}

// isUnreserved reports whether RFC 3986 calls a character unreserved.
func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}
