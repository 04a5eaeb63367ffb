package flightsapi

import (
	"fmt"
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

const (
	// flightsPerPair is how many flights every pair of places has, unless more are asked for.
	flightsPerPair = 50
	bookings       = 40
)

// Flight is one offer. Prices are whole dollars, and none of the first 50 flights of a pair cost the same, so that sorting by price has
// one right answer.
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
	AirlineCode string    `json:"airline_code"`
}

func (Flight) header() []string {
	return []string{"id", "airline", "origin", "dest", "price", "departure", "arrival", "stops", "duration_min", "airline_code"}
}

func (f Flight) cells() []string {
	return []string{
		f.ID, f.Airline, f.Origin, f.Dest, strconv.Itoa(f.Price), f.Departure.Format(time.RFC3339), f.Arrival.Format(time.RFC3339),
		strconv.Itoa(f.Stops), strconv.Itoa(f.DurationMin), f.AirlineCode,
	}
}

// Airline flies.
type Airline struct {
	Code    string `json:"code"`
	Name    string `json:"name"`
	Country string `json:"country"`
	Founded int    `json:"founded"` // year
	Phone   string `json:"phone"`
}

func (Airline) header() []string { return []string{"code", "name", "country", "founded", "phone"} }

func (a Airline) cells() []string {
	return []string{a.Code, a.Name, a.Country, strconv.Itoa(a.Founded), a.Phone}
}

// Airlines lists who flies, and one that has no flights. They are made up, so that nobody takes the offers for real ones.
func Airlines() []Airline {
	return []Airline{
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

// Flights lists the flights of a pair of places, in no useful order: the same list for the same pair, always.
func Flights(origin, dest string) []Flight {
	flights := make([]Flight, 0, flightsPerPair)
	for f := range pair(origin, dest, flightsPerPair) {
		flights = append(flights, f)
	}
	return flights
}

// pair makes n flights; fewer are the first ones of more.
func pair(origin, dest string, n int) iter.Seq[Flight] {
	return func(yield func(Flight) bool) {
		random := rand.New(rand.NewPCG(seed(origin+dest), 0))
		day := time.Date(2027, time.March, 1, 0, 0, 0, 0, time.UTC)
		nonstop := nonstopMinutes(origin, dest)
		carriers := Airlines()
		carriers = carriers[:len(carriers)-1] // the last one has no flights
		taken := make(map[int]bool, flightsPerPair)
		for i := range n {
			carrier := carriers[random.IntN(len(carriers))]
			stops := min(random.IntN(4), 2) // 0, 1, or as often as both together 2
			minutes := nonstop + random.IntN(20) + stops*(45+random.IntN(90))
			price := 89 + nonstop/3 + random.IntN(500) - 20*stops
			for i < flightsPerPair && taken[price] {
				price++
			}
			taken[price] = true
			departure := day.Add(time.Duration(random.IntN(24*12)) * 5 * time.Minute)
			f := Flight{
				ID: fmt.Sprintf("%s%d", carrier.Code, 101+7*i), Airline: carrier.Name, Origin: origin, Dest: dest, Price: price, Departure: departure,
				Arrival: departure.Add(time.Duration(minutes) * time.Minute), Stops: stops, DurationMin: minutes, AirlineCode: carrier.Code,
			}
			if !yield(f) {
				return
			}
		}
	}
}

// world makes n flights between many places, as many for each pair as it takes. Its ids begin with the places, since those of pairs are alike.
func world(n int) iter.Seq[Flight] {
	places := []string{"NYC", "LAX", "SFO", "BOS", "ORD", "SEA", "MIA", "DEN", "LHR", "CDG", "BER", "HND"}
	pairs := len(places) * (len(places) - 1)
	return func(yield func(Flight) bool) {
		left := n
		for _, origin := range places {
			for _, dest := range places {
				if origin == dest {
					continue
				}
				for f := range pair(origin, dest, min((n+pairs-1)/pairs, left)) {
					f.ID = origin + dest + "-" + f.ID
					if !yield(f) {
						return
					}
					left--
				}
			}
		}
	}
}

// Booking is of a flight from NYC to LAX. Its dates and texts are in many forms on purpose.
type Booking struct {
	ID          string    `json:"id"`
	FlightID    string    `json:"flight_id"`
	AirlineCode string    `json:"airline_code"`
	Passenger   string    `json:"passenger"`
	Seats       int       `json:"seats"`
	BookedOn    string    `json:"booked_on"` // 31/01/2027
	PaidOn      string    `json:"paid_on"`   // Jan 31, 2027
	UpdatedAt   time.Time `json:"updated_at"`
	Phone       string    `json:"phone"`
	Contact     string    `json:"contact"`
	Coupon      *string   `json:"coupon"`
}

func (Booking) header() []string {
	return []string{"id", "flight_id", "airline_code", "passenger", "seats", "booked_on", "paid_on", "updated_at", "phone", "contact", "coupon"}
}

func (b Booking) cells() []string {
	coupon := ""
	if b.Coupon != nil {
		coupon = *b.Coupon
	}
	return []string{
		b.ID, b.FlightID, b.AirlineCode, b.Passenger, strconv.Itoa(b.Seats), b.BookedOn, b.PaidOn, b.UpdatedAt.Format(time.RFC3339), b.Phone, b.Contact,
		coupon,
	}
}

// Bookings lists who flies where.
func Bookings() []Booking {
	random := rand.New(rand.NewPCG(seed("bookings"), 0))
	first := []string{"Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Katherine", "Tim"}
	last := []string{"Lovelace", "Hopper", "Turing", "Dijkstra", "Liskov", "Knuth", "Johnson", "Lee"}
	areas := []string{"212", "310", "415", "617", "718"}
	flights := Flights("NYC", "LAX")
	list := make([]Booking, 0, bookings)
	for i := range bookings {
		f := flights[random.IntN(len(flights))]
		name := []string{first[random.IntN(len(first))], last[random.IntN(len(last))]}
		booked := time.Date(2027, time.January, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(random.IntN(50*24*60)) * time.Minute)
		phone := fmt.Sprintf("%s-555-%04d", areas[random.IntN(len(areas))], 100+random.IntN(100))
		b := Booking{
			ID: fmt.Sprintf("B%04d", 1001+i), FlightID: f.ID, AirlineCode: f.AirlineCode, Passenger: strings.Join(name, " "), Seats: 1 + random.IntN(4),
			BookedOn: booked.Format("02/01/2006"), PaidOn: booked.AddDate(0, 0, random.IntN(5)).Format("Jan 02, 2006"), UpdatedAt: booked.Add(time.Hour),
			Phone: phone, Contact: fmt.Sprintf("%s <%s@example.com>", strings.Join(name, " "), strings.ToLower(strings.Join(name, "."))),
		}
		if random.IntN(4) == 0 {
			coupon := fmt.Sprintf("SAVE%d", 5*(1+random.IntN(4)))
			b.Coupon = &coupon
		}
		list = append(list, b)
	}
	return list
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
