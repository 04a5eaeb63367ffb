package flightsapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/internal/devstack/flightsapi"
)

func TestSearch(t *testing.T) {
	tests := map[string]struct {
		target string
		count  int
	}{
		"all":              {"/flights?origin=NYC&dest=LAX", 50},
		"alias":            {"/search?origin=NYC&dest=LAX", 50},
		"lower case":       {"/flights?origin=nyc&dest=lax", 50},
		"places made up":   {"/flights?origin=QQQ&dest=ZZZ", 50},
		"limit":            {"/flights?origin=NYC&dest=LAX&limit=3", 3},
		"as many":          {"/flights?origin=NYC&dest=LAX&count=300", 300},
		"anywhere":         {"/flights?count=1001", 1001},
		"one anywhere":     {"/flights?count=1", 1},
		"anywhere, some":   {"/flights?count=1000&limit=7", 7},
		"nothing so cheap": {"/flights?origin=NYC&dest=LAX&max_price=0.5", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			flights := get(t, test.target)
			require.Len(t, flights, test.count)
			for _, flight := range flights {
				require.NotEmpty(t, flight.ID)
				require.NotEmpty(t, flight.Airline)
				require.Positive(t, flight.Price)
				require.Contains(t, flight.ID, flight.AirlineCode)
				require.InDelta(t, flight.DurationMin, flight.Arrival.Sub(flight.Departure).Minutes(), 0)
			}
		})
	}
}

func TestMaxPriceKeepsExactlyTheCheapOnes(t *testing.T) {
	all := get(t, "/flights?origin=NYC&dest=LAX")
	want := slices.DeleteFunc(slices.Clone(all), func(f flightsapi.Flight) bool { return f.Price > 300 })
	require.NotEmpty(t, want)
	require.Less(t, len(want), len(all))
	require.Equal(t, want, get(t, "/flights?origin=NYC&dest=LAX&max_price=300"))
}

// The demo and its documentation quote these.
func TestNewYorkToLosAngelesIsStable(t *testing.T) {
	flights := get(t, "/flights?origin=NYC&dest=LAX")
	slices.SortFunc(flights, func(a, b flightsapi.Flight) int { return a.Price - b.Price })
	var top []string
	for _, flight := range flights[:3] {
		top = append(top, flight.ID)
	}
	require.Equal(t, []string{"AU164", "CO395", "CO290"}, top)
	require.Equal(t, 234, flights[0].Price)
}

func TestPricesAndIDsAreDistinct(t *testing.T) {
	for _, pair := range [][2]string{{"NYC", "LAX"}, {"LAX", "NYC"}, {"BER", "OSL"}, {"AAA", "AAB"}} {
		prices, ids := map[int]bool{}, map[string]bool{}
		for _, flight := range flightsapi.Flights(pair[0], pair[1]) {
			require.False(t, prices[flight.Price], "price %d twice from %s to %s", flight.Price, pair[0], pair[1])
			require.False(t, ids[flight.ID], "id %s twice from %s to %s", flight.ID, pair[0], pair[1])
			prices[flight.Price], ids[flight.ID] = true, true
		}
	}
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
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
		"post no JSON":      {"POST", "/bookings", 415, ""},
		"fail 500":          {"GET", "/flights?origin=NYC&dest=LAX&fail=500", 500, "fail"},
		"fail 503":          {"GET", "/airlines?fail=503", 503, "fail"},
		"fail 429":          {"GET", "/bookings.csv?fail=429", 429, "fail"},
		"limit a word":      {"GET", "/flights?origin=NYC&dest=LAX&limit=few", 400, "limit"},
		"price not finite":  {"GET", "/flights?origin=NYC&dest=LAX&max_price=NaN", 400, "max_price"},
		"price negative":    {"GET", "/flights?origin=NYC&dest=LAX&max_price=-1", 400, "max_price"},
		"malformed":         {"GET", "/flights?origin=%zz", 400, ""},
		"wrong method":      {"POST", "/flights?origin=NYC&dest=LAX", 405, ""},
		"wrong path":        {"GET", "/trains", 404, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			flightsapi.New().ServeHTTP(answer, httptest.NewRequest(test.method, test.target, http.NoBody))
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

func TestServer(t *testing.T) {
	server, err := flightsapi.Start(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	address, err := url.Parse(server.URL())
	require.NoError(t, err)
	_, err = flightsapi.Start(t.Context(), address.Host)
	require.ErrorContains(t, err, "address already in use")

	client := &http.Client{Timeout: 10 * time.Second}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL()+"/", http.NoBody)
	require.NoError(t, err)
	resp, err := client.Do(request)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, resp.Body.Close())
	require.NoError(t, err)
	require.Contains(t, string(body), "/flights?origin=NYC")

	require.NoError(t, server.Stop(t.Context()))
	require.NoError(t, server.Stop(t.Context()))
	_, err = client.Do(request)
	require.Error(t, err)
}

func FuzzSearch(f *testing.F) {
	f.Add("origin=NYC&dest=LAX&limit=3&max_price=1e3")
	f.Add("origin=%00&dest=;&limit=")
	handler := flightsapi.New()
	f.Fuzz(func(t *testing.T, rawQuery string) {
		request := httptest.NewRequest(http.MethodGet, "/flights", http.NoBody)
		request.URL.RawQuery = rawQuery
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		require.Contains(t, []int{http.StatusOK, http.StatusBadRequest}, answer.Code)
		require.True(t, json.Valid(answer.Body.Bytes()))
	})
}

func get(t *testing.T, target string) []flightsapi.Flight {
	t.Helper()
	answer := httptest.NewRecorder()
	flightsapi.New().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, target, http.NoBody))
	require.Equal(t, http.StatusOK, answer.Code, answer.Body)
	var flights []flightsapi.Flight
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &flights))
	require.NotNil(t, flights, "an empty list is [], never null")
	return flights
}
