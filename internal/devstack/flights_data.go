package devstack

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

const (
	flightsPerPair = 50 // default number of flights between two places
	bookingCount   = 40
)

// Indices of columns of flights.
const (
	flightID          = 0
	flightPrice       = 4
	flightAirlineCode = 9
)

// flightsTable returns the flights for a query. There are flights between any two places. The prices of the first 50 flights between two places all
// differ, so that sorting by price has one right answer.
func flightsTable(q listQuery) table {
	rows := pairFlights(q.origin, q.dest, q.count)
	if q.origin == "" {
		rows = worldFlights(q.count)
	}
	if q.maxPrice > 0 {
		all := rows
		rows = func(yield func([]any) bool) {
			for row := range all {
				if price, ok := row[flightPrice].(int); ok && float64(price) <= q.maxPrice && !yield(row) {
					return
				}
			}
		}
	}
	return table{rows: rows, columns: []string{
		"id", "airline", "origin", "dest", "price", "departure", "arrival", "stops", "duration_min", "airline_code",
	}}
}

// airlines returns made-up airlines. The last one has no flights.
func airlines() [][]any {
	return [][]any{
		{"AU", "Aurora Air", "Norway", 1987, "907-555-0142"},
		{"BH", "Blue Heron", "Canada", 2004, "416-555-0117"},
		{"CO", "Contrail", "United States", 1951, "212-555-0163"},
		{"DR", "Driftway", "Iceland", 2012, "612-555-0128"},
		{"MS", "Meridian Sky", "United States", 1968, "303-555-0175"},
		{"NW", "Northwind", "Norway", 1979, "206-555-0190"},
		{"PL", "Plover Airlines", "Ireland", 1996, "617-555-0109"},
		{"SK", "Skylark", "United Kingdom", 1935, "415-555-0156"},
		{"ZE", "Zephyr Ghost", "Portugal", 2026, "305-555-0181"},
	}
}

func airlinesTable() table {
	return table{columns: []string{"code", "name", "country", "founded", "phone"}, rows: slices.Values(airlines())}
}

// pairFlights yields the first n flights of a fixed sequence from origin to dest.
func pairFlights(origin, dest string, n int) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		random := rand.New(rand.NewPCG(seed(origin+dest), 0))
		day := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
		nonstop := nonstopMinutes(origin, dest)
		carriers := airlines()[:len(airlines())-1]
		taken := make(map[int]bool, flightsPerPair)
		for i := range n {
			carrier := carriers[random.IntN(len(carriers))]
			stops := min(random.IntN(4), 2) // half of the flights have 2 stops
			minutes := nonstop + random.IntN(20) + stops*(45+random.IntN(90))
			price := 89 + nonstop/3 + random.IntN(500) - 20*stops
			for i < flightsPerPair && taken[price] {
				price++
			}
			taken[price] = true
			departure := day.Add(time.Duration(random.IntN(24*12)) * 5 * time.Minute)
			arrival := departure.Add(time.Duration(minutes) * time.Minute)
			id := fmt.Sprintf("%s%d", carrier[0], 101+7*i)
			if !yield([]any{id, carrier[1], origin, dest, price, departure, arrival, stops, minutes, carrier[0]}) {
				return
			}
		}
	}
}

// worldFlights yields n flights, evenly spread over many pairs of places. Their ids begin with the places, because pairFlights repeats ids for
// different pairs.
func worldFlights(n int) iter.Seq[[]any] {
	places := []string{"NYC", "LAX", "SFO", "BOS", "ORD", "SEA", "MIA", "DEN", "LHR", "CDG", "BER", "HND"}
	pairs := len(places) * (len(places) - 1)
	return func(yield func([]any) bool) {
		remaining := n
		for _, origin := range places {
			for _, dest := range places {
				if origin == dest {
					continue
				}
				for row := range pairFlights(origin, dest, min((n+pairs-1)/pairs, remaining)) {
					row[flightID] = fmt.Sprint(origin, dest, "-", row[flightID])
					if !yield(row) {
						return
					}
					remaining--
				}
			}
		}
	}
}

// bookingsTable returns bookings of flights from NYC to LAX. Dates have different formats on purpose: booked_on is 31/01/2027 and paid_on is
// Jan 31, 2027. In most rows coupon is null.
func bookingsTable() table {
	random := rand.New(rand.NewPCG(seed("bookings"), 0))
	first := []string{"Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Katherine", "Tim"}
	last := []string{"Lovelace", "Hopper", "Turing", "Dijkstra", "Liskov", "Knuth", "Johnson", "Lee"}
	areas := []string{"212", "310", "415", "617", "718"}
	flights := slices.Collect(pairFlights("NYC", "LAX", flightsPerPair))
	rows := make([][]any, 0, bookingCount)
	for i := range bookingCount {
		flight := flights[random.IntN(len(flights))]
		name := first[random.IntN(len(first))] + " " + last[random.IntN(len(last))]
		booked := time.Date(2027, time.January, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(50*24*60)) * time.Minute)
		phone := fmt.Sprintf("%s-555-%04d", areas[random.IntN(len(areas))], 100+random.IntN(100))
		seats, paid := 1+random.IntN(4), booked.AddDate(0, 0, random.IntN(5))
		contact := fmt.Sprintf("%s <%s@example.com>", name, strings.ToLower(strings.ReplaceAll(name, " ", ".")))
		var coupon any
		if random.IntN(4) == 0 {
			coupon = fmt.Sprintf("SAVE%d", 5*(1+random.IntN(4)))
		}
		rows = append(rows, []any{
			fmt.Sprintf("B%04d", 1001+i), flight[flightID], flight[flightAirlineCode], name, seats, booked.Format("02/01/2006"),
			paid.Format("Jan 02, 2006"), booked.Add(time.Hour), phone, contact, coupon,
		})
	}
	return table{rows: slices.Values(rows), columns: []string{
		"id", "flight_id", "airline_code", "passenger", "seats", "booked_on", "paid_on", "updated_at", "phone", "contact", "coupon",
	}}
}

// nonstopMinutes returns the duration of a flight between two places, 50 to 449 minutes, which is the same in both directions.
func nonstopMinutes(a, b string) int {
	return 50 + int(seed(min(a, b)+"-"+max(a, b))%400)
}

func seed(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text)) // writing to a hash never fails
	return hash.Sum64()
}
