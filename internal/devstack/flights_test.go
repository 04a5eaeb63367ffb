package devstack

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const newYorkToLosAngeles = "?origin=NYC&dest=LAX"

// serveFlights returns the answer to a request with the content type of JSON.
func serveFlights(method, target, body string) *httptest.ResponseRecorder {
	answer, request := httptest.NewRecorder(), httptest.NewRequest(method, target, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	flightsHandler().ServeHTTP(answer, request)
	return answer
}

// getRows requests a list and returns its rows.
func getRows(t *testing.T, target string) []map[string]any {
	t.Helper()
	answer := serveFlights("GET", target, "")
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	var rows []map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &rows))
	require.NotNil(t, rows, "an empty list is [], never null")
	return rows
}

func TestFlights(t *testing.T) {
	for name, test := range map[string]struct {
		query string
		count int
	}{
		"all":             {newYorkToLosAngeles, 50},
		"lower case":      {"?origin=nyc&dest=lax", 50},
		"unknown places":  {"?origin=QQQ&dest=ZZZ", 50},
		"limit":           {newYorkToLosAngeles + "&limit=3", 3},
		"count":           {newYorkToLosAngeles + "&count=300", 300},
		"count only":      {"?count=5000", 5000},
		"count of one":    {"?count=1", 1},
		"count and limit": {"?count=1000&limit=7", 7},
		"no such price":   {newYorkToLosAngeles + "&max_price=0.5", 0},
	} {
		t.Run(name, func(t *testing.T) {
			flights := getRows(t, "/flights"+test.query)
			require.Equal(t, flights, getRows(t, "/search"+test.query))
			require.Len(t, flights, test.count)
			ids := map[any]bool{}
			for _, f := range flights {
				require.False(t, ids[f["id"]], "id %v is used twice", f["id"])
				ids[f["id"]] = true
				require.Contains(t, f["id"], f["airline_code"])
				require.NotEqual(t, "ZE", f["airline_code"], "the airline has no flights")
				require.Positive(t, f["price"])
				departure, err := time.Parse(time.RFC3339, f["departure"].(string))
				require.NoError(t, err)
				arrival, err := time.Parse(time.RFC3339, f["arrival"].(string))
				require.NoError(t, err)
				require.InDelta(t, f["duration_min"], arrival.Sub(departure).Minutes(), 0)
			}
		})
	}
	all := getRows(t, "/flights"+newYorkToLosAngeles)
	require.Equal(t, all, getRows(t, "/flights"+newYorkToLosAngeles+"&count=5000")[:50], "a short list is the beginning of a longer one")
	cheap := slices.DeleteFunc(slices.Clone(all), func(f map[string]any) bool { return f["price"].(float64) > 300 })
	require.NotEmpty(t, cheap)
	require.Equal(t, cheap, getRows(t, "/flights"+newYorkToLosAngeles+"&max_price=300"))
}

// The flights do not change, because the documentation quotes them. The prices of a pair differ, so that sorting by price has one right answer.
func TestFlightsAreStable(t *testing.T) {
	for _, pair := range []string{newYorkToLosAngeles, "?origin=LAX&dest=NYC", "?origin=BER&dest=OSL", "?origin=AAA&dest=AAB"} {
		prices := map[any]bool{}
		for _, f := range getRows(t, "/flights"+pair) {
			require.False(t, prices[f["price"]], "price %v twice in %s", f["price"], pair)
			prices[f["price"]] = true
		}
	}
	flights := getRows(t, "/flights"+newYorkToLosAngeles)
	slices.SortFunc(flights, func(a, b map[string]any) int { return int(a["price"].(float64) - b["price"].(float64)) })
	require.Equal(t, []any{"AU164", "CO395", "CO290", 234.0}, []any{flights[0]["id"], flights[1]["id"], flights[2]["id"], flights[0]["price"]})
}

