package research

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// The bounds of arguments.
const (
	MaxArgs        = 64 << 10 // bytes
	MaxQuery       = 1000     // characters of a query, or of a filter that is words
	MaxResults     = 50
	DefaultResults = 10

	firstYear, lastYear = 1500, 2199
)

// decode reads the arguments of a call; null stands for what is left out, as providers that enforce a schema fill it in.
func decode(args json.RawMessage, v any) error {
	if len(args) > MaxArgs {
		return agent.FieldErrorf(agent.CodeOverflow, "", "the arguments are %d bytes, at most %d", len(args), MaxArgs)
	}
	if strings.HasPrefix(strings.TrimSpace(string(args)), "null") {
		return agent.Invalid("", "want an object, got null")
	}
	return strictjson.Decode(args, v)
}

// common is what every search takes.
type common struct {
	Query      *string `json:"query"`
	MaxResults *int    `json:"max_results"`
}

// queryAndMax returns the query and the number of results.
func (c *common) queryAndMax(fallback int) (query string, n int, err error) {
	if c.Query == nil {
		return "", 0, agent.Invalid("query", "is required")
	}
	if query, err = textArgument("query", c.Query); err != nil {
		return "", 0, err
	}
	if query == "" {
		return "", 0, agent.Invalid("query", "is empty")
	}
	n = fallback
	if c.MaxResults != nil {
		n = *c.MaxResults
	}
	if n < 1 || n > MaxResults {
		return "", 0, agent.Invalid("max_results", "want 1 to %d, got %d", MaxResults, n)
	}
	return query, n, nil
}

// textArgument returns a text argument on one line, empty if it is left out.
func textArgument(name string, s *string) (string, error) {
	if s == nil {
		return "", nil
	}
	if n := utf8.RuneCountInString(*s); n > MaxQuery {
		return "", agent.FieldErrorf(agent.CodeOverflow, name, "has %d characters, at most %d", n, MaxQuery)
	}
	return tidy(*s), nil
}

// choice returns one of a few words, empty if it is left out.
func choice(name string, s *string, allowed []string) (string, error) {
	if s == nil || slices.Contains(allowed, *s) {
		return valueOf(s), nil
	}
	return "", agent.Invalid(name, "want one of %s, got %.50q", strings.Join(allowed, ", "), *s)
}

// choices returns some of a few words, each once.
func choices(name string, list *[]string, allowed []string) ([]string, error) {
	if list == nil {
		return nil, nil
	}
	if len(*list) > len(allowed) {
		return nil, agent.FieldErrorf(agent.CodeOverflow, name, "has %d entries, there are %d", len(*list), len(allowed))
	}
	var out []string
	for i, s := range *list {
		if _, err := choice(elementName(name, i), &s, allowed); err != nil {
			return nil, err
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out, nil
}

func elementName(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }

func valueOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

var datePattern = regexp.MustCompile(`^\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$`)

// span is a range of dates; either end may be open.
type span struct{ from, to date }

func spanOf(from, to *string) (span, error) {
	var out span
	for _, end := range []struct {
		name string
		text *string
		date *date
	}{{"date_from", from, &out.from}, {"date_to", to, &out.to}} {
		if end.text == nil {
			continue
		}
		if *end.date = isoDate(*end.text); !datePattern.MatchString(*end.text) || !end.date.exists() {
			return span{}, agent.Invalid(end.name, "want a date as 2024, 2024-05 or 2024-05-17, got %.50q", *end.text)
		}
	}
	if out.from.year != 0 && out.to.year != 0 && out.first(0) > out.last(0) {
		return span{}, agent.Invalid("date_to", "%s is before date_from, %s", *to, *from)
	}
	return out, nil
}

// years returns the range of two years.
func years(from, to *int) (span, error) {
	var out span
	for _, end := range []struct {
		name string
		year *int
		date *date
	}{{"from_year", from, &out.from}, {"to_year", to, &out.to}} {
		if end.year == nil {
			continue
		}
		if *end.year < firstYear || *end.year > lastYear {
			return span{}, agent.Invalid(end.name, "want a year from %d to %d, got %d", firstYear, lastYear, *end.year)
		}
		end.date.year = *end.year
	}
	if out.from.year != 0 && out.to.year != 0 && out.from.year > out.to.year {
		return span{}, agent.Invalid("to_year", "%d is before from_year, %d", *to, *from)
	}
	return out, nil
}

func (s span) open() bool { return s.from.year == 0 && s.to.year == 0 }

// first returns the first day of a span as 2024-05-17. If the start is open, it is in the year open.
func (s span) first(open int) string {
	d := s.from
	if d.year == 0 {
		d.year = open
	}
	return date{d.year, max(1, d.month), max(1, d.day)}.text()
}

// last returns the last day of a span. If the end is open, it is in the year open.
func (s span) last(open int) string {
	d := s.to
	if d.year == 0 {
		d.year = open
	}
	if d.month == 0 {
		d.month = 12
	}
	if d.day == 0 {
		d.day = lastDay(d.year, d.month)
	}
	return date{d.year, d.month, d.day}.text()
}
