package pipeline

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/timefmt-go"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// isoLayouts are tried in this order when there is no format; seconds may have a fraction in each.
func isoLayouts() []string {
	return []string{
		time.RFC3339, "2006-01-02T15:04:05", time.DateOnly, time.DateTime, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700",
		"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04Z07:00", "20060102T150405Z0700", "20060102T150405", "20060102",
	}
}

// parse reads a date. why is the reason if the text is none.
func (s *parseDate) parse(text string) (t time.Time, why string) {
	t, err := s.scan(text)
	switch {
	case err != nil && s.format == "" && s.hasLeapSecond(text):
		return t, noLeapSeconds
	case err != nil && s.format == "":
		return t, "is no ISO 8601 date: give its format, such as %d/%m/%Y"
	case err != nil:
		return t, "does not fit " + clip.Bytes(s.format, maxQuote) + ": " + formatError(err)
	case s.format == "":
		return t, ""
	case t.Second() == 0 && s.hasLeapSecond(text) && hasRolledOver(t, text, s.format):
		return t, noLeapSeconds
	case t.Day() <= 3 && hasRolledOver(t, text, s.format):
		return t, "does not fit " + clip.Bytes(s.format, maxQuote) + ": there is no such day"
	}
	// A name such as PST says no offset outside of its own country: Go makes one up.
	if name, offset := t.Zone(); offset == 0 && name != "" && name != "UTC" && name != "GMT" && name != "Z" && !strings.ContainsAny(name, "+-") {
		return t, "has the time zone " + name + ", which says no offset: want UTC, GMT or an offset (%z)"
	}
	return t, ""
}

// scan reads a date by the format. A day or second that does not exist may have rolled over.
func (s *parseDate) scan(text string) (t time.Time, err error) {
	if s.format != "" {
		return timefmt.ParseInLocation(text, s.format, time.UTC)
	}
	for _, layout := range isoLayouts() {
		if t, err = time.Parse(layout, text); err == nil {
			break
		}
	}
	return t, err
}

const noLeapSeconds = "has the second 60, a leap second, which cannot be kept: want 0 to 59"

// hasLeapSecond reports whether the text is a date with the second 60.
func (s *parseDate) hasLeapSecond(text string) bool {
	for i := 0; ; i++ {
		n := strings.Index(text[i:], "60")
		if n < 0 {
			return false
		}
		i += n
		if t, err := s.scan(text[:i] + "59" + text[i+2:]); err == nil && t.Second() == 59 {
			return true
		}
	}
}

// hasRolledOver reports whether t is what became of a day that its month does not have, as February 30 becomes March 2. Written again, the
// numbers of such a date are others. Those of a time zone are left out, because offsets are written in several ways: what stands before
// it is compared from the left, what stands behind it from the right.
func hasRolledOver(t time.Time, text, format string) bool {
	before, after := format, ""
	if zones := zonePattern.FindAllStringIndex(format, -1); zones != nil {
		before, after = format[:zones[0][0]], format[zones[len(zones)-1][1]:]
	}
	was, is := numbersIn(text), numbersIn(timefmt.Format(t, before))
	if n := min(len(is), len(was)); !slices.Equal(was[:n], is[:n]) {
		return true
	}
	is = numbersIn(timefmt.Format(t, after))
	if strings.HasPrefix(after, "%") && len(is) > 0 {
		is = is[1:] // run together with the zone
	}
	n := min(len(is), len(was))
	return !slices.Equal(was[len(was)-n:], is[len(is)-n:])
}

var zonePattern = regexp.MustCompile(`%:*[zZ]`)

// numbersIn lists the numbers in a text, without zeros before and behind them.
func numbersIn(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	for i := range list {
		list[i] = strings.Trim(list[i], "0")
	}
	return list
}
