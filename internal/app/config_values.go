package app

import (
	"fmt"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
)

// redacted stands for a secret in everything that a person or a log can read.
const redacted = "[redacted]"

// Secret is a text that only [Secret.Reveal] shows: printed, logged or encoded it is "[redacted]", or empty when it is empty.
type Secret string

// Reveal is the secret itself, for the one call that needs it.
func (s Secret) Reveal() string { return string(s) }

// String is "[redacted]", or empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString is String quoted, for %#v.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// Format keeps every verb from showing the secret; %x of a string type would.
func (s Secret) Format(f fmt.State, verb rune) {
	text := s.String()
	if verb == 'q' || verb == 'v' && f.Flag('#') {
		text = s.GoString()
	}
	_, _ = f.Write([]byte(text)) // fmt collects in memory: nothing can go wrong
}

// MarshalText is String, for JSON, YAML and slog's text form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML is String.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// Size is a count of bytes, written as a plain number or with a unit: 1048576, "64KiB", "10MiB".
type Size int64

// String uses the largest binary unit that divides the size.
func (s Size) String() string {
	for _, u := range []struct {
		bytes Size
		name  string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func parseSize(text string) (Size, error) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Size(n), nil
	}
	n, err := humanize.ParseBytes(text)
	if err == nil && n > math.MaxInt64 {
		err = strconv.ErrRange
	}
	return Size(n), err //nolint:gosec // checked above; nobody uses it beside an error
}
