package research

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The bounds of arguments.
const (
	MaxArgs        = 64 << 10 // bytes
	MaxQuery       = 1000     // characters of a query, or of another text
	MaxResults     = 50
	DefaultResults = 10

	firstYear, lastYear = 1500, 2199
)

// commonArguments are the arguments of every search.
type commonArguments struct {
	Query      *string `json:"query"`
	MaxResults *int    `json:"max_results"`
}

// argumentReader checks the arguments of a call one after the other. Its methods return the argument, or a zero value if it is missing. If err
// is set, which is the first error, the values are not valid.
type argumentReader struct{ err error }

// readArguments decodes the arguments of a call. Null counts as missing, because providers that enforce a schema send every argument.
func readArguments(args json.RawMessage, v any) *argumentReader {
	if bytes.HasPrefix(bytes.TrimSpace(args), []byte("null")) {
		return &argumentReader{agent.Invalid("", "want an object, got null")}
	}
	return &argumentReader{tool.DecodeArguments(args, MaxArgs, v)}
}

func (r *argumentReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// query returns the query, which is required.
func (r *argumentReader) query(query *string) string {
	if query == nil {
		r.fail(agent.Invalid("query", "is required"))
		return ""
	}
	text := r.text("query", query)
	if text == "" {
		r.fail(agent.Invalid("query", "is empty"))
	}
	return text
}

// maxResults returns the number of results.
func (r *argumentReader) maxResults(n *int, fallback int) int {
	if n == nil {
		return fallback
	}
	if *n < 1 || *n > MaxResults {
		r.fail(agent.Invalid("max_results", "want 1 to %d, got %d", MaxResults, *n))
	}
	return *n
}

// text returns a text on one line.
func (r *argumentReader) text(name string, s *string) string {
	if s == nil {
		return ""
	}
	if n := utf8.RuneCountInString(*s); n > MaxQuery {
		r.fail(agent.FieldErrorf(agent.CodeOverflow, name, "has %d characters, at most %d", n, MaxQuery))
		return ""
	}
	return tidy(*s)
}

// choice returns one of the allowed words.
func (r *argumentReader) choice(name string, s *string, allowed ...string) string {
	if s == nil {
		return ""
	}
	if !slices.Contains(allowed, *s) {
		r.fail(agent.Invalid(name, "want one of %s, got %.50q", strings.Join(allowed, ", "), *s))
	}
	return *s
}

// choices returns some of the allowed words, each once.
func (r *argumentReader) choices(name string, list *[]string, allowed []string) []string {
	if list == nil {
		return nil
	}
	if len(*list) > len(allowed) {
		r.fail(agent.FieldErrorf(agent.CodeOverflow, name, "has %d entries, there are %d", len(*list), len(allowed)))
		return nil
	}
	var out []string
	for i, s := range *list {
		if word := r.choice(elementName(name, i), &s, allowed...); !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

func elementName(name string, i int) string { return fmt.Sprintf("%s[%d]", name, i) }

var datePattern = regexp.MustCompile(`^\d{4}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$`)

// date returns a date such as 2024, 2024-05 or 2024-05-17.
func (r *argumentReader) date(name string, text *string) date {
	if text == nil {
		return date{}
	}
	d := isoDate(*text)
	if !datePattern.MatchString(*text) || !d.exists() {
		r.fail(agent.Invalid(name, "want a date as 2024, 2024-05 or 2024-05-17, got %.50q", *text))
		return date{}
	}
	return d
}

// dates returns the range of date_from and date_to.
func (r *argumentReader) dates(from, to *string) dateRange {
	d := dateRange{r.date("date_from", from), r.date("date_to", to)}
	if d.from.year != 0 && d.to.year != 0 && d.firstDay(0) > d.lastDay(0) {
		r.fail(agent.Invalid("date_to", "%s is before date_from, %s", *to, *from))
	}
	return d
}

// year returns a year as a date.
func (r *argumentReader) year(name string, year *int) date {
	if year == nil {
		return date{}
	}
	if *year < firstYear || *year > lastYear {
		r.fail(agent.Invalid(name, "want a year from %d to %d, got %d", firstYear, lastYear, *year))
	}
	return date{year: *year}
}

// years returns the range of from_year and to_year.
func (r *argumentReader) years(from, to *int) dateRange {
	d := dateRange{r.year("from_year", from), r.year("to_year", to)}
	if d.from.year != 0 && d.to.year != 0 && d.from.year > d.to.year {
		r.fail(agent.Invalid("to_year", "%d is before from_year, %d", *to, *from))
	}
	return d
}

// dateRange is a range of dates. An end whose year is 0 is open.
type dateRange struct{ from, to date }

func (d dateRange) isOpen() bool { return d.from.year == 0 && d.to.year == 0 }

// firstDay returns the first day of the range as 2024-05-17. openYear is the year of an open start.
func (d dateRange) firstDay(openYear int) string {
	return date{cmp.Or(d.from.year, openYear), max(1, d.from.month), max(1, d.from.day)}.text()
}

// lastDay returns the last day of the range. openYear is the year of an open end.
func (d dateRange) lastDay(openYear int) string {
	year, month := cmp.Or(d.to.year, openYear), cmp.Or(d.to.month, 12)
	return date{year, month, cmp.Or(d.to.day, daysIn(year, month))}.text()
}
