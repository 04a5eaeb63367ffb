package telegram

import (
	"strings"
	"unicode"
)

// units returns the length of a text as Telegram counts it.
func units(text string) int {
	n := 0
	for _, r := range text {
		n += unitsOf(r)
	}
	return n
}

func unitsOf(r rune) int {
	if r >= 0x10000 {
		return 2
	}
	return 1
}

// sanitize returns valid text with Unix line ends and without control characters.
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
		if n += unitsOf(r); n >= maxUnits {
			return text[:i] + "…"
		}
	}
	return text
}
