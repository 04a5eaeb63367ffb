package offline

import (
	"encoding/json"
	"strings"
)

// source reads a URL or a reference; a URL without a scheme must follow fetch or get.
func (p *parser) source() bool {
	if p.in.from.given() {
		return false
	}
	from, ok := p.address()
	if ok {
		p.in.from = from
	}
	return ok
}

// address reads [fetch] URL [with parameters NAME=VALUE, …], fetch HOST/PATH, and references.
func (p *parser) address() (source, bool) {
	_, verb := p.oneOf("fetch", "get", "load", "read", "query", "use", "open")
	p.skip("from", "the", "rows", "data", "dataset")
	t := p.peek(0)
	bare := verb && t.kind == tokenWord && strings.Contains(strings.Trim(t.text, "."), ".") && !strings.HasPrefix(t.text, ".")
	switch {
	case t.kind == tokenRef:
		p.at++
		return source{ref: t.text}, true
	case t.kind != tokenURL && !bare:
		return source{}, false
	}
	p.at++
	return source{url: t.text, params: p.parameters("params", "parameters")}, true
}

// posting reads post [NAME=VALUE, …] to URL [with NAME=VALUE, …].
func (p *parser) posting() bool {
	if !p.is("post") || p.in.from.given() {
		return false
	}
	params := p.assignments()
	p.skip("to", "a", "booking", "the")
	t := p.peek(0)
	bare := t.kind == tokenWord && strings.Contains(strings.Trim(t.text, "."), ".")
	booking := t.lower == "bookings" || t.lower == "booking" || p.at > 0 && p.tokens[p.at-1].lower == "booking"
	switch {
	case t.kind == tokenURL || bare:
		p.at++
		p.in.from = source{url: t.text, post: true, params: params}
	case booking:
		if t.lower == "bookings" || t.lower == "booking" {
			p.at++
		}
		p.in.from = source{api: apiBookings, post: true, params: params}
	default:
		return false
	}
	for name, v := range p.parameters() {
		if p.in.from.params == nil {
			p.in.from.params = map[string]json.RawMessage{}
		}
		p.in.from.params[name] = v
	}
	return true
}

// parameters reads [with] [WORD] NAME=VALUE, …; one of the words must be there when there are any.
func (p *parser) parameters(words ...string) map[string]json.RawMessage {
	before := p.at
	p.is("with")
	if _, ok := p.oneOf(words...); !ok && len(words) > 0 {
		p.at = before
		return nil
	}
	out := p.assignments()
	if out == nil {
		p.at = before
	}
	return out
}

// assignments reads NAME=VALUE, NAME=VALUE and NAME=VALUE.
func (p *parser) assignments() map[string]json.RawMessage {
	var out map[string]json.RawMessage
	for len(out) < maxSelect {
		before := p.at
		if out != nil {
			comma := p.comma()
			if and := p.is("and"); !comma && !and {
				return out
			}
		}
		name, op := p.peek(0), p.peek(1)
		if name.kind != tokenWord && name.kind != tokenString || op.kind != tokenOperator || op.text != "=" {
			p.at = before
			return out
		}
		p.at += 2
		v, ok := p.value()
		if !ok {
			p.at = before
			return out
		}
		if out == nil {
			out = map[string]json.RawMessage{}
		}
		out[name.text] = v
	}
	return out
}

// listed reads fetch flights, fetch 200 flights, fetch airlines, fetch bookings, each [as csv]; where from and to is for route.
func (p *parser) listed() bool {
	from, ok := p.list()
	if !ok {
		return false
	}
	if have := &p.in.from; have.api == apiFlights && from.api == apiFlights && have.count+from.count == 0 || !have.given() {
		origin, dest := have.origin, have.dest
		*have = from
		if have.origin == "" {
			have.origin, have.dest = origin, dest
		}
		return true
	}
	return false
}

// list reads VERB [N] flights|airlines|bookings [as csv].
func (p *parser) list() (source, bool) {
	verb, ok := p.oneOf("fetch", "get", "find", "search", "load", "list", "show", "read", "query")
	if !ok {
		return source{}, false
	}
	p.skip("me", "for", "the", "all", "some", "available")
	if verb == "list" || verb == "show" { // "show flights under $300" goes on with the rows there are
		if t := p.peek(0).lower; t != apiAirlines && t != apiBookings || p.in.from.given() || p.at > 4 {
			return source{}, false
		}
	}
	n, counted := p.count()
	from, ok := p.named()
	if !ok || counted && from.api != apiFlights {
		return source{}, false
	}
	if counted && n <= 50 {
		p.next().top = n
	} else if counted {
		from.count = min(n, 200_000)
	}
	return from, true
}

// named reads flights, airlines or bookings, [as csv].
func (p *parser) named() (source, bool) {
	var from source
	switch {
	case p.is(apiFlights), p.is("flight"):
		from.api = apiFlights
	case p.is(apiAirlines), p.is("airline", "list"):
		from.api = apiAirlines
	case p.is(apiBookings):
		from.api = apiBookings
	default:
		return from, false
	}
	from.format = p.format()
	return from, true
}

