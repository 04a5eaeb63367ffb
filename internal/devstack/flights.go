package devstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// FlightsServer is a small HTTP API with made-up flights. It gives pipelines something to request on a machine without a network. It keeps nothing,
// and the same request always has the same answer.
//
//	GET  /flights?origin=NYC&dest=LAX   50 flights; /search is the same
//	GET  /flights?count=100000          up to 200,000 flights between many places, or between origin and dest
//	GET  /airlines                      9 airlines, one of them without flights
//	GET  /bookings                      40 bookings of flights from NYC to LAX, with dates, phone numbers and text to parse
//	POST /bookings                      returns the posted JSON object with an id and the status "confirmed" (201)
//	GET  /                              a description of the API
//
// A list is a JSON array. With .csv or .ndjson at the end of the path, as in /flights.csv, it has that format. Parameters:
//
//	limit=10       largest number of rows (all lists)
//	max_price=300  highest price of flights
//	fail=…         fail on purpose (all lists):
//	    500 503 429   with this status; 503 and 429 with Retry-After: 1
//	    slow          answer after 8 seconds
//	    ragged        leave out the last value of the third row and, in JSON, replace its numbers by text
//	    broken        end the body in the middle of the last row
//	    html          answer with an HTML page and status 200
//
// Other requests have an error {"error": {"message", "parameter"?}} with status 400, 404, 405, 413 or 415.
type FlightsServer struct {
	url  string
	http *http.Server
}

const (
	maxBooking     = 64 << 10 // bytes
	slowDelay      = 8 * time.Second
	requestTimeout = 10 * time.Second
)

// startFlights serves the API on a port. Port 0 is any free port.
func startFlights(port int, anyPort bool) (*FlightsServer, error) {
	listener, err := holdPort(Port{"the sample flights API", port}, anyPort)
	if err != nil {
		return nil, err
	}
	s := &FlightsServer{url: "http://" + listener.Addr().String(), http: &http.Server{
		Handler: flightsHandler(), ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() { _ = s.http.Serve(listener) }() // returns after Stop
	return s, nil
}

// URL returns the base URL, without a trailing slash.
func (s *FlightsServer) URL() string { return s.url }

// Stop waits for open requests until ctx ends, and then closes their connections. Stopping again does nothing.
func (s *FlightsServer) Stop(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

func flightsHandler() http.Handler {
	mux := http.NewServeMux()
	for _, list := range []flightsList{
		{"/flights", parseFlightsQuery, flightsTable},
		{"/search", parseFlightsQuery, flightsTable},
		{"/airlines", parseListQuery, func(listQuery) table { return airlinesTable() }},
		{"/bookings", parseListQuery, func(listQuery) table { return bookingsTable() }},
	} {
		for _, format := range []rowFormat{formatJSON, formatCSV, formatNDJSON} {
			path, allowed := list.path+format.suffix(), []string{http.MethodGet}
			mux.HandleFunc("GET "+path, list.handler(format))
			if path == "/bookings" {
				allowed = append(allowed, http.MethodPost)
				mux.HandleFunc("POST /bookings", book)
			}
			mux.HandleFunc(path, methodNotAllowed(allowed))
		}
	}
	mux.HandleFunc("GET /{$}", describeFlights)
	mux.HandleFunc("/{$}", methodNotAllowed([]string{http.MethodGet}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "", fmt.Sprintf("no such path %q; try /flights, /airlines or /bookings", r.URL.Path))
	})
	return mux
}

// methodNotAllowed returns a handler that refuses all methods. The allowed ones have handlers of their own.
func methodNotAllowed(allowed []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Replace(strings.Join(allowed, ", "), "GET", "GET, HEAD", 1))
		writeError(w, http.StatusMethodNotAllowed, "", fmt.Sprintf("method %s is not allowed, use %s", r.Method, strings.Join(allowed, " or ")))
	}
}

// flightsList is a list that the API serves.
type flightsList struct {
	path  string
	parse func(rawQuery string) (listQuery, *parameterError)
	rows  func(listQuery) table
}

// handler returns a handler that serves the list in a format.
func (l *flightsList) handler(format rowFormat) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := l.parse(r.URL.RawQuery)
		if err != nil {
			writeError(w, http.StatusBadRequest, err.parameter, err.message)
			return
		}
		if failOnRequest(w, r, q.fail) {
			return
		}
		t := l.rows(q)
		if q.limit > 0 {
			t = t.firstRows(q.limit)
		}
		w.Header().Set("Content-Type", format.mediaType())
		t.write(w, format, q.fail)
	}
}

// The values of the parameter fail that are not a status.
const (
	failRagged = "ragged"
	failBroken = "broken"
	failSlow   = "slow"
	failHTML   = "html"
)

func failures() []string {
	return []string{"500", "503", "429", failSlow, failRagged, failBroken, failHTML}
}

// failOnRequest fails as the parameter fail says. It returns false if the handler should serve the list.
func failOnRequest(w http.ResponseWriter, r *http.Request, fail string) bool {
	switch fail {
	case "503", "429":
		w.Header().Set("Retry-After", "1")
		fallthrough
	case "500":
		status, _ := strconv.Atoi(fail)
		writeError(w, status, "fail", "failed as asked")
		return true
	case failHTML:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<!doctype html><title>Flights</title><p>Please log in.</p>\n") // fails if the client has left
		return true
	case failSlow:
		select {
		case <-time.After(slowDelay):
		case <-r.Context().Done():
			return true
		}
	}
	return false
}

// book returns the posted object with an id, which is a hash of the body.
func book(w http.ResponseWriter, r *http.Request) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		writeError(w, http.StatusUnsupportedMediaType, "", "the body must be application/json")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBooking))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		writeError(w, http.StatusRequestEntityTooLarge, "", fmt.Sprintf("the body is longer than %d bytes", maxBooking))
		return
	}
	var booking map[string]any
	if err != nil || json.Unmarshal(body, &booking) != nil || booking == nil {
		writeError(w, http.StatusBadRequest, "", "the body must be a JSON object")
		return
	}
	booking["id"] = fmt.Sprintf("B%08X", crc32.ChecksumIEEE(body))
	booking["status"] = "confirmed"
	writeJSON(w, http.StatusCreated, booking)
}

func describeFlights(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"name":        "Turnstone sample flights",
		"description": "Made-up flights between any two places, the same ones each time.",
		"endpoints": []string{
			"GET /flights?origin=NYC&dest=LAX[&limit=10][&max_price=300][&count=1000] (.csv, .ndjson)",
			"GET /flights?count=100000",
			"GET /search (the same)",
			"GET /airlines (.csv, .ndjson)",
			"GET /bookings (.csv, .ndjson)",
			"POST /bookings",
		},
		"fail": failures(),
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
	_ = json.NewEncoder(w).Encode(body) // fails if the client has left
}
