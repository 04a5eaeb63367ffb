package offline

// city is a place that has a code.
type city struct {
	words []string
	code  string
}

func cities() []city {
	return []city{
		{[]string{"new", "york"}, "NYC"},
		{[]string{"los", "angeles"}, "LAX"},
		{[]string{"san", "francisco"}, "SFO"},
		{[]string{"boston"}, "BOS"},
		{[]string{"chicago"}, "ORD"},
		{[]string{"seattle"}, "SEA"},
		{[]string{"miami"}, "MIA"},
		{[]string{"denver"}, "DEN"},
		{[]string{"london"}, "LHR"},
		{[]string{"paris"}, "CDG"},
		{[]string{"berlin"}, "BER"},
		{[]string{"tokyo"}, "HND"},
	}
}

// filler reports whether a word only holds a sentence together.
func filler(word string) bool {
	switch word {
	case "a", "an", "the", "and", "then", "of", "for", "with", "me", "my", "please", "can", "could", "you", "i", "want", "would", "like", "to", "all",
		"by", "in", "on", "at", "is", "are", "as", "from", "some", "any", "show", "fetch", "get", "find", "list", "give", "search", "look", "up", "load",
		"read", "query", "display", "return", "flight", "flights", "row", "rows", "result", "results", "item", "items", "data", "records", "record", "options", "ones", "one",
		"keep", "filter", "now", "also", "just", "only", "price", "usd", "dollars", "top", "first", "hi", "hello", "there", "table", "today", "this", "that", "it", "those", "them", "these":
		return true
	default:
		return false
	}
}

// keyword reports whether a word begins or joins clauses and so cannot be a field without quotes.
func keyword(word string) bool {
	switch word {
	case "sort", "sorted", "order", "ordered", "rank", "ranked", "top", "first", "limit", "where", "whose", "having", "under", "below", "over", "above", "between", "only",
		"just", "show", "fetch", "get", "cheapest", "fastest", "slowest", "priciest", "nonstop", "non-stop", "direct", "and", "or", "not", "by", "then", "the", "with", "from", "to",
		"than", "less", "more", "at", "of", "in", "for", "me", "them", "those", "these", "cheaper", "filter", "take", "say", "most", "please", "now":
		return true
	default:
		return false
	}
}

// comparative reports whether a token after "is" makes it a comparison.
func comparative(t token) bool {
	switch t.lower {
	case "under", "below", "over", "above", "less", "more", "lower", "higher", "greater", "at":
		return true
	default:
		return t.kind == tokenOperator || t.kind == tokenNumber
	}
}

// fieldName maps what people call the flights API's fields to their names; any other word is a field of its own.
func fieldName(word string) string {
	switch word {
	case "prices", "Price", "cost", "fare", "fares":
		return "price"
	case "duration":
		return "duration_min"
	case "airlines", "Airline", "carrier":
		return "airline"
	case "ids", "ID", "Id":
		return "id"
	default:
		return word
	}
}
