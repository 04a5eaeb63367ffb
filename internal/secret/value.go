package secret

import (
	"fmt"
	"strconv"
)

// Redacted replaces a secret in everything that a person or a log can read.
const Redacted = "[redacted]"

// Value is a secret that only [Value.Reveal] shows. Printed, logged or encoded it is "[redacted]", or empty if it is empty.
type Value string

// Reveal returns the secret itself.
func (v Value) Reveal() string { return string(v) }

// String returns "[redacted]", or "" for an empty secret.
func (v Value) String() string {
	if v == "" {
		return ""
	}
	return Redacted
}

// GoString returns String in quotes, for %#v.
func (v Value) GoString() string { return strconv.Quote(v.String()) }

// Format keeps every verb from showing the secret; %x of a string type would.
func (v Value) Format(f fmt.State, verb rune) {
	text := v.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		text = v.GoString()
	}
	_, _ = f.Write([]byte(text)) // fmt writes to memory, which cannot fail
}

// MarshalText returns String, for JSON, YAML and slog's text form.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// MarshalYAML returns String.
func (v Value) MarshalYAML() (any, error) { return v.String(), nil }
