package research

import (
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what is kept of a field, in characters.
const (
	maxTitle    = 1000
	maxName     = 300
	maxField    = 500
	maxAbstract = 1500
	maxAuthors  = 50 // kept; shownAuthors are in answers
)

// markup is the inline and block markup that titles and abstracts carry: HTML, and the JATS that preprint servers pass on. Only elements
// that are known go: "p<q" is no element.
var (
	headingEnd = regexp.MustCompile(`(?i)\s*[:.]?\s*</(?:h[1-6]|jats:title|title)\s*>\s*`)
	blockTag   = regexp.MustCompile(`(?i)</?(?:p|br|div|li|ul|ol|sec|h[1-6]|title|abstract|jats:(?:p|sec|title|list|list-item|abstract))(?:\s[^<>]{0,200})?/?>`)
	inlineTag  = regexp.MustCompile(`(?i)</?(?:[abiu]|em|strong|su[bp]|span|tt|small|mark|scp|inf|italic|bold|(?:jats|mml):[a-z-]{1,30})(?:\s[^<>]{0,200})?/?>`)
)

// plainText returns the text of a title or an abstract without markup and character references.
func plainText(s string) string {
	if strings.ContainsRune(s, '<') {
		s = stripTags(s)
	}
	if strings.ContainsRune(s, '&') {
		s = html.UnescapeString(s)
		if strings.ContainsRune(s, '<') { // &lt;i&gt;, as some catalogues have it
			s = stripTags(s)
		}
	}
	return tidy(s)
}

func stripTags(s string) string {
	s = headingEnd.ReplaceAllString(s, ": ")
	s = blockTag.ReplaceAllString(s, " ")
	return inlineTag.ReplaceAllString(s, "")
}

// tidy returns text on one line: valid UTF-8, single spaces, no control characters.
func tidy(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsControl(r), r == '\uFEFF', r == '\u200B':
			return -1
		default:
			return r
		}
	}, s)
	return strings.Join(strings.Fields(s), " ")
}

// clip cuts text to limit characters, at the end of a word if one is near, and appends an ellipsis.
func clip(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	cut := string([]rune(s)[:limit])
	if at := strings.LastIndexByte(cut, ' '); at > len(cut)*3/4 {
		cut = cut[:at]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}

// field returns a short text of a source.
func field(s string) string { return clip(plainText(s), maxField) }

// titleOf returns a title without the full stop at its end.
func titleOf(s string) string {
	s = plainText(s)
	if strings.HasSuffix(s, ".") && !strings.HasSuffix(s, "..") {
		s = s[:len(s)-1]
	}
	return clip(s, maxTitle)
}

// date is a day, a month or a year. Unknown parts are 0.
type date struct{ year, month, day int }

// text returns the date in ISO 8601: 2024, 2024-05 or 2024-05-17.
func (d date) text() string {
	switch {
	case d.year == 0:
		return ""
	case d.month == 0:
		return fmt.Sprintf("%04d", d.year)
	case d.day == 0:
		return fmt.Sprintf("%04d-%02d", d.year, d.month)
	default:
		return fmt.Sprintf("%04d-%02d-%02d", d.year, d.month, d.day)
	}
}

// exists reports whether the year is given and the day, if given, exists.
func (d date) exists() bool {
	return d.year != 0 && (d.day == 0 || d.day <= lastDay(d.year, d.month))
}

var yearPattern = regexp.MustCompile(`\b(1[5-9]|20|21)\d\d\b`)

// dateOf returns the date of its parts. A month may be a number or an English name. A part that cannot be read is 0, and so are the finer
// ones.
func dateOf(year, month, day string) date {
	y := yearPattern.FindString(year)
	if y == "" {
		return date{}
	}
	d := date{year: atoi(y)}
	if d.month = monthOf(month); d.month == 0 {
		return d
	}
	if n := atoi(day); n >= 1 && n <= 31 {
		d.day = n
	}
	return d
}

// isoDate reads 2024, 2024-05 or 2024-05-17, with or without a time behind it.
func isoDate(s string) date {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "T")
	parts := strings.SplitN(s, "-", 3)
	parts = append(parts, "", "")
	return dateOf(parts[0], parts[1], parts[2])
}

func monthOf(s string) int {
	s = strings.ToLower(strings.TrimSpace(s))
	if n := atoi(s); n >= 1 && n <= 12 {
		return n
	}
	if len(s) < 3 {
		return 0
	}
	const months = "janfebmaraprmayjunjulaugsepoctnovdec"
	if at := strings.Index(months, s[:3]); at >= 0 && at%3 == 0 {
		return at/3 + 1
	}
	return 0
}

// atoi returns 0 for text that is no number.
func atoi(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 0
	}
	return n
}

// lastDay returns the number of days of a month.
func lastDay(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
