package postgres

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// encode returns v as text for a json column. It replaces invalid UTF-8, which a raw value may contain and PostgreSQL refuses.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, &agent.Error{Code: agent.CodeInvalid, Op: "encode JSON", Err: err}
	}
	return bytes.ToValidUTF8(b, []byte("\ufffd")), nil
}

// decode decodes a json column. It takes less than half the time of encoding/json.
func decode(column []byte, v any) error {
	return jsonv2.Unmarshal(column, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// encodeRaw is [encode] for a raw value. An empty value becomes NULL.
func encodeRaw(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return encode(raw)
}

// rawColumn returns a raw value for a json column and keeps its white space. It replaces invalid UTF-8. An empty value becomes NULL. The database
// refuses a value that is not JSON with [agent.CodeInvalid].
func rawColumn(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	return bytes.ToValidUTF8(raw, []byte("\ufffd"))
}

// encodeOptional is [encode] for a pointer. nil becomes NULL.
func encodeOptional[T any](v *T) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return encode(v)
}

// encodeJSONB returns v as text for a jsonb column. nil becomes NULL. It replaces what jsonb cannot hold, because a turn whose result could not be
// stored would never end.
func encodeJSONB(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok && len(raw) == 0 {
		return nil, nil
	}
	b, err := encode(v)
	if err != nil || bytes.Equal(b, []byte("null")) {
		return nil, err
	}
	return replaceUnstorable(b)
}

// columnEncoder encodes values for several columns, and keeps the first error.
type columnEncoder struct{ err error }

func (e *columnEncoder) json(v any) []byte            { return e.keep(encode(v)) }
func (e *columnEncoder) jsonb(v any) []byte           { return e.keep(encodeJSONB(v)) }
func (e *columnEncoder) raw(v json.RawMessage) []byte { return e.keep(encodeRaw(v)) }

func (e *columnEncoder) keep(column []byte, err error) []byte {
	if e.err == nil {
		e.err = err
	}
	return column
}

// cleanText removes NUL, which a text column cannot hold, and replaces invalid UTF-8.
func cleanText(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd")
}

// maxExponent bounds the exponents and digits of numbers. It is far more than float64 has and far less than numeric can hold, which stores every
// digit.
const maxExponent = 1000

// maxPlainNumber is the length up to which numeric holds every number without an exponent.
const maxPlainNumber = 64

// mayBeUnstorable reports whether jsonb may refuse valid JSON: a string has the escape of NUL or of a surrogate, or a number is long or has
// an exponent.
func mayBeUnstorable(b []byte) bool {
	inString, number := false, 0 // number is the length of the number that ends before i
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
			if b[i] == 'u' && (bytes.HasPrefix(b[i+1:], []byte("0000")) || b[i+1]|' ' == 'd') {
				return true
			}
		case c == '"':
			inString, number = !inString, 0
		case inString:
		case '0' <= c && c <= '9', c == '-', c == '.':
			if number++; number >= maxPlainNumber {
				return true
			}
		case number > 0 && (c == 'e' || c == 'E'):
			return true
		default:
			number = 0
		}
	}
	return false
}

// replaceUnstorable returns valid JSON with U+FFFD in place of NUL and of lone surrogates, and null in place of numbers that are out of bounds.
func replaceUnstorable(b []byte) ([]byte, error) {
	if !mayBeUnstorable(b) {
		return b, nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return encode(jsonbValue(v))
}

// jsonbValue returns a decoded JSON value without what jsonb cannot hold. The decoder has already replaced lone surrogates.
func jsonbValue(v any) any {
	switch v := v.(type) {
	case string:
		return strings.ReplaceAll(v, "\x00", "\ufffd")
	case json.Number:
		if !isNumeric(v.String()) {
			return nil
		}
	case []any:
		for i := range v {
			v[i] = jsonbValue(v[i])
		}
	case map[string]any:
		members := make(map[string]any, len(v))
		for key, member := range v {
			members[strings.ReplaceAll(key, "\x00", "\ufffd")] = jsonbValue(member)
		}
		return members
	}
	return v
}

func isNumeric(number string) bool {
	digits, exponent, found := strings.Cut(strings.ToLower(number), "e")
	if len(digits) > maxExponent {
		return false
	}
	n, err := strconv.Atoi(exponent)
	return !found || err == nil && -maxExponent <= n && n <= maxExponent
}
