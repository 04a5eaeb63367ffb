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
	maxStages = 20
	maxNested = 8 // brackets in a filter
)

// parser reads clauses from the left; each clause method consumes what it understands and reports whether it did.
type parser struct {
	prompt  string
	tokens  []token
	at      int
	words   vocabulary
	in      intent
	then    bool      // the clause to come is about the rows that the ones before it make
	pending *grouping // an aggregate without its groups so far
	looking bool      // in [parser.ahead]
	cut     int       // the stage, plus 1, of a "top 5 flights" without an order so far
}

// parseIntent reads a prompt; known are the fields that the conversation's rows have. It always ends, and understands what it can.
func parseIntent(prompt string, known ...string) intent {
	prompt = clipBytes(prompt, maxPrompt)
	p := &parser{prompt: prompt, tokens: lex(prompt), words: vocabularyOf(known), in: intent{stages: make([]stage, 1)}}
	clauses := []func() bool{
		p.say, p.twice, p.posting, p.source, p.joining, p.listed, p.route, p.result, p.jq, p.extracting, p.dating, p.renaming, p.dropping, p.grouping,
		p.groups, p.superlative, p.sorting, p.amount, p.ranked, p.lacking, p.where, p.nonstop, p.stops, p.bound, p.selection, p.showing,
	}
next:
	for p.at < len(p.tokens) {
		if p.is("then") || p.is("after", "that") || p.is("afterwards") {
			p.then = true
			continue
		}
		for _, clause := range clauses {
			before := p.at
			if clause() && p.at > before {
				p.then = false
				continue next
			}
			p.at = before
		}
		p.pass()
	}
	p.finish()
	return p.in
}

// finish adds what a prompt means without saying it.
func (p *parser) finish() {
	if p.pending != nil && len(p.in.stages) < maxStages {
		p.in.stages = append(p.in.stages, stage{group: p.pending}) // of all rows
	}
	if f := &p.in.from; f.api == apiFlights && f.origin == "" && f.count == 0 && !p.in.lost {
		f.origin, f.dest, p.in.assumed = "NYC", "LAX", true
	}
	if f := &p.in.from; f.api == apiFlights && f.origin == "" && p.in.lost {
		p.in.from = source{}
	}
}

// pass skips a token, and remembers it unless it is one of the words that hold sentences together.
func (p *parser) pass() {
	t := p.tokens[p.at]
	p.at++
	if next := p.peek(0); t.lower == "from" && next.kind == tokenWord && !keyword(next.lower) && !filler(next.lower) {
		p.in.lost = true
	}
	switch t.kind {
	case tokenWord, tokenString, tokenNumber, tokenRef:
		if !filler(t.lower) && len(p.in.ignored) < 20 {
			p.in.ignored = append(p.in.ignored, t.text)
		}
	default:
	}
}

