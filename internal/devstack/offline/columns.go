package offline

import (
	"slices"
	"strings"
)

// apiColumns are the fields of the sample API's lists.
func apiColumns(api string) []string {
	switch api {
	case apiFlights:
		return []string{"id", "airline", "origin", "dest", "price", "departure", "arrival", "stops", "duration_min", "airline_code"}
	case apiAirlines:
		return []string{"code", "name", "country", "founded", "phone"}
	case apiBookings:
		return []string{"id", "flight_id", "airline_code", "passenger", "seats", "booked_on", "paid_on", "updated_at", "phone", "contact", "coupon"}
	default:
		return nil
	}
}

// vocabulary are the words for fields that a prompt may use without quotes.
type vocabulary map[string]bool

func vocabularyOf(known []string) vocabulary {
	v := vocabulary{aggCount: true}
	for _, list := range [][]string{known, apiColumns(apiFlights), apiColumns(apiAirlines), apiColumns(apiBookings)} {
		for _, name := range list {
			v[strings.ToLower(name)] = true
		}
	}
	return v
}

// knows reports whether a word, or what it is another word for, is a field.
func (v vocabulary) knows(word string) bool {
	if v[word] || v[strings.TrimSuffix(word, "s")] {
		return true
	}
	return slices.ContainsFunc(synonyms(word), func(s string) bool { return v[s] })
}

// phrase finds a field of several words: "airline code" is airline_code. n is how many tokens it takes, 0 for none.
func (v vocabulary) phrase(tokens []token) (name string, n int) {
	for n := min(3, len(tokens)); n > 1; n-- {
		words := make([]string, n)
		for i := range n {
			if tokens[i].kind != tokenWord {
				words = nil
				break
			}
			words[i] = tokens[i].lower
		}
		if words == nil {
			continue
		}
		if name := strings.Join(words, "_"); v[name] || len(synonyms(name)) > 0 {
			return name, n
		}
	}
	return "", 0
}

// synonyms are the fields that a word may mean.
func synonyms(word string) []string {
	switch word {
	case "cost", "costs", "fare", "fares", "amount", "prices":
		return []string{"price", "cost", "fare", "amount"}
	case "price":
		return []string{"cost", "fare", "amount"}
	case "duration", "length", "minutes":
		return []string{"duration_min"}
	case "duration_min":
		return []string{"duration"}
	case "carrier", "carriers", "airlines", "company":
		return []string{"airline", "carrier", "name"}
	case "airline", "airline_name":
		return []string{"airline", "name", "carrier"}
	case "airline_code":
		return []string{"code"}
	case "code":
		return []string{"airline_code"}
	case "ids", "flight", "flight_number", "flight_id":
		return []string{"flight_id", "id"}
	case "destination", "destinations":
		return []string{"dest"}
	case "origins", "from_city":
		return []string{"origin"}
	case "departure_time", "departs", "departures", "leaves":
		return []string{"departure"}
	case "arrival_time", "arrives", "arrivals":
		return []string{"arrival"}
	case "number_of_stops", "stop":
		return []string{"stops"}
	case "number_of_seats", "seat":
		return []string{"seats"}
	case "phone_number", "telephone":
		return []string{"phone"}
	case "booking_date", "booked":
		return []string{"booked_on"}
	case "payment_date", "paid":
		return []string{"paid_on"}
	case "email", "emails":
		return []string{"email", "contact"}
	default:
		return nil
	}
}

// columnOf is the column that a word means; without columns, or where none fits, it is the word.
func columnOf(word string, columns []string) string {
	if len(columns) == 0 || slices.Contains(columns, word) {
		return word
	}
	if found := nearColumn(word, columns); found != "" {
		return found
	}
	return word
}

// nearColumn is the column that is surely meant, empty for none.
func nearColumn(word string, columns []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	}
	same := func(w string) func(string) bool {
		return func(c string) bool { return plain(c) == plain(w) }
	}
	candidates := append([]string{word, strings.TrimSuffix(word, "s"), word + "s"}, synonyms(strings.ToLower(word))...)
	for _, w := range candidates {
		if i := slices.IndexFunc(columns, same(w)); i >= 0 {
			return columns[i]
		}
	}
	for _, w := range candidates { // avg_price for price, where there is one of that kind
		var found []string
		for _, c := range columns {
			if lower := strings.ToLower(c); w != "" && (strings.HasSuffix(lower, "_"+strings.ToLower(w)) || strings.HasPrefix(lower, strings.ToLower(w)+"_")) {
				found = append(found, c)
			}
		}
		if len(found) == 1 {
			return found[0]
		}
	}
	return ""
}
