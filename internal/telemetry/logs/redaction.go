package logs

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/redact"
)

// redaction redacts the fields of one entry.
type redaction struct {
	settings

	values, bytes int // values and bytes of text that may still be written
}

// addFields adds the members of a JSON object with redacted values.
func (r *redaction) addFields(to zapcore.ObjectEncoder, fields jsontext.Value) error {
	n := 0
	var text []byte
	err := r.eachMember(fields, func(name string, value jsontext.Value) (err error) {
		if n++; n > maxFields {
			return nil
		}
		if text, err = r.appendValue(text[:0], name, value, 0); err != nil {
			return err
		}
		return to.AddReflected(r.redactor.Text(name), jsontext.Value(text))
	})
	if n > maxFields {
		to.AddInt("fields_cut", n-maxFields)
	}
	return err
}

// appendValue appends a value, redacted.
func (r *redaction) appendValue(to []byte, name string, value jsontext.Value, depth int) ([]byte, error) {
	if r.isSecret(name, value) {
		return appendText(to, redact.Placeholder), nil
	}
	switch value.Kind() {
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil && text == nil {
			return nil, err
		}
		return appendText(to, r.text(string(text))), nil
	case '{', '[':
		return r.appendNested(to, value, depth)
	default:
		return append(to, value...), nil
	}
}

// appendText appends a text as JSON. Invalid UTF-8 becomes the replacement character.
func appendText(to []byte, text string) []byte {
	to, _ = jsontext.AppendQuote(to, text) // the error is about invalid UTF-8
	return to
}

// isSecret reports whether a value is secret because of its name or its digits.
func (r *redaction) isSecret(name string, value jsontext.Value) bool {
	secrecy := redact.NameSecrecy(name)
	switch value.Kind() {
	case 't', 'f':
		return secrecy == redact.Secret
	case '0':
		number, err := strconv.ParseFloat(string(value), 64)
		isSuspicious := err == nil && r.redactor.IsSuspiciousNumber(number)
		return secrecy == redact.Secret || isSuspicious && r.redactor.Contains(string(value))
	case '[':
		return secrecy != redact.Public || r.spellsSecret(value)
	default:
		return secrecy != redact.Public
	}
}

// text returns a redacted text, or a note if the entry is full.
func (r *redaction) text(s string) string {
	switch {
	case r.bytes == 0: // it becomes a note
	case r.isEncodedSecret(s):
		s = redact.Placeholder
	default:
		s = r.redactor.Text(s)
	}
	if len(s) > r.bytes {
		r.bytes = 0
		return fmt.Sprintf("[cut: %d bytes]", len(s))
	}
	r.bytes -= len(s)
	return s
}

// isEncodedSecret reports whether a text is a secret in base64, which is the JSON form of bytes.
func (r *redaction) isEncodedSecret(text string) bool {
	encoded := text[:min(len(text), 2*redact.MaxText)/4*4] // whole groups of base64
	decoded, err := base64.StdEncoding.DecodeString(encoded)
	return err == nil && r.redactor.Contains(string(decoded))
}

// spellsSecret reports whether an array of numbers is a secret, with a byte or a character in each number.
func (r *redaction) spellsSecret(array jsontext.Value) bool {
	var asBytes, asRunes []byte
	for number := range strings.SplitSeq(strings.Trim(string(array), "[]"), ",") {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return false
		}
		asBytes, asRunes = append(asBytes, byte(n)), utf8.AppendRune(asRunes, rune(n)) //nolint:gosec // a secret has no larger numbers
		if len(asBytes) == redact.MaxText {
			break
		}
	}
	return r.redactor.Contains(string(asBytes)) || r.redactor.Contains(string(asRunes))
}

// appendNested appends an object or array with redacted members.
func (r *redaction) appendNested(to []byte, value jsontext.Value, depth int) ([]byte, error) {
	if depth == maxDepth {
		return appendText(to, noteTooDeep), nil
	}
	colon, comma := ":", ","
	if r.isConsole {
		colon, comma = ": ", ", "
	}
	to = append(to, value[0])
	separator := ""
	err := r.eachMember(value, func(name string, member jsontext.Value) (err error) {
		r.values--
		switch {
		case r.values < -1:
			return nil
		case r.values == -1:
			name, member = "cut", appendText(nil, noteTooMany)
		}
		to, separator = append(to, separator...), comma
		if value[0] == '{' {
			to = append(appendText(to, r.redactor.Text(name)), colon...)
		}
		to, err = r.appendValue(to, name, member, depth+1)
		return err
	})
	return append(to, value[len(value)-1]), err
}

// eachMember calls do for each member of an object, or for each element of an array, with an empty name.
func (r *redaction) eachMember(v jsontext.Value, do func(name string, value jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		name := ""
		if v.Kind() == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if r.isBrief && strings.HasSuffix(name, "Verbose") { // the stack trace of an error, by zap
			continue
		}
		if err := do(name, value); err != nil {
			return err
		}
	}
	return nil
}