// peek returns the token i after the current one; past the end it is a comma, which starts nothing.
func (p *parser) peek(i int) token {
	if p.at+i >= len(p.tokens) || p.at+i < 0 {
		return token{kind: tokenComma, text: ",", lower: ",", from: len(p.prompt)}
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
	if t := p.peek(0); t.kind == tokenWord && slices.Contains(words, t.lower) {
		p.at++
		return t.lower, true
	}
	return "", false
}

// skip steps over any of these words, at most three.
func (p *parser) skip(words ...string) {
	for range 3 {
		if _, ok := p.oneOf(words...); !ok {
			return
		}
	}
}

// comma steps over a comma.
func (p *parser) comma() bool {
	if p.at < len(p.tokens) && p.peek(0).kind == tokenComma {
		p.at++
		return true
	}
	return false
}

// ahead reports whether a clause can be read here, without reading it. Within another one it does not look, since lists would look ahead at
// lists that look ahead.
func (p *parser) ahead(clauses ...func() bool) bool {
	if p.looking {
		return false
	}
	p.looking = true
	defer func() { p.looking = false }()
	before, in, pending := p.at, p.in, p.pending
	stages := slices.Clone(p.in.stages)
	found := slices.ContainsFunc(clauses, func(clause func() bool) bool {
		ok := clause()
		p.at, p.in, p.pending = before, in, pending
		copy(p.in.stages, stages)
		return ok
	})
	return found
}

// leap moves to the first token that begins at or behind a place of the prompt.
func (p *parser) leap(to int) {
	for p.at < len(p.tokens) && p.tokens[p.at].from < to {
		p.at++
	}
}

// rest is the prompt from the current token on, at most so many bytes.
func (p *parser) rest(most int) string { return clipBytes(p.prompt[p.peek(0).from:], most) }

// now is the stage to which what is said belongs.
func (p *parser) now() *stage { return &p.in.stages[len(p.in.stages)-1] }

// next is the stage for what works on the rows that the ones before make: the current one, unless the prompt says "then" behind a cut.
func (p *parser) next(uses ...string) *stage {
	s := p.now()
	renamed := func(c column) bool { return c.as != "" && slices.Contains(uses, c.as) }
	if p.then && s.top > 0 || slices.ContainsFunc(s.fields, renamed) || slices.ContainsFunc(s.rename, renamed) {
		p.begin(stage{})
	}
	return p.now()
}

// begin starts a stage, unless there are too many.
func (p *parser) begin(s stage) bool {
	if len(p.in.stages) >= maxStages {
		return false
	}
	p.in.stages = append(p.in.stages, s)
	return true
}

// grouped is the last grouping of the prompt, nil without one.
func (p *parser) grouped() *grouping {
	for _, s := range slices.Backward(p.in.stages) {
		if s.group != nil {
			return s.group
		}
	}
	return nil
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

// field reads a field's name: a word that is no keyword, some words of which one is known to be made, anything in quotes, or, where rows
// are grouped, an aggregate such as "average price".
func (p *parser) field() (string, bool) {
	t := p.peek(0)
	if t.kind == tokenString {
		p.at++
		return t.text, true
	}
	if p.grouped() != nil {
		if name, ok := p.aggregated(); ok {
			return name, true
		}
	}
	if t.kind != tokenWord || keyword(t.lower) {
		return "", false
	}
	if name, n := p.words.phrase(p.tokens[p.at:]); n > 0 {
		p.at += n
		return name, true
	}
	p.at++
	return t.text, true
}

// aggregated reads a field that a grouping makes.
func (p *parser) aggregated() (string, bool) {
	before := p.at
	agg, ok := p.aggregate()
	if !ok {
		return "", false
	}
	if agg == aggCount {
		p.skip("flights", "rows", "bookings", "airlines", "items", "records")
		return aggCount, true
	}
	p.skip("of", "the")
	if t := p.peek(0); t.kind == tokenWord && !keyword(t.lower) && direction(t.lower) == 0 && p.words.knows(t.lower) {
		if name, ok := p.field(); ok {
			return agg + "_" + name, true
		}
	}
	for _, a := range p.grouped().aggs { // "the average"
		if a.fn == agg && p.at == before+1 {
			return a.name(), true
		}
	}
	p.at = before
	return "", false
}

// knownField reads a field that is known, or one in quotes.
func (p *parser) knownField() (string, bool) {
	before := p.at
	t := p.peek(0)
	name, ok := p.field()
	if ok && (t.kind == tokenString || p.at > before+1 || p.words.knows(t.lower)) {
		return name, true
	}
	p.at = before
	return "", false
}

// moreFields reads what follows a field in a list: "B, C and D". Behind a comma or "and", fits judges whether the word is one of the list.
func (p *parser) moreFields(fields []string, fits func(*parser) bool) []string {
	for len(fields) < maxSelect {
		before := p.at
		comma := p.comma()
		if and := p.is("and"); !comma && !and || !fits(p) {
			p.at = before
			return fields
		}
		f, ok := p.field()
		if !ok {
			p.at = before
			return fields
		}
		if !slices.Contains(fields, f) {
			fields = append(fields, f)
		}
	}
	return fields
}

// startsClause reports whether the current token begins something other than a further field.
func (p *parser) startsClause() bool {
	t := p.peek(0)
	return t.kind != tokenWord && t.kind != tokenString || keyword(t.lower) || p.ahead(p.grouping, p.superlative)
}

// closed reports whether the token behind the current one ends a phrase.
func (p *parser) closed() bool {
	t := p.peek(1)
	return t.kind != tokenWord && t.kind != tokenOperator && t.kind != tokenNumber || keyword(t.lower) || direction(t.lower) != 0
}

func trimmed(s string) string { return strings.Trim(s, " \t,.;:") }
