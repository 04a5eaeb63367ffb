package devstack

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxFlights bounds a list of flights, which then has about 40 MB.
const maxFlights = 200_000

// listQuery is the checked query of a list.
type listQuery struct {
	origin, dest string
	count        int     // of flights
	limit        int     // 0: none
	maxPrice     float64 // 0: none
	fail         string
}

// parameterError is what is wrong with a parameter.
type parameterError struct{ parameter, message string }

func parseListQuery(rawQuery string) (listQuery, *parameterError) {
	return parseQuery(rawQuery, "limit", "fail")
}

// parseFlightsQuery parses the query of a list of flights: either both places or, with a count, none.
func parseFlightsQuery(rawQuery string) (listQuery, *parameterError) {
	q, wrong := parseQuery(rawQuery, "origin", "dest", "limit", "max_price", "count", "fail")
	if wrong != nil {
		return q, wrong
	}
	anywhere := q.count > 0 && q.origin == "" && q.dest == ""
	switch {
	case q.origin == "" && !anywhere:
		return q, &parameterError{"origin", "required, a three-letter code such as NYC"}
	case q.dest == "" && !anywhere:
		return q, &parameterError{"dest", "required, a three-letter code such as LAX"}
	case q.origin == q.dest && !anywhere:
		return q, &parameterError{"dest", "is the same place as origin"}
	}
	if q.count == 0 {
		q.count = flightsPerPair
	}
	if q.limit > q.count {
		return q, &parameterError{"limit", fmt.Sprintf("must be a whole number from 1 to %d", q.count)}
	}
	return q, nil
}

// parseQuery parses the parameters of a list that takes those of some names.
func parseQuery(rawQuery string, names ...string) (q listQuery, wrong *parameterError) {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return q, &parameterError{"", "the query string is malformed"}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		var message string
		switch {
		case !slices.Contains(names, name):
			message = "unknown; known are " + strings.Join(names, ", ")
		case len(values[name]) > 1:
			message = "given more than once"
		default:
			message = q.set(name, values.Get(name))
		}
		if message != "" {
			return q, &parameterError{name, message}
		}
	}
	return q, nil
}

// set sets a parameter, and returns what is wrong with it, or "".
func (q *listQuery) set(name, value string) string {
	switch name {
	case "origin", "dest":
		code := strings.ToUpper(value)
		if len(code) != 3 || strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			return "must be a three-letter code such as NYC"
		}
		*map[string]*string{"origin": &q.origin, "dest": &q.dest}[name] = code
	case "limit", "count":
		n, err := strconv.Atoi(value)
		if err != nil || n < 1 || n > maxFlights {
			return fmt.Sprintf("must be a whole number from 1 to %d", maxFlights)
		}
		*map[string]*int{"limit": &q.limit, "count": &q.count}[name] = n
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
