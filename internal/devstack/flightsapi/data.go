package flightsapi

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// flightsPerPair is how many flights every pair of places has.
const flightsPerPair = 50

// Flight is one offer. Prices are whole dollars, and no two flights of a pair cost the same, so that sorting by
// price has one right answer.
type Flight struct {
	ID          string    `json:"id"`
	Airline     string    `json:"airline"`
	Origin      string    `json:"origin"`
	Dest        string    `json:"dest"`
	Price       int       `json:"price"`
	Departure   time.Time `json:"departure"`
	Arrival     time.Time `json:"arrival"`
	Stops       int       `json:"stops"`
	DurationMin int       `json:"duration_min"`
}

type airline struct{ code, name string }

// airlines are made up, so that nobody takes the offers for real ones.
func airlines() []airline {
	return []airline{
		{"AU", "Aurora Air"},
		{"BH", "Blue Heron"},
		{"CO", "Contrail"},
		{"DR", "Driftway"},
		{"MS", "Meridian Sky"},
		{"NW", "Northwind"},
		{"PL", "Plover Airlines"},
		{"SK", "Skylark"},
	}
}

// Flights lists the flights of a pair of places, in no useful order: the same list for the same pair, always.
func Flights(origin, dest string) []Flight {
	random := rand.New(rand.NewPCG(seed(origin+dest), 0))
	day := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
	nonstop := nonstopMinutes(origin, dest)
	carriers := airlines()
	taken := make(map[int]bool, flightsPerPair)
	flights := make([]Flight, 0, flightsPerPair)
	for i := range flightsPerPair {
		carrier := carriers[random.IntN(len(carriers))]
		stops := min(random.IntN(4), 2) // 0, 1, or as often as both together 2
		minutes := nonstop + random.IntN(20) + stops*(45+random.IntN(90))
		price := 89 + nonstop/3 + random.IntN(500) - 20*stops
		for taken[price] {
			price++
		}
		taken[price] = true
		departure := day.Add(time.Duration(random.IntN(24*12)) * 5 * time.Minute)
		flights = append(flights, Flight{
			ID:          fmt.Sprintf("%s%d", carrier.code, 101+7*i),
			Airline:     carrier.name,
			Origin:      origin,
			Dest:        dest,
			Price:       price,
			Departure:   departure,
			Arrival:     departure.Add(time.Duration(minutes) * time.Minute),
			Stops:       stops,
			DurationMin: minutes,
		})
	}
	return flights
}

// nonstopMinutes is the same in both directions: 50 to 449.
func nonstopMinutes(a, b string) int {
	if a > b {
		a, b = b, a
	}
	return 50 + int(seed(a+"-"+b)%400)
}

func seed(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text)) // never fails
	return hash.Sum64()
}
