package pii

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// cardForm is a grouping of the digits of a card number, with the prefixes of such numbers.
type cardForm struct {
	groups   []int
	prefixes []string // none: any
}

// cardForms returns the form of most cards, which is LangChain's, and the shorter ones of American Express, JCB and Diners Club. Their
// prefixes exclude other long numbers.
func cardForms() [5]cardForm {
	fifteen := []string{"34", "37", "1800", "2131"}
	fourteen := []string{"300", "301", "302", "303", "304", "305", "309", "36", "38", "39"}
	return [...]cardForm{
		{[]int{4, 4, 4, 4}, nil}, {[]int{4, 6, 5}, fifteen}, {[]int{4, 4, 4, 3}, fifteen}, {[]int{4, 6, 4}, fourteen}, {[]int{4, 4, 4, 2}, fourteen},
	}
}

// matchCard finds a card number at text[i:]: the groups of one form, a space, a hyphen or nothing between them, a right Luhn checksum, and
// no word behind it.
func matchCard(text string, i int) (end int, ok, cut bool) {
	for _, form := range cardForms() {
		e, whole := matchGroups(text, i, form.groups)
		cut = cut || e == len(text)
		if whole && !isClassAt(text, e, isWord) && form.begins(text[i:]) && luhn(text[i:e]) {
			end, ok = max(end, e), true
		}
	}
	return end, ok, cut
}

// begins reports whether a number may be of the form by its first digits, which stand in one group.
func (f *cardForm) begins(number string) bool {
	return f.prefixes == nil || slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(number, p) })
}

// matchGroups returns where the match stopped, and whether all groups were found.
func matchGroups(text string, i int, groups []int) (end int, whole bool) {
	for g, n := range groups {
		if g > 0 {
			i += separator(text[i:])
		}
		for range n {
			if !isClassAt(text, i, isDigit) {
				return i, false
			}
			i++
		}
	}
	return i, true
}

// separator returns the width of a group separator at the beginning of text, 0 without one.
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
