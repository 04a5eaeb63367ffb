package devstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// FlightsServer is a small HTTP API with made-up flights: something to call for the http_request step of a pipeline on a machine without a
// network. It gives the same answers every time and keeps nothing.
//
//	GET  /flights?origin=NYC&dest=LAX   50 flights; /search is the same
//	GET  /flights?count=100000          flights between many places, at most 200,000; with origin and dest between those
//	GET  /airlines                      9 airlines, of which one has no flights
//	GET  /bookings                      40 bookings of flights from NYC to LAX, with dates, phone numbers and text to take apart
//	POST /bookings                      a JSON object, answered with an id and the status "confirmed" added (201)
//	GET  /                              what this is
//
// A list is a JSON array. A path with .csv or .ndjson at its end, such as /flights.csv, is the same list in that format. Parameters:
//
//	limit=10       no more rows (any list)
//	max_price=300  of flights
//	fail=…         an error on request (any list):
//	    500 503 429   that status, the latter two with Retry-After: 1
//	    slow          the answer, after 8 seconds
//	    ragged        the third row lacks its last value: a short line of CSV, an object without the field, and with text for a number
//	    broken        the body ends in the middle of its last row
//	    html          a page for people, with status 200
//
// Anything it does not understand is an error {"error": {"message", "parameter"?}} with status 400, 404, 405, 413 or 415.
type FlightsServer struct {
	url  string
	http *http.Server
}

const (
	maxBooking  = 64 << 10 // bytes
	slowAnswer  = 8 * time.Second
	requestTime = 10 * time.Second
)

// startFlights serves the API on a port; 0 takes any free one.
func startFlights(ctx context.Context, port int, anyPort bool) (*FlightsServer, error) {
	ports, err := ChoosePorts(anyPort, Port{"the sample flights API", port})
	if err != nil {
		return nil, err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", HostPort(ports[0]))
	if err != nil {
		return nil, fmt.Errorf("sample flights API: %w", err)
	}
	s := &FlightsServer{url: "http://" + listener.Addr().String(), http: &http.Server{
		Handler: flightsHandler(), ReadTimeout: requestTime, WriteTimeout: requestTime, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() { _ = s.http.Serve(listener) }() // until Stop; before that, a listener of this machine does not fail
	return s, nil
}

// URL returns the base address, without a slash at the end.
func (s *FlightsServer) URL() string { return s.url }

// Stop lets current requests finish until ctx ends, then cuts them. Stopping again does nothing.
func (s *FlightsServer) Stop(ctx context.Context) error {
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// flightsHandler returns the API as a handler.
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

// methodNotAllowed refuses every method. Those that are allowed have handlers of their own.
func methodNotAllowed(allowed []string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", strings.Replace(strings.Join(allowed, ", "), "GET", "GET, HEAD", 1))
		writeError(w, http.StatusMethodNotAllowed, "", fmt.Sprintf("method %s is not allowed, use %s", r.Method, strings.Join(allowed, " or ")))
	}
}

// flightsList is a list of the API.
type flightsList struct {
	path  string
	parse func(rawQuery string) (listQuery, *parameterError)
	rows  func(listQuery) table
}

// handler serves the list in a format.
func (l *flightsList) handler(format rowFormat) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, wrong := l.parse(r.URL.RawQuery)
		if wrong != nil {
			writeError(w, http.StatusBadRequest, wrong.parameter, wrong.message)
			return
		}
		if failOnRequest(w, r, q.fail) {
			return
		}
		t := l.rows(q)
		if q.limit > 0 {
			t = t.first(q.limit)
		}
		w.Header().Set("Content-Type", format.mediaType())
		t.write(w, format, q.fail)
	}
}

// The failures that a request may ask for, besides a status.
const (
	failRagged = "ragged"
	failBroken = "broken"
	failSlow   = "slow"
	failHTML   = "html"
)

func failures() []string {
	return []string{"500", "503", "429", failSlow, failRagged, failBroken, failHTML}
}

// failOnRequest answers in place of the list, or waits until the client leaves. It reports whether the answer is complete.
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
		_, _ = io.WriteString(w, "<!doctype html><title>Flights</title><p>Please log in.</p>\n") // the client may have left
		return true
	case failSlow:
		select {
		case <-time.After(slowAnswer):
		case <-r.Context().Done():
			return true
		}
	}
	return false
}

// book answers a posted object with an id, which is the same for the same bytes.
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
	_ = json.NewEncoder(w).Encode(body) // the client may have left
}
