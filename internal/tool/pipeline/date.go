package pipeline

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/timefmt-go"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// isoLayouts returns the layouts that are tried in this order if no format is given. Seconds may have a fraction in each.
func isoLayouts() []string {
	return []string{
		time.RFC3339, "2006-01-02T15:04:05", time.DateOnly, time.DateTime, "2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05Z0700",
		"2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04Z07:00", "20060102T150405Z0700", "20060102T150405", "20060102",
	}
}

// parse parses a date. problem says what is wrong with the text, if anything.
func (s *parseDate) parse(text string) (t time.Time, problem string) {
	t, err := s.parseLeniently(text)
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
	// A name such as PST has no offset that is the same everywhere; Go assumes 0.
	if name, offset := t.Zone(); offset == 0 && name != "" && name != "UTC" && name != "GMT" && name != "Z" && !strings.ContainsAny(name, "+-") {
		return t, "has the time zone " + name + ", which says no offset: want UTC, GMT or an offset (%z)"
	}
	return t, ""
}

// parseLeniently parses a date without checking that its day and second exist: February 30 becomes March 2.
func (s *parseDate) parseLeniently(text string) (t time.Time, err error) {
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
		if t, err := s.parseLeniently(text[:i] + "59" + text[i+2:]); err == nil && t.Second() == 59 {
			return true
		}
	}
}

// hasRolledOver reports whether the text names a day that does not exist, so that t is another day: formatting t gives other numbers than the
// text has. Numbers of time zones are not compared, because an offset can be written in several ways. So the numbers before the zones are
// compared from the left, and those after them from the right.
func hasRolledOver(t time.Time, text, format string) bool {
	before, after := format, ""
	if zones := zonePattern.FindAllStringIndex(format, -1); zones != nil {
		before, after = format[:zones[0][0]], format[zones[len(zones)-1][1]:]
	}
	inText, inDate := numbersIn(text), numbersIn(timefmt.Format(t, before))
	if n := min(len(inDate), len(inText)); !slices.Equal(inText[:n], inDate[:n]) {
		return true
	}
	inDate = numbersIn(timefmt.Format(t, after))
	if strings.HasPrefix(after, "%") && len(inDate) > 0 {
		inDate = inDate[1:] // in the text it is not separated from the zone
	}
	n := min(len(inDate), len(inText))
	return !slices.Equal(inText[len(inText)-n:], inDate[len(inDate)-n:])
}

var zonePattern = regexp.MustCompile(`%:*[zZ]`)

// numbersIn returns the numbers in a text without their leading and trailing zeros.
func numbersIn(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' })
	for i := range list {
		list[i] = strings.Trim(list[i], "0")
	}
	return list
}
