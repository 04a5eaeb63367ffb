package flightsapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"mime"
	"net/http"
	"slices"
	"time"
)

const (
	maxBooking = 64 << 10 // bytes of what is posted
	slowAnswer = 8 * time.Second
)

// New is the API as a handler. It holds no state.
func New() http.Handler {
	mux := http.NewServeMux()
	for _, f := range []format{formatJSON, formatCSV, formatNDJSON} {
		flights := only(map[string]http.HandlerFunc{http.MethodGet: search(f)})
		mux.HandleFunc("/flights"+f.suffix(), flights)
		mux.HandleFunc("/search"+f.suffix(), flights)
		mux.HandleFunc("/airlines"+f.suffix(), only(map[string]http.HandlerFunc{http.MethodGet: list(f, Airlines)}))
		methods := map[string]http.HandlerFunc{http.MethodGet: list(f, Bookings)}
		if f == formatJSON {
			methods[http.MethodPost] = book
		}
		mux.HandleFunc("/bookings"+f.suffix(), only(methods))
	}
	mux.HandleFunc("/{$}", only(map[string]http.HandlerFunc{http.MethodGet: describe}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "", fmt.Sprintf("no such path %q; try /flights, /airlines or /bookings", r.URL.Path))
	})
	return mux
}

// only answers other methods than those given with an error; who answers GET answers HEAD.
func only(methods map[string]http.HandlerFunc) http.HandlerFunc {
	allow, use := "GET, HEAD", "use GET"
	if methods[http.MethodPost] != nil {
		allow, use = allow+", POST", use+" or POST"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		next, ok := methods[method]
		if !ok {
			w.Header().Set("Allow", allow)
			writeError(w, http.StatusMethodNotAllowed, "", fmt.Sprintf("method %s is not allowed, %s", r.Method, use))
			return
		}
		next(w, r)
	}
}

func search(f format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, wrong := parseFlights(r.URL.RawQuery)
		if wrong != nil {
			writeError(w, http.StatusBadRequest, wrong.parameter, wrong.message)
			return
		}
		rows := pair(q.origin, q.dest, q.count)
		if q.origin == "" {
			rows = world(q.count)
		}
		if q.maxPrice > 0 {
			all := rows
			rows = func(yield func(Flight) bool) {
				for flight := range all {
					if float64(flight.Price) <= q.maxPrice && !yield(flight) {
						return
					}
				}
			}
		}
		answer(w, r, f, q, rows)
	}
}

func list[R row](f format, all func() []R) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, wrong := parseQuery(r.URL.RawQuery, "limit", "fail")
		if wrong != nil {
			writeError(w, http.StatusBadRequest, wrong.parameter, wrong.message)
			return
		}
		answer(w, r, f, q, slices.Values(all()))
	}
}

// answer writes a list, or fails as asked.
func answer[R row](w http.ResponseWriter, r *http.Request, f format, q query, rows iter.Seq[R]) {
	if failed(w, r, q.fail) {
		return
	}
	if q.limit > 0 {
		rows = firstOf(rows, q.limit)
	}
	w.Header().Set("Content-Type", f.media())
	write(w, f, rows, q.fail)
}

func firstOf[R any](rows iter.Seq[R], n int) iter.Seq[R] {
	return func(yield func(R) bool) {
		left := n
		for r := range rows {
			if left--; !yield(r) || left == 0 {
				return
			}
		}
	}
}

// book answers what was posted with an id, which is the same for the same bytes.
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

func describe(w http.ResponseWriter, _ *http.Request) {
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
	_ = json.NewEncoder(w).Encode(body) // a client that went away is nobody's fault
}
