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
		"keep", "filter", "now", "also", "just", "only", "price", "usd", "dollars", "top", "first", "hi", "hello", "there", "table", "today", "this", "that", "it", "those", "them", "these",
		"prices", "take", "use", "compute", "calculate", "do", "our", "its", "their", "departing", "flying":
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
		"than", "less", "more", "at", "of", "in", "for", "me", "them", "those", "these", "cheaper", "filter", "take", "say", "most", "please", "now",
		"group", "grouped", "join", "joined", "merge", "extract", "parse", "rename", "drop", "jq", "per", "average", "avg", "mean", "each", "every", "as", "on", "without", "it", "is", "are",
		"how", "select", "keeping":
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

// stopWord reports whether a word tells nothing about what a text is about.
func stopWord(word string) bool {
	switch word {
	case "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "ask", "at", "be", "because", "been", "before", "but", "by", "can", "could", "did", "do", "does",
		"doing", "done", "exactly", "explain", "far", "find", "for", "from", "get", "give", "had", "happen", "happens", "has", "have", "he", "her", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just",
		"know", "large", "let", "like", "long", "made", "make", "many", "may", "me", "mean", "means", "more", "most", "much", "must", "my", "need", "no", "not", "of", "often", "on", "one", "only", "or", "our", "out",
		"please", "quickly", "really", "say", "says", "see", "shall", "she", "should", "show", "so", "some", "something", "soon", "still", "take", "takes", "tell", "than", "that", "the", "their", "them", "then", "there",
		"these", "they", "thing", "things", "this", "those", "to", "too", "up", "us", "used", "very", "want", "was", "we", "well", "were", "what", "when", "where", "which", "while", "who", "whom", "whose", "why",
		"will", "with", "within", "without", "work", "works", "would", "you", "your",
		"document", "documents", "mention", "according", "don't", "doesn't", "didn't", "isn't", "aren't", "can't", "won't", "i'm", "it's", "what's", "that's":
		return true
	default:
		return false
	}
}

// pronoun reports whether a word stands for something that was said before.
func pronoun(word string) bool {
	switch word {
	case "it", "its", "they", "them", "their", "this", "that", "these", "those", "he", "she", "him", "her", "one", "ones":
		return true
	default:
		return false
	}
}

// courtesy says what a word of small talk is: a greeting, thanks, a farewell, a word of consent, or one that only goes along with those.
func courtesy(word string) string {
	switch word {
	case "hi", "hello", "hey", "greetings", "morning", "afternoon", "evening", "howdy":
		return courtesyHello
	case "thanks", "thank", "thx", "cheers", "appreciated":
		return courtesyThanks
	case "bye", "goodbye", "farewell", "night", "later":
		return courtesyBye
	case "ok", "okay", "great", "cool", "nice", "perfect", "awesome", "fine", "good", "wow", "lol", "sorry", "yes", "no", "sure":
		return courtesyOK
	case "a", "all", "and", "are", "day", "dear", "everyone", "for", "have", "help", "how", "i", "is", "it", "lot", "me", "much", "my", "oh", "please", "really", "see", "so", "that", "the", "there", "to", "today",
		"very", "was", "well", "what", "who", "you", "your", "doing", "name", "can", "do":
		return courtesyAlong
	default:
		return ""
	}
}

// codeWord reports whether a word asks for code.
func codeWord(word string) bool {
	switch word {
	case "code", "function", "functions", "script", "scripts", "example", "examples", "snippet", "snippets":
		return true
	default:
		return false
	}
}
