package flightsapi

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxCount bounds a list: 200,000 flights are about 40 MB.
const maxCount = 200_000

// query is what is asked of a list, checked.
type query struct {
	origin, dest string
	count        int     // 0: not given
	limit        int     // 0: none
	maxPrice     float64 // 0: none
	fail         string
}

// fault is a parameter that cannot be used.
type fault struct{ parameter, message string }

// parseQuery reads the parameters of a list that takes those of the names known.
func parseQuery(raw string, known ...string) (query, *fault) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, &fault{"", "the query string is malformed"}
	}
	var q query
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(known, name) {
			return query{}, &fault{name, "unknown; known are " + strings.Join(known, ", ")}
		}
		if len(values[name]) > 1 {
			return query{}, &fault{name, "given more than once"}
		}
		if message := q.set(name, values.Get(name)); message != "" {
			return query{}, &fault{name, message}
		}
	}
	return q, nil
}

func parseFlights(raw string) (query, *fault) {
	q, wrong := parseQuery(raw, "origin", "dest", "limit", "max_price", "count", "fail")
	if wrong != nil {
		return q, wrong
	}
	anywhere := q.count > 0 && q.origin == "" && q.dest == ""
	switch {
	case q.origin == "" && !anywhere:
		return query{}, &fault{"origin", "required, a three-letter code such as NYC"}
	case q.dest == "" && !anywhere:
		return query{}, &fault{"dest", "required, a three-letter code such as LAX"}
	case q.origin == q.dest && !anywhere:
		return query{}, &fault{"dest", "is the same place as origin"}
	}
	if q.count == 0 {
		q.count = flightsPerPair
	}
	if q.limit > q.count {
		return query{}, &fault{"limit", fmt.Sprintf("must be a whole number from 1 to %d", q.count)}
	}
	return q, nil
}

// set takes one parameter; the answer is what is wrong with it, or empty.
func (q *query) set(name, value string) string {
	switch name {
	case "origin", "dest":
		code := strings.ToUpper(value)
		if len(code) != 3 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return "must be a three-letter code such as NYC"
		}
		if name == "origin" {
			q.origin = code
		} else {
			q.dest = code
		}
	case "limit", "count":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxCount {
			return fmt.Sprintf("must be a whole number from 1 to %d", maxCount)
		}
		if name == "limit" {
			q.limit = n
		} else {
			q.count = n
		}
	case "max_price":
		price, err := strconv.ParseFloat(value, 64)
		if err != nil || !(price > 0 && price < 1e9) { // the form that also refuses NaN
			return "must be a number above 0"
		}
		q.maxPrice = price
	case "fail":
		if !slices.Contains(failures(), value) {
			return "must be one of " + strings.Join(failures(), ", ")
		}
		q.fail = value
	}
	return ""
}
