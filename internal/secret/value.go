package secret

import (
	"fmt"
	"strconv"
)

// Redacted stands for a secret in everything that a person or a log can read.
const Redacted = "[redacted]"

// Value is a secret that only [Value.Reveal] shows: printed, logged or encoded it is "[redacted]", or empty when it is empty.
type Value string

// Reveal is the secret itself, for the one call that needs it.
func (v Value) Reveal() string { return string(v) }

// String is "[redacted]", or empty.
func (v Value) String() string {
	if v == "" {
		return ""
	}
	return Redacted
}

// GoString is String quoted, for %#v.
func (v Value) GoString() string { return strconv.Quote(v.String()) }

// Format keeps every verb from showing the secret; %x of a string type would.
func (v Value) Format(f fmt.State, verb rune) {
	text := v.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		text = v.GoString()
	}
	_, _ = f.Write([]byte(text)) // fmt collects in memory: nothing can go wrong
}

// MarshalText is String, for JSON, YAML and slog's text form.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// MarshalYAML is String.
func (v Value) MarshalYAML() (any, error) { return v.String(), nil }
