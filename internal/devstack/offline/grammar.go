package offline

import (
	"slices"
	"strconv"
	"strings"
)

// The bounds of what a prompt may ask for.
const (
	maxSay    = 100_000
	maxTests  = 50
	maxSelect = 50
)

// parser reads clauses from the left; each clause method consumes what it understands and reports whether it did.
type parser struct {
	tokens []token
	at     int
	in     intent
}

// parseIntent reads a prompt. It always ends, and understands what it can.
func parseIntent(prompt string) intent {
	p := &parser{tokens: lex(prompt)}
	clauses := []func() bool{
		p.say, p.twice, p.source, p.flights, p.route, p.superlative, p.sorting, p.amount, p.where, p.nonstop, p.stops, p.bound, p.selection,
	}
next:
	for p.at < len(p.tokens) {
		for _, clause := range clauses {
			before := p.at
			if clause() && p.at > before {
				continue next
			}
			p.at = before
		}
		p.pass()
	}
	if p.in.flights && p.in.url == "" && p.in.origin == "" && !p.in.lost {
		p.in.origin, p.in.dest, p.in.assumed = "NYC", "LAX", true
	}
	return p.in
}

// pass skips a token, and remembers it unless it is one of the words that hold sentences together.
func (p *parser) pass() {
	t := p.tokens[p.at]
	p.at++
	if next := p.peek(0); t.lower == "from" && next.kind == tokenWord && !keyword(next.lower) && !filler(next.lower) {
		p.in.lost = true
	}
	switch t.kind {
	case tokenWord, tokenString, tokenNumber:
		if !filler(t.lower) && len(p.in.ignored) < 20 {
			p.in.ignored = append(p.in.ignored, t.text)
		}
	default:
	}
}

// peek returns the token i after the current one; past the end it is a comma, which starts nothing.
func (p *parser) peek(i int) token {
	if p.at+i >= len(p.tokens) || p.at+i < 0 {
		return token{kind: tokenComma, text: ",", lower: ","}
	}
	return p.tokens[p.at+i]
}

// is reports whether the current words are these, and steps over them.
func (p *parser) is(words ...string) bool {
	for i, w := range words {
		if t := p.peek(i); t.kind != tokenWord || t.lower != w {
			return false
		}
	}
	p.at += len(words)
	return true
}

// oneOf reports whether the current word is among words, and steps over it.
func (p *parser) oneOf(words ...string) (string, bool) {
	t := p.peek(0)
	if t.kind != tokenWord {
		return "", false
	}
	for _, w := range words {
		if t.lower == w {
			p.at++
			return w, true
		}
	}
	return "", false
}

// count reads a whole number, in digits or as a word.
func (p *parser) count() (int, bool) {
	t := p.peek(0)
	if t.kind == tokenNumber {
		n, err := strconv.Atoi(t.text)
		if err != nil || n < 1 {
			return 0, false
		}
		p.at++
		return n, true
	}
	for i, w := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"} {
		if p.is(w) {
			return i + 1, true
		}
	}
	return 0, false
}

// say N words [slowly].
func (p *parser) say() bool {
	if !p.is("say") {
		return false
	}
	n, ok := p.count()
	if _, words := p.oneOf("words", "word"); !ok || !words {
		return false
	}
	p.in.say = min(n, maxSay)
	p.in.slowly = p.is("slowly")
	return true
}

// fetch twice.
func (p *parser) twice() bool {
	if _, ok := p.oneOf("fetch", "get"); !ok || !p.is("twice") {
		return false
	}
	p.in.twice = true
	return true
}

// source reads a URL; one without a scheme must follow fetch or get.
func (p *parser) source() bool {
	_, verb := p.oneOf("fetch", "get", "load", "read", "query")
	t := p.peek(0)
	bare := verb && t.kind == tokenWord && strings.Contains(strings.Trim(t.text, "."), ".") && !strings.HasPrefix(t.text, ".")
	if t.kind != tokenURL && !bare || p.in.url != "" {
		return false
	}
	p.at++
	p.in.url = t.text
	return true
}

// flights reads fetch flights; where from and to is for route.
func (p *parser) flights() bool {
	if _, ok := p.oneOf("fetch", "get", "find", "search", "load"); !ok {
		return false
	}
	for range 3 {
		if _, ok := p.oneOf("me", "for", "the", "all", "some", "available"); !ok {
			break
		}
	}
	if _, ok := p.oneOf("flights", "flight"); !ok {
		return false
	}
	p.in.flights = true
	return true
}