// format reads [as|in] csv|ndjson.
func (p *parser) format() string {
	before := p.at
	if _, ok := p.oneOf("as", "in"); ok {
		if f, ok := p.oneOf("csv", "ndjson"); ok {
			return f
		}
	}
	p.at = before
	return ""
}

// route reads [flights] [from] PLACE to PLACE [as csv]. Without the word "from", both places must be airport codes or cities that are known.
func (p *parser) route() bool {
	origin, dest, ok := p.places()
	have := &p.in.from
	if !ok || have.origin != "" || have.url != "" || have.api != "" && have.api != apiFlights || have.ref != "" || have.pick != nil {
		return false
	}
	have.api, have.origin, have.dest = apiFlights, origin, dest
	if f := p.format(); f != "" {
		have.format = f
	}
	return true
}

func (p *parser) places() (origin, dest string, ok bool) {
	from := p.is("from")
	origin, known, ok := p.place()
	if !ok {
		return "", "", false
	}
	if t := p.peek(0); t.kind == tokenArrow {
		p.at++
	} else if !p.is("to") {
		return "", "", false
	}
	dest, knownToo, ok := p.place()
	return origin, dest, ok && (from || known && knownToo)
}

// place reads a three-letter code or a city; known is false for three letters in lower case, which may be any word.
func (p *parser) place() (code string, known, ok bool) {
	t := p.peek(0)
	if t.kind != tokenWord {
		return "", false, false
	}
	for _, c := range cities() {
		if p.is(c.words...) {
			return c.code, true, true
		}
	}
	if len(t.text) != 3 || strings.Trim(t.lower, "abcdefghijklmnopqrstuvwxyz") != "" || filler(t.lower) {
		return "", false, false
	}
	p.at++
	return strings.ToUpper(t.text), t.text == strings.ToUpper(t.text), true
}

// result reads which result of the conversation is meant: the previous result, the second result, the result of NODE, NODE's result.
func (p *parser) result() bool {
	begins := p.at
	which, ok := p.picked()
	if !ok {
		return false
	}
	if !p.in.from.given() {
		p.in.from.pick = &which
	}
	if begins == 0 || begins > 0 && len(p.tokens) == p.at { // nothing else need be said about it
		p.in.show = true
	}
	return true
}

func (p *parser) picked() (pick, bool) {
	before := p.at
	p.skip("the", "my", "our")
	if t := p.peek(0); t.kind == tokenWord && !keyword(t.lower) { // fetch_data's result
		if node, ok := strings.CutSuffix(t.text, "'s"); ok && resultWord(p.peek(1).lower) {
			p.at += 2
			return pick{node: node}, true
		}
	}
	if nth, ok := ordinal(p.peek(0).lower); ok && (resultWord(p.peek(1).lower) || p.peek(1).lower == "rows") {
		p.at += 2
		return pick{nth: nth}, true
	}
	if !resultWord(p.peek(0).lower) {
		p.at = before
		return pick{}, false
	}
	p.at++
	if t := p.peek(0); t.kind == tokenNumber {
		if n, ok := p.count(); ok {
			return pick{nth: n}, true
		}
	}
	if p.is("before", "that") || p.is("before") {
		return pick{nth: -1}, true
	}
	if _, ok := p.oneOf("of", "from"); ok {
		p.skip("the", "node", "step")
		t := p.peek(0)
		if t.kind == tokenString || t.kind == tokenWord && !keyword(t.lower) && (strings.ContainsAny(t.text, "_-") || !filler(t.lower)) {
			p.at++
			return pick{node: t.text}, true
		}
		p.at = before
		return pick{}, false
	}
	if p.at == before+1 { // "results" alone is a word like any other
		p.at = before
		return pick{}, false
	}
	return pick{}, true
}

func resultWord(word string) bool {
	switch word {
	case "result", "results", "output", "dataset":
		return true
	default:
		return false
	}
}

// ordinal reads which of several; see [pick] for the numbers.
func ordinal(word string) (int, bool) {
	switch word {
	case "last", "latest", "previous", "newest", "current":
		return 0, true
	case "earlier", "penultimate":
		return -1, true
	case "oldest":
		return 1, true
	}
	for i, w := range []string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth"} {
		if word == w {
			return i + 1, true
		}
	}
	for i, w := range []string{"1st", "2nd", "3rd", "4th", "5th", "6th", "7th", "8th", "9th", "10th"} {
		if word == w {
			return i + 1, true
		}
	}
	return 0, false
}

// showing reads show those, count them, what is in it: the rows as they are.
func (p *parser) showing() bool {
	if _, ok := p.oneOf("show", "display", "list", "print", "count", "give"); !ok {
		return false
	}
	p.skip("me", "all", "of")
	if _, ok := p.oneOf("those", "them", "it", "these"); !ok {
		return false
	}
	p.in.show = true
	return true
}
