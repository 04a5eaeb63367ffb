package pii

import (
	"unicode"
	"unicode/utf8"
)

// matchCard finds a card number at text[i:]: four groups of four digits, as LangChain does, or American Express's 4, 6 and 5 with its
// prefixes 34 and 37; a space, a hyphen or nothing between groups; a right Luhn checksum; no word goes on after it.
func matchCard(text string, i int) (end int, ok, cut bool) {
	for _, groups := range [][]int{{4, 4, 4, 4}, {4, 6, 5}} {
		e, whole := matchGroups(text, i, groups)
		cut = cut || e == len(text)
		if !whole || at(text, e, isWord) || !luhn(text[i:e]) {
			continue
		}
		if len(groups) == 3 && (text[i] != '3' || text[i+1] != '4' && text[i+1] != '7') {
			continue
		}
		end, ok = e, true
	}
	return end, ok, cut
}

// matchGroups returns where it stopped, and whether all groups were there.
func matchGroups(text string, i int, groups []int) (end int, whole bool) {
	for g, n := range groups {
		if g > 0 {
			i += separator(text[i:])
		}
		for range n {
			if !at(text, i, isDigit) {
				return i, false
			}
			i++
		}
	}
	return i, true
}

// separator is the width of a separator of groups at the beginning of text, 0 when there is none.
func separator(text string) int {
	c, w := utf8.DecodeRuneInString(text)
	if c == '-' || '\u2010' <= c && c <= '\u2013' || unicode.IsSpace(c) {
		return w
	}
	return 0
}

// luhn checks the checksum of the digits in s.
func luhn(s string) bool {
	sum, double := 0, false
	for i := len(s) - 1; i >= 0; i-- {
		if !isDigit(s[i]) {
			continue
		}
		d := int(s[i] - '0')
		if double {
			d *= 2
			d = d/10 + d%10
		}
		sum += d
		double = !double
	}
	return sum%10 == 0
}