// route reads [flights] [from] PLACE to PLACE. Without the word "from", both places must be airport codes or cities that are known.
func (p *parser) route() bool {
	from := p.is("from")
	origin, known, ok := p.place()
	if !ok {
		return false
	}
	if t := p.peek(0); t.kind == tokenArrow {
		p.at++
	} else if !p.is("to") {
		return false
	}
	dest, knownToo, ok := p.place()
	if !ok || p.in.origin != "" || !from && (!known || !knownToo) {
		return false
	}
	p.in.origin, p.in.dest = origin, dest
	return true
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

// superlative reads cheapest [N], most expensive [N], fastest [N], slowest [N].
func (p *parser) superlative() bool {
	field, desc := "price", false
	switch {
	case p.is("cheapest"), p.is("lowest", "price"), p.is("least", "expensive"):
	case p.is("most", "expensive"), p.is("priciest"), p.is("highest", "price"):
		desc = true
	case p.is("fastest"), p.is("shortest"):
		field = "duration_min"
	case p.is("slowest"), p.is("longest"):
		field, desc = "duration_min", true
	default:
		return false
	}
	if p.in.sort == "" {
		p.in.sort, p.in.desc = field, desc
	}
	if _, first := p.oneOf("first"); first { // "cheapest first" is an order, not a number
		return true
	}
	if n, ok := p.count(); ok {
		p.in.top = n
	} else if p.is("flight") || p.is("one") {
		p.in.top = 1
	}
	return true
}

// sorting reads sort by FIELD [ascending|descending].
func (p *parser) sorting() bool {
	if _, ok := p.oneOf("sort", "sorted", "order", "ordered", "rank", "ranked"); !ok {
		return false
	}
	for !p.is("by") {
		if _, ok := p.oneOf("them", "it", "those", "these", "the", "rows", "results", "flights", "all"); !ok {
			return false
		}
	}
	p.is("the")
	field, ok := p.field()
	if !ok {
		return false
	}
	p.in.sort, p.in.desc = field, false
	if p.peek(0).kind == tokenComma && direction(p.peek(1).lower) != 0 { // "by price, descending"
		p.at++
	}
	p.is("in")
	if d := direction(p.peek(0).lower); d != 0 {
		p.at++
		p.in.desc = d < 0
		_, _ = p.oneOf("first", "order")
	}
	return true
}

// direction is 1 for words that mean ascending, -1 for descending, 0 for others.
func direction(word string) int {
	switch word {
	case "asc", "ascending", "lowest", "cheapest", "smallest", "earliest", "increasing":
		return 1
	case "desc", "descending", "highest", "largest", "biggest", "latest", "decreasing":
		return -1
	default:
		return 0
	}
}

// amount reads top N, first N, limit [to] N, show [me] [the] [top] N.
func (p *parser) amount() bool {
	word, ok := p.oneOf("top", "first", "limit", "show", "list", "take", "best", "give")
	if !ok {
		return false
	}
	for range 3 {
		if _, ok := p.oneOf("me", "the", "to", "only", "top", "first"); !ok {
			break
		}
	}
	n, ok := p.count()
	if !ok {
		return false
	}
	if word == "show" || word == "list" || word == "give" { // "show 3 stops" is no amount of rows
		if t := p.peek(0); t.kind == tokenWord && (t.lower == "stops" || t.lower == "stop") {
			return false
		}
	}
	p.in.top = n
	return true
}

// selection reads only FIELD, FIELD and FIELD.
func (p *parser) selection() bool {
	if _, ok := p.oneOf("only", "just", "select", "columns", "fields"); !ok {
		return false
	}
	_, _ = p.oneOf("show", "keep", "return")
	_, _ = p.oneOf("the", "me")
	_, _ = p.oneOf("fields", "columns")
	var fields []string
	for len(fields) < maxSelect {
		f, ok := p.field()
		if !ok {
			break
		}
		fields = append(fields, f)
		before := p.at
		comma := p.peek(0).kind == tokenComma
		if comma {
			p.at++
		}
		if and := p.is("and"); !comma && !and || p.startsClause() {
			p.at = before
			break
		}
	}
	if len(fields) == 0 {
		return false
	}
	for _, f := range fields {
		if !contains(p.in.fields, f) {
			p.in.fields = append(p.in.fields, f)
		}
	}
	return true
}

// startsClause reports whether the current token begins something other than a further field.
func (p *parser) startsClause() bool {
	t := p.peek(0)
	return t.kind != tokenWord && t.kind != tokenString || keyword(t.lower)
}

// field reads a field's name: a word that is no keyword, or anything in quotes.
func (p *parser) field() (string, bool) {
	t := p.peek(0)
	switch {
	case t.kind == tokenString:
	case t.kind == tokenWord && !keyword(t.lower):
	default:
		return "", false
	}
	p.at++
	if t.kind == tokenString {
		return t.text, true
	}
	return fieldName(t.text), true
}

func contains(list []string, s string) bool {
	return slices.Contains(list, s)
}
