package gateway

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// query reads the parameters of a URL strictly: an unknown, repeated or malformed parameter is an error, because a misspelt dry_run would
// change the catalog. Its methods keep the first error for validate.
type query struct {
	values url.Values
	known  map[string]bool // the parameters that the handler has read
	err    error
}

func readQuery(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values, known: map[string]bool{}}
	if err != nil {
		q.fail(agent.Invalid("", "malformed query: %w", err))
	}
	return q
}

func (q *query) fail(err error) {
	if q.err == nil {
		q.err = err
	}
}

// single returns a parameter that must not be repeated; empty if it is absent.
func (q *query) single(name string) string {
	q.known[name] = true
	if n := len(q.values[name]); n > 1 {
		q.fail(agent.Invalid(name, "is given %d times", n))
		return ""
	}
	return q.values.Get(name)
}

// text returns a parameter of at most maxBytes; empty if it is absent.
func (q *query) text(name string, maxBytes int) string {
	value := q.single(name)
	if err := checkText(name, value, maxBytes); err != nil {
		q.fail(err)
	}
	return value
}

// number returns a whole number of 0 or more, 0 if it is absent.
func (q *query) number(name string) int64 {
	value := q.text(name, maxText)
	if value == "" {
		return 0
	}
	n, err := wholeNumber(name, value)
	if err != nil {
		q.fail(err)
	}
	return n
}

// limit returns the size of a page, 0 if it is absent.
func (q *query) limit(maxLimit int) int {
	n := q.number("limit")
	if err := checkLimit(n, maxLimit); err != nil {
		q.fail(err)
		return 0
	}
	return int(n)
}

func checkLimit(n int64, maxLimit int) error {
	if n < 0 || n > int64(maxLimit) {
		return agent.Invalid("limit", "want 1 to %d, got %d", maxLimit, n)
	}
	return nil
}

// list returns the values of a parameter that may be repeated and may hold several values with commas between them.
func (q *query) list(name string) (values []string) {
	q.known[name] = true
	for value := range strings.SplitSeq(strings.Join(q.values[name], ","), ",") {
		if value = strings.TrimSpace(value); value != "" && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// time returns a time in the format of RFC 3339, the zero time if it is absent.
func (q *query) time(name string) time.Time {
	value := q.text(name, maxText)
	if value == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		q.fail(agent.Invalid(name, "want a time such as 2026-11-22T12:00:00Z, got %.60q", value))
	}
	return at
}

// timeOrDay is time for a parameter that may also be a day, which means midnight in UTC.
func (q *query) timeOrDay(name string) time.Time {
	if day, err := time.Parse(time.DateOnly, q.single(name)); err == nil {
		return day
	}
	return q.time(name)
}

// bool returns a boolean, false if it is absent. A parameter without a value is an error.
func (q *query) bool(name string) bool {
	value := q.text(name, maxText)
	if value == "" && !q.values.Has(name) {
		return false
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		q.fail(agent.Invalid(name, "want true or false, got %.60q", value))
	}
	return b
}

// labels returns the labels of all parameters label=key=value.
func (q *query) labels() map[string]string {
	const name = "label"
	q.known[name] = true
	labels := map[string]string{}
	for _, label := range q.values[name] {
		key, value, ok := strings.Cut(label, "=")
		if _, isRepeated := labels[key]; isRepeated || !ok {
			q.fail(agent.Invalid(name, "want key=value with each key once, got %.60q", label))
		}
		labels[key] = value
	}
	return labels
}

// object returns a parameter that is a JSON object, nil if it is absent.
func (q *query) object(name string, maxBytes int) json.RawMessage {
	value := q.text(name, maxBytes)
	if value == "" {
		return nil
	}
	var object map[string]any
	if err := decodeJSON([]byte(value), &object); err != nil || object == nil {
		q.fail(agent.Invalid(name, "want a JSON object"))
	}
	return json.RawMessage(value)
}

// page returns the page of the parameters page_size and page_token.
func (q *query) page() agent.Page {
	p, err := parsePage(q.number("page_size"), q.text("page_token", maxToken))
	if err != nil {
		q.fail(err)
	}
	return p
}

// maxPageToken is the maximum length of the token of a page in bytes.
const maxPageToken = 4 << 10

// pageWithin is page for a list with another default and maximum size.
func (q *query) pageWithin(defaultSize, maxSize int) agent.Page {
	size := q.number("page_size")
	if size > int64(maxSize) {
		q.fail(agent.Invalid("page_size", "want 0 to %d, got %d", maxSize, size))
	}
	return agent.Page{Size: cmp.Or(int(size), defaultSize), Token: q.text("page_token", maxPageToken)}
}

// validate returns the first error. A parameter that the handler has not read is unknown, which is an error that names those it has read.
func (q *query) validate() error {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if !q.known[name] {
			known := cmp.Or(strings.Join(slices.Sorted(maps.Keys(q.known)), ", "), "none")
			q.fail(agent.Invalid(validText(clip.Bytes(name, maxPath)), "is no parameter of this path: it takes %s", known))
		}
	}
	return q.err
}
