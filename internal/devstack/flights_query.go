package devstack

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// maxFlights is the largest number of flights in a list, which then has about 40 MB.
const maxFlights = 200_000

// listQuery has the parameters of a list.
type listQuery struct {
	origin, dest string
	count        int     // number of flights
	limit        int     // 0: no limit
	maxPrice     float64 // 0: no limit
	fail         string
}

// parameterError says what is wrong with a parameter.
type parameterError struct{ parameter, message string }

func parseListQuery(rawQuery string) (listQuery, *parameterError) {
	return parseQuery(rawQuery, "limit", "fail")
}

// parseFlightsQuery parses the parameters of a list of flights: both places or, with a count, neither.
func parseFlightsQuery(rawQuery string) (listQuery, *parameterError) {
	q, queryErr := parseQuery(rawQuery, "origin", "dest", "limit", "max_price", "count", "fail")
	if queryErr != nil {
		return q, queryErr
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

// parseQuery parses the parameters of a list. Only parameters with the given names are allowed.
func parseQuery(rawQuery string, names ...string) (q listQuery, _ *parameterError) {
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

// set sets a parameter. If the value is invalid, it returns a message.
func (q *listQuery) set(name, value string) string {
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
		if err != nil || n < 1 || n > maxFlights {
			return fmt.Sprintf("must be a whole number from 1 to %d", maxFlights)
		}
		if name == "limit" {
			q.limit = n
		} else {
			q.count = n
		}
	case "max_price":
		price, err := strconv.ParseFloat(value, 64)
		if err != nil || !(price > 0 && price < 1e9) { // written so that it refuses NaN, too
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
