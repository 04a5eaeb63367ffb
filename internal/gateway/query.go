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

// query reads the parameters of a URL strictly: one that is unknown, given twice or malformed is a fault, because a misspelt dry_run
// would change the catalog. The first fault stays; end returns it.
type query struct {
	values url.Values
	asked  map[string]bool
	err    error
}

func readQuery(r *http.Request) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values, asked: map[string]bool{}}
	if err != nil {
		q.fault(agent.Invalid("", "malformed query: %w", err))
	}
	return q
}

func (q *query) fault(err error) {
	if q.err == nil {
		q.err = err
	}
}

// single returns a parameter that may be given once; empty when it is not given.
func (q *query) single(name string) string {
	q.asked[name] = true
	given := q.values[name]
	if len(given) > 1 {
		q.fault(agent.Invalid(name, "is given %d times", len(given)))
	}
	if len(given) == 1 {
		return given[0]
	}
	return ""
}

// text returns a parameter of at most maxBytes; empty when it is not given.
func (q *query) text(name string, maxBytes int) string {
	value := q.single(name)
	if err := checkText(name, value, maxBytes); err != nil {
		q.fault(err)
	}
	return value
}

// number returns a whole number of 0 or more, 0 when it is not given.
func (q *query) number(name string) int64 {
	value := q.text(name, maxText)
	if value == "" {
		return 0
	}
	n, err := wholeNumber(name, value)
	if err != nil {
		q.fault(err)
	}
	return n
}

// limit returns the size of a page, 0 when it is not given.
func (q *query) limit(most int) int {
	n := q.number("limit")
	if err := checkLimit(n, most); err != nil {
		q.fault(err)
		return 0
	}
	return int(n)
}

func checkLimit(n int64, most int) error {
	if n < 0 || n > int64(most) {
		return agent.Invalid("limit", "want 1 to %d, got %d", most, n)
	}
	return nil
}

// list returns the values of a parameter that may be given several times, each time with one value or several with commas between them.
func (q *query) list(name string) (values []string) {
	q.asked[name] = true
	for value := range strings.SplitSeq(strings.Join(q.values[name], ","), ",") {
		if value = strings.TrimSpace(value); value != "" && !slices.Contains(values, value) {
			values = append(values, value)
		}
	}
	return values
}

// time returns a time as RFC 3339 writes it, the zero time when it is not given.
func (q *query) time(name string) time.Time {
	value := q.text(name, maxText)
	if value == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, value)
	if err != nil {
		q.fault(agent.Invalid(name, "want a time such as 2026-11-22T12:00:00Z, got %.60q", value))
	}
	return at
}

// timeOrDay is time for a parameter that may also be a day, which is its midnight in UTC.
func (q *query) timeOrDay(name string) time.Time {
	if day, err := time.Parse(time.DateOnly, q.single(name)); err == nil {
		return day
	}
	return q.time(name)
}

// bool returns true or false, false when it is not given. ?dry_run without a value is a fault: it would change the catalog.
func (q *query) bool(name string) bool {
	value := q.text(name, maxText)
	if value == "" && !q.values.Has(name) {
		return false
	}
	b, err := strconv.ParseBool(value)
	if err != nil {
		q.fault(agent.Invalid(name, "want true or false, got %.60q", value))
	}
	return b
}

// labels returns the parameters label=key=value.
func (q *query) labels() map[string]string {
	const name = "label"
	q.asked[name] = true
	labels := map[string]string{}
	for _, given := range q.values[name] {
		key, value, ok := strings.Cut(given, "=")
		if _, twice := labels[key]; twice || !ok {
			q.fault(agent.Invalid(name, "want key=value with each key once, got %.60q", given))
		}
		labels[key] = value
	}
	return labels
}

// readCaller returns the caller in the tenant that the header or the parameter names. They must not differ.
func (q *query) readCaller(r *http.Request) (identity, error) {
	named, header := q.text("tenant", maxText), r.Header.Get(tenantKey)
	if named != "" && header != "" && named != header {
		return identity{}, agent.Invalid("tenant", "is %.140q, but the header %s says %.140q", named, tenantKey, header)
	}
	return callerIn(r.Context(), cmp.Or(header, named))
}

// object returns a parameter that is a JSON object, nil when it is not given.
func (q *query) object(name string, maxBytes int) json.RawMessage {
	value := q.text(name, maxBytes)
	if value == "" {
		return nil
	}
	var object map[string]any
	if err := decodeJSON([]byte(value), &object); err != nil || object == nil {
		q.fault(agent.Invalid(name, "want a JSON object"))
	}
	return json.RawMessage(value)
}

// page returns the page that page_size and page_token name.
func (q *query) page() agent.Page {
	p, err := parsePage(q.number("page_size"), q.text("page_token", maxToken))
	if err != nil {
		q.fault(err)
	}
	return p
}

// maxPageToken bounds the token of a page in bytes.
const maxPageToken = 4 << 10

// pageWithin is page for lists with bounds of their own: usual is the size if none is given.
func (q *query) pageWithin(usual, maxSize int) agent.Page {
	size := q.number("page_size")
	if size > int64(maxSize) {
		q.fault(agent.Invalid("page_size", "want 0 to %d, got %d", maxSize, size))
	}
	return agent.Page{Size: cmp.Or(int(size), usual), Token: q.text("page_token", maxPageToken)}
}

// end returns the first fault; a parameter that nobody asked for is one.
func (q *query) end() error {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if !q.asked[name] {
			q.fault(unknownParameter(name, slices.Sorted(maps.Keys(q.asked))))
		}
	}
	return q.err
}

// unknownParameter refuses a parameter, and names those that a path takes.
func unknownParameter(name string, allowed []string) error {
	takes := "it takes none"
	if len(allowed) > 0 {
		takes = "it takes " + strings.Join(allowed, ", ")
	}
	return agent.Invalid(validText(clip.Bytes(name, maxPath)), "is no parameter of this path: %s", takes)
}
