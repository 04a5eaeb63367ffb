package cmdline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// The longest arguments that are shown on one line, and that are shown at all, in characters.
const (
	shortArgs = 400
	longArgs  = 16_000
)

// formatArgs returns arguments in full, as far as possible, because a person decides by them.
func formatArgs(args json.RawMessage) string {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return OneLine(Visible(string(args)), longArgs)
	}
	var formatted bytes.Buffer
	encoder := json.NewEncoder(&formatted)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(v) // it was JSON
	if text := OneLine(Visible(formatted.String()), longArgs); len(text) <= shortArgs {
		return text
	}
	formatted.Reset()
	encoder.SetIndent("  ", "  ")
	_ = encoder.Encode(v) // as above
	text := []rune(Visible(strings.TrimSpace(formatted.String())))
	if more := len(text) - longArgs; more > 0 {
		return string(text[:longArgs]) + fmt.Sprintf("… and %d more characters", more)
	}
	return string(text)
}

// OneLine returns text on one line of at most maxRunes characters.
func OneLine(text string, maxRunes int) string {
	text = strings.TrimRight(strings.Join(strings.Fields(text), " "), " ")
	if r := []rune(text); len(r) > maxRunes {
		return string(r[:maxRunes]) + "…"
	}
	return text
}

// Visible escapes invisible characters and those that change the direction of text, in JSON's form. A person then reads what will run: without
// it, U+202E shows an account number backwards, and a zero-width space hides a second host in a name.
func Visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		if !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Variation_Selector) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// Printable replaces the control characters of a text, so that a model, a tool or a document cannot control the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || !unicode.IsControl(r):
			return r
		case r == '\r':
			return -1
		default:
			return '\uFFFD'
		}
	}, text)
}
