package gateway

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
)

// maxDoorToken bounds the token of a page in bytes.
const maxDoorToken = 4 << 10

// Parameters reads the query of a request to a [Door]: the parameters that are allowed, each at most once. The tenant is allowed always: it
// is the gateway's to read.
func Parameters(r *http.Request, allowed ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, agent.Invalid("", "malformed query: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case name != "tenant" && !slices.Contains(allowed, name):
			return nil, unknownParameter(name, slices.Sorted(slices.Values(append(slices.Clone(allowed), "tenant"))))
		case len(values[name]) > 1:
			return nil, agent.Invalid(name, "is given %d times", len(values[name]))
		}
	}
	return values, nil
}

// PageOf reads page_size, 0 to most and usual where it is not given, and page_token out of what [Parameters] returned.
func PageOf(values url.Values, usual, most int) (agent.Page, error) {
	p := agent.Page{Size: usual, Token: values.Get("page_token")}
	if text := values.Get("page_size"); text != "" {
		size, err := strconv.Atoi(text)
		if err != nil || size < 0 || size > most {
			return p, agent.Invalid("page_size", "want 0 to %d, got %.40q", most, text)
		}
		p.Size = cmp.Or(size, usual)
	}
	if len(p.Token) > maxDoorToken {
		return p, agent.Invalid("page_token", "is not one that a page had")
	}
	return p, nil
}
