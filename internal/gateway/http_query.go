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

// query reads the parameters of a URL strictly: one that is unknown, given twice or malformed is a fault. Where a misspelt dry_run
// would change the catalog, guessing is not on. The first fault stays; end returns it.
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

// text returns a parameter, at most so many bytes long; empty when it is not given.
func (q *query) text(name string, most int) string {
	q.asked[name] = true
	switch given := q.values[name]; len(given) {
	case 0:
		return ""
	case 1:
		if err := checkPlain(name, given[0], most); err != nil {
			q.fault(err)
		}
		return given[0]
	default:
		q.fault(agent.Invalid(name, "is given %d times", len(given)))
		return ""
	}
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

// moment returns a time as RFC 3339 writes it, the zero time when it is not given.
func (q *query) moment(name string) time.Time {
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

// truth returns true or false, false when it is not given. ?dry_run without a value is a fault: it would change the catalog.
func (q *query) truth(name string) bool {
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

// caller names who asks, by the header or the parameter "tenant". Where something is deleted, guessing which of two was meant is not on.
func (q *query) readCaller(r *http.Request) (identity, error) {
	named, header := q.text("tenant", maxText), r.Header.Get(tenantKey)
	if named != "" && header != "" && named != header {
		return identity{}, agent.Invalid("tenant", "is %.140q, but the header %s says %.140q", named, tenantKey, header)
	}
	return callerIn(r.Context(), cmp.Or(header, named))
}

// object returns a parameter that is a JSON object, nil when it is not given.
func (q *query) object(name string, most int) json.RawMessage {
	value := q.text(name, most)
	if value == "" {
		return nil
	}
	var object map[string]any
	if err := decodeJSON([]byte(value), &object); err != nil || object == nil {
		q.fault(agent.Invalid(name, "want a JSON object"))
	}
	return json.RawMessage(value)
}

func (q *query) page() agent.Page {
	p, err := pageOf(q.number("page_size"), q.text("page_token", maxToken))
	if err != nil {
		q.fault(err)
	}
	return p
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
func unknownParameter(name string, known []string) error {
	takes := "it takes none"
	if len(known) > 0 {
		takes = "it takes " + strings.Join(known, ", ")
	}
	return agent.Invalid(utf8(clip.Bytes(name, maxPath)), "is no parameter of this path: %s", takes)
}

// caller names who sent an HTTP request, and for which tenant. The request may have that parameter and those that its handler reads, and no
// other.
func readCaller(r *http.Request, read ...string) (identity, error) {
	q := readQuery(r)
	for _, name := range read {
		q.text(name, maxText)
	}
	caller, err := q.readCaller(r)
	if err != nil {
		return identity{}, err
	}
	return caller, q.end()
}
