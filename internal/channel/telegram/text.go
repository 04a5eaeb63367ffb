package telegram

import (
	"strings"
	"unicode"
	"unicode/utf16"
)

// units returns the length of a text in UTF-16 units, in which Telegram counts.
func units(text string) int {
	n := 0
	for _, r := range text {
		n += utf16.RuneLen(r)
	}
	return n
}

// sanitize returns text as valid UTF-8 with Unix line ends and without control characters.
func sanitize(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return '\n'
		case unicode.IsControl(r):
			return -1
		default:
			return r
		}
	}, text)
}

// clipUnits returns text, or its beginning with an ellipsis if text is longer than maxUnits.
func clipUnits(text string, maxUnits int) string {
	if units(text) <= maxUnits {
		return text
	}
	n := 0
	for i, r := range text {
		if n += utf16.RuneLen(r); n >= maxUnits {
			return text[:i] + "…"
		}
	}
	return text
}
