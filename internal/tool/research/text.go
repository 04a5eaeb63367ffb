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

// The bounds of fields, in characters.
const (
	maxTitle    = 1000
	maxName     = 300
	maxField    = 500
	maxAbstract = 1500
)

// maxAuthors is the maximum number of authors that are stored. Answers show shownAuthors of them.
const maxAuthors = 50

// The markup in titles and abstracts: HTML, and the JATS of preprint servers. Only known elements are removed, because "p<q" is text.
var (
	headingEnd = regexp.MustCompile(`(?i)\s*[:.]?\s*</(?:h[1-6]|jats:title|title)\s*>\s*`)
	blockTag   = regexp.MustCompile(`(?i)</?(?:p|br|div|li|ul|ol|sec|h[1-6]|title|abstract|jats:(?:p|sec|title|list|list-item|abstract))(?:\s[^<>]{0,200})?/?>`)
	inlineTag  = regexp.MustCompile(`(?i)</?(?:[abiu]|em|strong|su[bp]|span|tt|small|mark|scp|inf|italic|bold|(?:jats|mml):[a-z-]{1,30})(?:\s[^<>]{0,200})?/?>`)
)

// plainText returns a title or an abstract without markup and character references.
func plainText(s string) string {
	if strings.ContainsRune(s, '<') {
		s = stripTags(s)
	}
	if strings.ContainsRune(s, '&') {
		s = html.UnescapeString(s)
		if strings.ContainsRune(s, '<') { // some catalogues escape markup: &lt;i&gt;
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

// clip shortens a text to limit characters, if possible at the end of a word, and appends an ellipsis.
func clip(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	cut := string([]rune(s)[:limit])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)*3/4 {
		cut = cut[:i]
	}
	return strings.TrimRight(cut, " ,;:") + "…"
}

// field returns the plain text of a short field.
func field(s string) string { return clip(plainText(s), maxField) }

// personName returns the plain text of a name.
func personName(s string) string { return clip(plainText(s), maxName) }

// titleOf returns the plain text of a title without the full stop at its end.
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

// exists reports whether the year is known and the day, if known, exists.
func (d date) exists() bool {
	return d.year != 0 && (d.day == 0 || d.day <= daysIn(d.year, d.month))
}

var yearPattern = regexp.MustCompile(`\b(1[5-9]|20|21)\d\d\b`)

// parseDate returns a date from its parts. The month may be a number or an English name. If a part cannot be parsed, it is 0, and so are the
// parts after it.
func parseDate(year, month, day string) date {
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

// isoDate parses 2024, 2024-05 or 2024-05-17, which a time may follow.
func isoDate(s string) date {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "T")
	parts := strings.SplitN(s, "-", 3)
	parts = append(parts, "", "")
	return parseDate(parts[0], parts[1], parts[2])
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
	if i := strings.Index(months, s[:3]); i >= 0 && i%3 == 0 {
		return i/3 + 1
	}
	return 0
}

// atoi returns the number in a text, 0 if there is none.
func atoi(s string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil {
		return 0
	}
	return n
}

// daysIn returns the number of days of a month.
func daysIn(year, month int) int {
	return time.Date(year, time.Month(month)+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
