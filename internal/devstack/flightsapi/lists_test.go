package flightsapi_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/flightsapi"
)

const pair = "?origin=NYC&dest=LAX"

func serve(t *testing.T, method, target, contentType, body string) *httptest.ResponseRecorder {
	t.Helper()
	answer := httptest.NewRecorder()
	request := httptest.NewRequest(method, target, strings.NewReader(body))
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	flightsapi.New().ServeHTTP(answer, request)
	return answer
}

func rows(t *testing.T, body string) []map[string]any {
	t.Helper()
	var list []map[string]any
	require.NoError(t, json.Unmarshal([]byte(body), &list))
	return list
}

// The three formats hold the same.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, list := range []string{"/flights", "/airlines", "/bookings"} {
		query := ""
		if list == "/flights" {
			query = pair
		}
		whole := serve(t, "GET", list+query, "", "")
		require.Equal(t, "application/json", whole.Header().Get("Content-Type"))
		want := rows(t, whole.Body.String())
		require.NotEmpty(t, want)

		lines := serve(t, "GET", list+".ndjson"+query, "", "")
		require.Equal(t, "application/x-ndjson", lines.Header().Get("Content-Type"))
		var got []map[string]any
		for d := json.NewDecoder(lines.Body); d.More(); {
			var row map[string]any
			require.NoError(t, d.Decode(&row))
			got = append(got, row)
		}
		require.Equal(t, want, got)

		table := serve(t, "GET", list+".csv"+query, "", "")
		require.Equal(t, "text/csv; charset=utf-8", table.Header().Get("Content-Type"))
		records, err := csv.NewReader(table.Body).ReadAll()
		require.NoError(t, err)
		require.Len(t, records, len(want)+1)
		for i, record := range records[1:] {
			require.Len(t, want[i], len(record))
			for j, name := range records[0] {
				switch v := want[i][name].(type) {
				case string:
					require.Equal(t, v, record[j])
				case nil:
					require.Empty(t, record[j])
				default:
					raw, err := json.Marshal(v)
					require.NoError(t, err)
					require.Equal(t, string(raw), record[j])
				}
			}
		}
	}
	empty := serve(t, "GET", "/flights.csv"+pair+"&max_price=0.5", "", "").Body.String()
	require.Equal(t, "id,airline,origin,dest,price,departure,arrival,stops,duration_min,airline_code\n", empty, "a header alone")
	require.Len(t, strings.Split(serve(t, "GET", "/bookings.csv?limit=2", "", "").Body.String(), "\n"), 4)
}

// The lists belong together, and have what each step of a pipeline wants.
func TestLists(t *testing.T) {
	t.Parallel()
	codes, flights := map[string]bool{}, map[string]bool{}
	for _, a := range flightsapi.Airlines() {
		require.False(t, codes[a.Code])
		codes[a.Code] = true
	}
	for _, f := range flightsapi.Flights("NYC", "LAX") {
		require.True(t, codes[f.AirlineCode])
		require.NotEqual(t, "ZE", f.AirlineCode, "it has no flights")
		flights[f.ID] = true
	}
	coupons := 0
	for _, b := range flightsapi.Bookings() {
		require.True(t, flights[b.FlightID])
		_, err := time.Parse("02/01/2006", b.BookedOn)
		require.NoError(t, err)
		_, err = time.Parse("Jan 02, 2006", b.PaidOn)
		require.NoError(t, err)
		require.Regexp(t, `^\d{3}-555-\d{4}$`, b.Phone)
		require.Regexp(t, `^\w+ \w+ <[a-z.]+@example\.com>$`, b.Contact)
		if b.Coupon != nil {
			coupons++
		}
	}
	require.Positive(t, coupons)
	require.Less(t, coupons, 40)
	require.Equal(t, serve(t, "GET", "/bookings", "", "").Body.String(), serve(t, "GET", "/bookings", "", "").Body.String())
}

func TestManyFlights(t *testing.T) {
	t.Parallel()
	list := rows(t, serve(t, "GET", "/flights?count=5000", "", "").Body.String())
	require.Len(t, list, 5000)
	ids := map[any]bool{}
	for _, f := range list {
		require.False(t, ids[f["id"]], "%v is there twice", f["id"])
		ids[f["id"]] = true
	}
	require.Equal(t, flightsapi.Flights("NYC", "LAX"), get(t, "/flights"+pair+"&count=5000")[:50], "fewer are the first ones of more")
}

func TestPosting(t *testing.T) {
	t.Parallel()
	answer := serve(t, "POST", "/bookings", "application/json", `{"passenger":"Ada","seats":2}`)
	require.Equal(t, http.StatusCreated, answer.Code)
	var booking map[string]any
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &booking))
	require.Equal(t, "Ada", booking["passenger"])
	require.InDelta(t, 2, booking["seats"], 0)
	require.Equal(t, "confirmed", booking["status"])
	require.Regexp(t, `^B[0-9A-F]{8}$`, booking["id"])
	require.Equal(t, answer.Body.String(), serve(t, "POST", "/bookings", "application/json", `{"passenger":"Ada","seats":2}`).Body.String())

	for body, status := range map[string]int{"[]": 400, "null": 400, "{": 400, "": 400, `{"a":"` + strings.Repeat("x", 70_000) + `"}`: 413} {
		require.Equal(t, status, serve(t, "POST", "/bookings", "application/json", body).Code)
	}
	require.Equal(t, 415, serve(t, "POST", "/bookings", "text/plain", `{}`).Code)
}

func TestFailures(t *testing.T) {
	t.Parallel()
	fail := func(path, how string) string { return serve(t, "GET", path+how, "", "").Body.String() }
	require.False(t, json.Valid([]byte(fail("/flights", pair+"&fail=broken"))))
	require.True(t, strings.HasPrefix(fail("/flights", pair+"&fail=broken"), `[{"id"`))
	broken := strings.Split(strings.TrimSpace(fail("/flights.ndjson", pair+"&fail=broken")), "\n")
	require.Len(t, broken, 50)
	require.True(t, json.Valid([]byte(broken[48])))
	require.False(t, json.Valid([]byte(broken[49])))
	_, err := csv.NewReader(strings.NewReader(fail("/airlines.csv", "?fail=broken"))).ReadAll()
	require.ErrorIs(t, err, csv.ErrQuote)

	_, err = csv.NewReader(strings.NewReader(fail("/airlines.csv", "?fail=ragged"))).ReadAll()
	require.ErrorIs(t, err, csv.ErrFieldCount)
	require.ErrorContains(t, err, "line 4")
	list := rows(t, fail("/airlines", "?fail=ragged"))
	require.Contains(t, list[1], "phone")
	require.NotContains(t, list[2], "phone")
	require.Equal(t, "n/a", list[2]["founded"])
	require.Contains(t, fail("/flights", pair+"&fail=html"), "<title>")
	for _, status := range []string{"503", "429"} {
		require.Equal(t, "1", serve(t, "GET", "/airlines?fail="+status, "", "").Header().Get("Retry-After"))
	}
}

// A slow answer ends when its client leaves.
func TestSlow(t *testing.T) {
	t.Parallel()
	ctx, leave := context.WithCancel(t.Context())
	served := make(chan struct{})
	answer := httptest.NewRecorder()
	go func() {
		defer close(served)
		flightsapi.New().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/airlines?fail=slow", http.NoBody).WithContext(ctx))
	}()
	leave()
	<-served
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Empty(t, body)
}
