// Package flightsapi is a small HTTP API with made-up flights: something real to call for the http_request step
// of a pipeline on a machine without a network (DESIGN §9).
//
//	GET /flights?origin=NYC&dest=LAX[&limit=10][&max_price=300]   a JSON array of Flight; /search is the same
//	GET /                                                         what this is
//
// Every pair of three-letter codes has flights, the same ones each time. Anything it does not understand is an
// error {"error": {"message", "parameter"?}} with status 400, 404 or 405.
package flightsapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// New is the API as a handler. It holds no state.
func New() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/flights", onlyGet(search))
	mux.HandleFunc("/search", onlyGet(search))
	mux.HandleFunc("/{$}", onlyGet(describe))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "", fmt.Sprintf("no such path %q; try /flights or /search", r.URL.Path))
	})
	return mux
}

func onlyGet(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeError(w, http.StatusMethodNotAllowed, "", fmt.Sprintf("method %s is not allowed, use GET", r.Method))
			return
		}
		next(w, r)
	}
}

// query is a search, checked.
type query struct {
	origin, dest string
	limit        int
	maxPrice     float64 // 0: none
}

func search(w http.ResponseWriter, r *http.Request) {
	q, fault := parseQuery(r.URL.RawQuery)
	if fault != nil {
		writeError(w, http.StatusBadRequest, fault.parameter, fault.message)
		return
	}
	flights := Flights(q.origin, q.dest)
	if q.maxPrice > 0 {
		flights = slices.DeleteFunc(flights, func(f Flight) bool { return float64(f.Price) > q.maxPrice })
	}
	writeJSON(w, http.StatusOK, flights[:min(len(flights), q.limit)])
}

// fault is a parameter that cannot be used.
type fault struct{ parameter, message string }

func parseQuery(raw string) (query, *fault) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return query{}, &fault{"", "the query string is malformed"}
	}
	q := query{limit: flightsPerPair}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return query{}, &fault{name, "given more than once"}
		}
		if message := q.set(name, values.Get(name)); message != "" {
			return query{}, &fault{name, message}
		}
	}
	switch {
	case q.origin == "":
		return query{}, &fault{"origin", "required, a three-letter code such as NYC"}
	case q.dest == "":
		return query{}, &fault{"dest", "required, a three-letter code such as LAX"}
	case q.origin == q.dest:
		return query{}, &fault{"dest", "is the same place as origin"}
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
	case "limit":
		limit, err := strconv.Atoi(value)
		if err != nil || limit < 1 || limit > flightsPerPair {
			return fmt.Sprintf("must be a whole number from 1 to %d", flightsPerPair)
		}
		q.limit = limit
	case "max_price":
		price, err := strconv.ParseFloat(value, 64)
		if err != nil || !(price > 0 && price < 1e9) { // the form that also refuses NaN
			return "must be a number above 0"
		}
		q.maxPrice = price
	default:
		return "unknown; known are origin, dest, limit and max_price"
	}
	return ""
}

func describe(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"name":        "Turnstone sample flights",
		"description": "Made-up flights between any two places, the same ones each time.",
		"endpoints": []string{
			"GET /flights?origin=NYC&dest=LAX[&limit=10][&max_price=300]",
			"GET /search (the same)",
		},
	})
}

func writeError(w http.ResponseWriter, status int, parameter, message string) {
	body := map[string]string{"message": message}
	if parameter != "" {
		body["parameter"] = parameter
	}
	writeJSON(w, status, map[string]any{"error": body})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that went away is nobody's fault
}
