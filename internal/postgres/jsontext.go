package postgres

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// encode returns v as text for a json column: verbatim but for invalid UTF-8, which PostgreSQL refuses and a raw value may hold.
func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, &agent.Error{Code: agent.CodeInvalid, Op: "encode JSON", Err: err}
	}
	return bytes.ToValidUTF8(b, []byte("\ufffd")), nil
}

// encodeRaw is [encode] for a value that may be absent: nil becomes NULL.
func encodeRaw(raw json.RawMessage) ([]byte, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return encode(raw)
}

// verbatim is JSON text for a json column as it was given, but for invalid UTF-8; nil becomes NULL. What is no JSON the database refuses as
// [agent.CodeInvalid].
func verbatim(raw json.RawMessage) []byte {
	if len(raw) == 0 {
		return nil
	}
	return bytes.ToValidUTF8(raw, []byte("\ufffd"))
}

// encodeOptional is [encode] for a pointer: nil becomes NULL.
func encodeOptional[T any](v *T) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	return encode(v)
}

// encodeJSONB returns v as text for a jsonb column, NULL for nil, with what jsonb cannot hold replaced: see [scrub]. A result must
// always be storable, or its turn would never end.
func encodeJSONB(v any) ([]byte, error) {
	if raw, ok := v.(json.RawMessage); ok && len(raw) == 0 {
		return nil, nil
	}
	b, err := encode(v)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(b, []byte("null")) {
		return nil, nil
	}
	return scrub(b), nil
}

// plain drops NUL, the one character that a text column cannot hold, and invalid UTF-8.
func plain(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\ufffd")
}

// maxExponent is far beyond float64 and far within numeric, which would write out every digit of a larger one.
const maxExponent = 1000

// scrub replaces, in valid JSON, the escapes that jsonb refuses (\u0000 and half a surrogate pair) by \ufffd, and numbers that
// numeric cannot hold by null.
func scrub(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '"':
			n := stringLen(b[i:])
			out = scrubString(out, b[i:i+n])
			i += n
		case c == '-' || '0' <= c && c <= '9':
			n := numberLen(b[i:])
			if storable(b[i : i+n]) {
				out = append(out, b[i:i+n]...)
			} else {
				out = append(out, "null"...)
			}
			i += n
		default:
			out = append(out, c)
			i++
		}
	}
	return out
}

func stringLen(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(b)
}

func numberLen(b []byte) int {
	for i, c := range b {
		if !strings.ContainsRune("+-.0123456789eE", rune(c)) {
			return i
		}
	}
	return len(b)
}

func storable(number []byte) bool {
	digits, exponent, found := bytes.Cut(bytes.ToLower(number), []byte("e"))
	if len(digits) > maxExponent {
		return false
	}
	if !found {
		return true
	}
	n, err := strconv.Atoi(string(exponent))
	return err == nil && -maxExponent <= n && n <= maxExponent
}

func scrubString(out, s []byte) []byte {
	for len(s) > 0 {
		i := bytes.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return append(out, s...)
		}
		out = append(out, s[:i]...)
		s = s[i:]
		if s[1] != 'u' {
			out, s = append(out, s[:2]...), s[2:]
			continue
		}
		switch r := unescape(s); {
		case utf16.IsSurrogate(r) && utf16.DecodeRune(r, unescape(s[min(6, len(s)):])) != utf8.RuneError:
			out, s = append(out, s[:12]...), s[12:]
		case r <= 0 || utf16.IsSurrogate(r):
			out, s = append(out, `\ufffd`...), s[min(6, len(s)):]
		default:
			out, s = append(out, s[:6]...), s[6:]
		}
	}
	return out
}

// unescape returns the code unit of the \uXXXX that s starts with, -1 when it starts with none.
func unescape(s []byte) rune {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(s[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}
