// Package clip shortens texts that others wrote before an error, a log entry or a result repeats them. No character is cut in two.
package clip

import (
	"strings"
	"unicode/utf8"
)

// mark stands where a text was cut.
const mark = "…"

// Bytes returns s if it has at most n bytes, else as much of it as fits into n bytes, and a mark behind that.
func Bytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Prefix(s, n) + mark
}

// Prefix returns as much of s as fits into n bytes.
func Prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// Runes returns s if it has at most n characters, else its first n-1 characters and a mark.
func Runes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + mark
}