// The three formats have the same rows.
func TestFlightFormats(t *testing.T) {
	for _, list := range []string{"/flights", "/airlines", "/bookings"} {
		query := ""
		if list == "/flights" {
			query = newYorkToLosAngeles
		}
		require.Equal(t, "application/json", serveFlights("GET", list+query, "").Header().Get("Content-Type"))
		want := getRows(t, list+query)
		require.NotEmpty(t, want)

		lines := serveFlights("GET", list+".ndjson"+query, "")
		require.Equal(t, "application/x-ndjson", lines.Header().Get("Content-Type"))
		var got []map[string]any
		for d := json.NewDecoder(lines.Body); d.More(); {
			var row map[string]any
			require.NoError(t, d.Decode(&row))
			got = append(got, row)
		}
		require.Equal(t, want, got)

		file := serveFlights("GET", list+".csv"+query, "")
		require.Equal(t, "text/csv; charset=utf-8", file.Header().Get("Content-Type"))
		records, err := csv.NewReader(file.Body).ReadAll()
		require.NoError(t, err)
		require.Len(t, records, len(want)+1)
		for i, record := range records[1:] {
			require.Len(t, want[i], len(record))
			for j, name := range records[0] {
				if want[i][name] == nil {
					require.Empty(t, record[j])
					continue
				}
				raw, err := json.Marshal(want[i][name])
				require.NoError(t, err)
				var text string
				if json.Unmarshal(raw, &text) != nil {
					text = string(raw)
				}
				require.Equal(t, text, record[j])
			}
		}
	}
	empty := serveFlights("GET", "/flights.csv"+newYorkToLosAngeles+"&max_price=0.5", "").Body.String()
	require.Equal(t, "id,airline,origin,dest,price,departure,arrival,stops,duration_min,airline_code\n", empty, "only the header")
	require.Len(t, strings.Split(serveFlights("GET", "/bookings.csv?limit=2", "").Body.String(), "\n"), 4)
}

// Bookings refer to flights, and have values for all steps of a pipeline.
func TestBookings(t *testing.T) {
	flights := map[any]bool{}
	for _, f := range getRows(t, "/flights"+newYorkToLosAngeles) {
		flights[f["id"]] = true
	}
	coupons := 0
	for _, b := range getRows(t, "/bookings") {
		require.True(t, flights[b["flight_id"]])
		_, err := time.Parse("02/01/2006", b["booked_on"].(string))
		require.NoError(t, err)
		_, err = time.Parse("Jan 02, 2006", b["paid_on"].(string))
		require.NoError(t, err)
		require.Regexp(t, `^\d{3}-555-\d{4}$`, b["phone"])
		require.Regexp(t, `^\w+ \w+ <[a-z.]+@example\.com>$`, b["contact"])
		if b["coupon"] != nil {
			coupons++
		}
	}
	require.Positive(t, coupons)
	require.Less(t, coupons, 40)
	require.Equal(t, getRows(t, "/bookings"), getRows(t, "/bookings"))

	answer := serveFlights("POST", "/bookings", `{"passenger":"Ada","seats":2}`)
	require.Equal(t, http.StatusCreated, answer.Code)
	var booking map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &booking))
	require.Regexp(t, `^B[0-9A-F]{8}$`, booking["id"])
	delete(booking, "id")
	require.Equal(t, map[string]any{"passenger": "Ada", "seats": 2.0, "status": "confirmed"}, booking)
	require.Equal(t, answer.Body.String(), serveFlights("POST", "/bookings", `{"passenger":"Ada","seats":2}`).Body.String())
	for body, status := range map[string]int{"[]": 400, "null": 400, "{": 400, "": 400, `{"a":"` + strings.Repeat("x", 70_000) + `"}`: 413} {
		require.Equal(t, status, serveFlights("POST", "/bookings", body).Code)
	}
	request := httptest.NewRequest(http.MethodPost, "/bookings", strings.NewReader("{}"))
	text := httptest.NewRecorder()
	flightsHandler().ServeHTTP(text, request)
	require.Equal(t, http.StatusUnsupportedMediaType, text.Code)
}

func TestFlightFailures(t *testing.T) {
	get := func(path, query string) string { return serveFlights("GET", path+query, "").Body.String() }
	require.False(t, json.Valid([]byte(get("/flights", newYorkToLosAngeles+"&fail=broken"))))
	require.True(t, strings.HasPrefix(get("/flights", newYorkToLosAngeles+"&fail=broken"), `[{"id"`))
	broken := strings.Split(strings.TrimSpace(get("/flights.ndjson", newYorkToLosAngeles+"&fail=broken")), "\n")
	require.Len(t, broken, 50)
	require.True(t, json.Valid([]byte(broken[48])))
	require.False(t, json.Valid([]byte(broken[49])))
	_, err := csv.NewReader(strings.NewReader(get("/airlines.csv", "?fail=broken"))).ReadAll()
	require.ErrorIs(t, err, csv.ErrQuote)

	_, err = csv.NewReader(strings.NewReader(get("/airlines.csv", "?fail=ragged"))).ReadAll()
	require.ErrorIs(t, err, csv.ErrFieldCount)
	require.ErrorContains(t, err, "line 4")
	rows := getRows(t, "/airlines?fail=ragged")
	require.Contains(t, rows[1], "phone")
	require.NotContains(t, rows[2], "phone")
	require.Equal(t, "n/a", rows[2]["founded"])
	require.Contains(t, get("/flights", newYorkToLosAngeles+"&fail=html"), "<title>")
	for _, status := range []string{"503", "429"} {
		require.Equal(t, "1", serveFlights("GET", "/airlines?fail="+status, "").Header().Get("Retry-After"))
	}

	// A slow answer ends when its client leaves.
	ctx, leave := context.WithCancel(t.Context())
	leave()
	slow := httptest.NewRecorder()
	flightsHandler().ServeHTTP(slow, httptest.NewRequestWithContext(ctx, http.MethodGet, "/airlines?fail=slow", http.NoBody))
	require.Empty(t, slow.Body.String())
}

func TestFlightRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		method, target string
		status         int
		parameter      string
	}{
		"no origin":         {"GET", "/flights?dest=LAX", 400, "origin"},
		"no dest":           {"GET", "/flights?origin=NYC", 400, "dest"},
		"empty dest":        {"GET", "/flights?origin=NYC&dest=", 400, "dest"},
		"long code":         {"GET", "/flights?origin=PARIS&dest=LAX", 400, "origin"},
		"digits":            {"GET", "/flights?origin=NY1&dest=LAX", 400, "origin"},
		"three bytes":       {"GET", "/flights?origin=%E2%82%AC&dest=LAX", 400, "origin"},
		"same place":        {"GET", "/flights?origin=NYC&dest=nyc", 400, "dest"},
		"unknown parameter": {"GET", "/flights?origin=NYC&dest=LAX&sort=price", 400, "sort"},
		"twice":             {"GET", "/flights?origin=NYC&origin=BOS&dest=LAX", 400, "origin"},
		"limit zero":        {"GET", "/flights?origin=NYC&dest=LAX&limit=0", 400, "limit"},
		"limit too high":    {"GET", "/flights?origin=NYC&dest=LAX&limit=51", 400, "limit"},
		"count zero":        {"GET", "/flights?count=0", 400, "count"},
		"count too high":    {"GET", "/flights?count=200001", 400, "count"},
		"count, one place":  {"GET", "/flights?count=10&origin=NYC", 400, "dest"},
		"limit above count": {"GET", "/flights?count=10&limit=11", 400, "limit"},
		"unknown failure":   {"GET", "/flights?origin=NYC&dest=LAX&fail=maybe", 400, "fail"},
		"airlines' origin":  {"GET", "/airlines?origin=NYC", 400, "origin"},
		"post airlines":     {"POST", "/airlines", 405, ""},
		"post CSV":          {"POST", "/bookings.csv", 405, ""},
		"fail 500":          {"GET", "/flights?origin=NYC&dest=LAX&fail=500", 500, "fail"},
		"fail 503":          {"GET", "/airlines?fail=503", 503, "fail"},
		"fail 429":          {"GET", "/bookings.csv?fail=429", 429, "fail"},
		"limit a word":      {"GET", "/flights?origin=NYC&dest=LAX&limit=few", 400, "limit"},
		"price not finite":  {"GET", "/flights?origin=NYC&dest=LAX&max_price=NaN", 400, "max_price"},
		"price negative":    {"GET", "/flights?origin=NYC&dest=LAX&max_price=-1", 400, "max_price"},
		"malformed":         {"GET", "/flights?origin=%zz", 400, ""},
		"wrong method":      {"POST", "/flights?origin=NYC&dest=LAX", 405, ""},
		"wrong path":        {"GET", "/trains", 404, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := serveFlights(test.method, test.target, "")
			require.Equal(t, test.status, answer.Code)
			require.Equal(t, "application/json", answer.Header().Get("Content-Type"))
			var body struct {
				Error struct{ Message, Parameter string }
			}
			require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &body))
			require.NotEmpty(t, body.Error.Message)
			require.Equal(t, test.parameter, body.Error.Parameter)
		})
	}
}

func FuzzFlights(f *testing.F) {
	f.Add("origin=NYC&dest=LAX&limit=3&max_price=1e3")
	f.Add("origin=%00&dest=;&limit=")
	handler := flightsHandler()
	f.Fuzz(func(t *testing.T, rawQuery string) {
		request := httptest.NewRequest(http.MethodGet, "/flights", http.NoBody)
		request.URL.RawQuery = rawQuery
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, answer.Code)
		require.True(t, json.Valid(answer.Body.Bytes()))
	})
}
