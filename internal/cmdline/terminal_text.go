package cmdline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

const (
	maxOneLineArgs = 400    // bytes of arguments that formatArgs returns on one line
	maxArgs        = 16_000 // characters of arguments that formatArgs returns
)

// formatArgs returns the arguments of a call for a person who decides about it: on one line or, if they are longer, indented. It says how many
// characters it leaves out.
func formatArgs(args json.RawMessage) string {
	compact, ok := FormatJSON(args, "")
	if line := OneLine(Visible(compact), maxArgs); !ok || len(line) <= maxOneLineArgs {
		return line
	}
	indented, _ := FormatJSON(args, "  ")
	text := []rune(Visible(indented))
	if more := len(text) - maxArgs; more > 0 {
		return string(text[:maxArgs]) + fmt.Sprintf("… and %d more characters", more)
	}
	return string(text)
}

// FormatJSON returns JSON for people to read: with indentation, or on one line if indent is empty, and without escapes of <, > and &. If raw is not
// JSON, it returns raw and false.
func FormatJSON(raw json.RawMessage, indent string) (text string, ok bool) {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return string(raw), false
	}
	var formatted strings.Builder
	encoder := json.NewEncoder(&formatted)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(indent, indent)
	_ = encoder.Encode(v) // decoded JSON always encodes
	return strings.TrimSpace(formatted.String()), true
}

// OneLine returns text on one line of at most maxRunes characters.
func OneLine(text string, maxRunes int) string {
	text = strings.TrimRight(strings.Join(strings.Fields(text), " "), " ")
	if r := []rune(text); len(r) > maxRunes {
		return string(r[:maxRunes]) + "…"
	}
	return text
}

// Visible escapes invisible characters and those that change the direction of text, as JSON does. A person then sees what will run: U+202E could show
// an account number backwards, and a zero-width space could hide the difference between two host names.
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

// Printable replaces control characters other than line ends and tabs, so that text of a model, a tool or a document cannot control the terminal.
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
