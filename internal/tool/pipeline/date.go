package pipeline

import (
	"regexp"
	"strings"
	"time"

	"github.com/itchyny/timefmt-go"
)

// isoLayouts are tried in this order when there is no format; seconds may have a fraction in each.
func isoLayouts() []string {
	return []string{
		time.RFC3339, "2006-01-02T15:04:05", time.DateOnly, time.DateTime, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700",
		"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04Z07:00", "20060102T150405Z0700", "20060102T150405", "20060102",
	}
}

// parse reads a date; why says in words why it is none.
func (s *parseDate) parse(text string) (t time.Time, why string) {
	if s.format == "" {
		for _, layout := range isoLayouts() {
			if t, err := time.Parse(layout, text); err == nil {
				return t, ""
			}
		}
		return t, "is no ISO 8601 date: give its format, such as %d/%m/%Y"
	}
	t, err := timefmt.ParseInLocation(text, s.format, time.UTC)
	switch {
	case err != nil:
		return t, "does not fit " + clip(s.format) + ": " + cause(err)
	case t.Day() <= 3 && rolledOver(t, text, s.format):
		return t, "does not fit " + clip(s.format) + ": there is no such day"
	}
	// A name such as PST says no offset outside of its own country: Go makes one up.
	if name, offset := t.Zone(); offset == 0 && name != "" && name != "UTC" && name != "GMT" && name != "Z" && !strings.ContainsAny(name, "+-") {
		return t, "has the time zone " + name + ", which says no offset: want UTC, GMT or an offset (%z)"
	}
	return t, ""
}

// rolledOver reports whether t is what became of a day that its month does not have, as February 30 becomes March 2. Written again, the
// numbers of such a date are others. What stands behind a time zone is not looked at: offsets are written in several ways.
func rolledOver(t time.Time, text, format string) bool {
	if i := zone.FindStringIndex(format); i != nil {
		format = format[:i[0]]
	}
	was := numbers(text)
	for i, n := range numbers(timefmt.Format(t, format)) {
		if i < len(was) && was[i] != n {
			return true
		}
	}
	return false
}

var zone = regexp.MustCompile(`%:*[zZ]`)

// numbers lists the numbers in a text, without zeros before and behind them.
func numbers(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	for i := range list {
		list[i] = strings.Trim(list[i], "0")
	}
	return list
}
