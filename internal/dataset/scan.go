package dataset

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Everything here takes JSON that jsontext has found well-formed: no slice ends within a value.

// longInteger is the most bytes of a number without exponent that surely fits into a float64.
const longInteger = 308

// findUnreadable returns the offset of a number beyond float64 or of a bracket too deep, which jsontext accepts, and what is wrong. what
// is empty for a value that can be read.
func findUnreadable(v []byte) (at int, what string) {
	depth := 0
	for i := 0; i < len(v); i++ {
		switch c := v[i]; c {
		case '"':
			end, _ := skipString(v, i)
			i = end - 1
		case '{', '[':
			if depth++; depth > MaxDepth {
				return i, "is nested deeper than " + strconv.Itoa(MaxDepth)
			}
		case '}', ']':
			depth--
		case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			start, exponent := i, false
			for i++; i < len(v) && isNumberByte(v[i]); i++ {
				exponent = exponent || v[i]|0x20 == 'e'
			}
			if (exponent || i-start > longInteger) && overflowsFloat(string(v[start:i])) {
				return start, "the number " + clip.Bytes(string(v[start:i]), maxQuoted) + " is beyond what a 64-bit float holds"
			}
			i--
		}
	}
	return 0, ""
}

func isNumberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == '-' || c == '+' || c|0x20 == 'e'
}

// appendCompact appends v without the white space between its tokens.
func appendCompact(dst, v []byte) []byte {
	start := 0
	for i := 0; i < len(v); i++ {
		switch {
		case v[i] == '"':
			end, _ := skipString(v, i)
			i = end - 1
		case isSpace(v[i]):
			dst = append(dst, v[start:i]...)
			start = i + 1
		}
	}
	return append(dst, v[start:]...)
}

// pointerAt returns the JSON pointer of what is at an offset of a value.
func pointerAt(v []byte, at int) string {
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	for dec.InputOffset() <= int64(at) {
		if _, err := dec.ReadToken(); err != nil {
			break
		}
	}
	return string(dec.StackPointer())
}

// fieldPath returns a JSON pointer behind a prefix: fieldPath("row 12", "/price/0") is "row 12.price[0]".
func fieldPath(prefix, pointer string) string {
	const maxBytes = 150
	b := strings.Builder{}
	b.WriteString(prefix)
	for token := range jsontext.Pointer("/" + strings.TrimPrefix(pointer, "/")).Tokens() {
		switch _, err := strconv.Atoi(token); {
		case token == "":
			continue
		case b.Len() > maxBytes:
			return b.String() + "…"
		case err == nil && b.Len() > 0:
			b.WriteString("[" + token + "]")
			continue
		case b.Len() > 0:
			b.WriteByte('.')
		}
		b.WriteString(clip.Bytes(token, maxQuoted))
	}
	return b.String()
}

// syntaxError returns the error of a value that jsontext refused. where turns a JSON pointer into the error's field. Errors of the reader
// are returned as they are.
func syntaxError(err error, where func(pointer string) string) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		field := where(string(syntax.JSONPointer))
		switch {
		case errors.Is(err, jsontext.ErrDuplicateName):
			return agent.Invalid(field, "is given twice in one object")
		case errors.Is(err, io.ErrUnexpectedEOF):
			return agent.Invalid(field, "is malformed JSON: it ends too early, at byte %d", syntax.ByteOffset)
		}
		return agent.Invalid(field, "is malformed JSON at byte %d: %s", syntax.ByteOffset, clip.Bytes(syntax.Err.Error(), maxQuoted))
	}
	if errors.Is(err, io.EOF) {
		return agent.Invalid(where(""), "is malformed JSON: it ends too early")
	}
	return err
}
