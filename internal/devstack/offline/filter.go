package offline

import (
	"encoding/json"
	"slices"
)

// where reads where TEST ((and|or) TEST)…; "and" binds tighter, and brackets bind tightest. A test may also stand alone, as in "stops at
// most 1", when its field is no word of everyday language.
func (p *parser) where() bool {
	_, said := p.oneOf("where", "whose", "having", "with", "filter")
	if said {
		p.skip("those", "them", "it", "the", "by", "where", "rows", "for")
	}
	if t := p.peek(0); !said {
		if t.lower != "price" && (t.kind != tokenWord || filler(t.lower)) || t.lower == "costing" || t.lower == "priced" {
			return false
		}
		if verb := p.peek(1).lower; slices.Contains([]string{"is", "are", "was", "were"}, verb) && !comparative(p.peek(2)) && !p.words.knows(t.lower) {
			return false // "what is the capital"
		}
	}
	either := p.disjunction(0)
	switch len(either) {
	case 0:
		return false
	case 1:
		p.filter(either[0].And...)
	default:
		c := clause{}
		for _, part := range either {
			c.Or = append(c.Or, join(part.And))
		}
		p.filter(c)
	}
	return true
}

// filter adds tests to the stage that they are about: before a grouping unless they are about what it makes, or the prompt says "then".
func (p *parser) filter(tests ...clause) {
	var uses []string
	for i := range tests {
		tests[i].each(func(c *clause) { uses = append(uses, c.Field) })
	}
	s := p.next(uses...)
	if s.group != nil && !p.then && !slices.ContainsFunc(uses, s.group.makes) {
		for i := len(p.in.stages) - 1; i > 0 && p.in.stages[i].group != nil; i-- {
			s = &p.in.stages[i-1]
		}
	}
	s.tests = append(s.tests, tests...)
}

// makes reports whether a grouping makes a field rather than passing it on.
func (g *grouping) makes(field string) bool {
	return slices.ContainsFunc(g.aggs, func(a aggregate) bool { return a.name() == field })
}

// disjunction reads conjunctions with "or" between them; each is the And of a clause. None: there was no test.
func (p *parser) disjunction(depth int) []clause {
	var out []clause
	for len(out) < maxTests {
		before := p.at
		if len(out) > 0 {
			p.comma()
			if !p.is("or") {
				p.at = before
				return out
			}
		}
		all := p.conjunction(depth)
		if len(all) == 0 {
			p.at = before
			return out
		}
		out = append(out, clause{And: all})
	}
	return out
}

func (p *parser) conjunction(depth int) []clause {
	var out []clause
	for len(out) < maxTests {
		before := p.at
		if len(out) > 0 {
			p.comma()
			if !p.is("and") { // else "and" joins the next clause, not a test
				p.at = before
				return out
			}
			p.skip("where", "whose", "with")
		}
		c, ok := p.bracketed(depth)
		if !ok {
			c, ok = p.test()
		}
		if !ok {
			p.at = before
			return out
		}
		out = append(out, c)
	}
	return out
}

// bracketed reads [not] (TESTS).
func (p *parser) bracketed(depth int) (clause, bool) {
	before := p.at
	not := p.is("not")
	if p.peek(0).kind != tokenOpen || depth >= maxNested {
		p.at = before
		return clause{}, false
	}
	p.at++
	either := p.disjunction(depth + 1)
	if len(either) == 0 || p.peek(0).kind != tokenClose {
		p.at = before
		return clause{}, false
	}
	p.at++
	c := join(either[0].And)
	if len(either) > 1 {
		c = clause{}
		for _, part := range either {
			c.Or = append(c.Or, join(part.And))
		}
	}
	if not {
		return clause{Not: &c}, true
	}
	return c, true
}

func join(all []clause) clause {
	if len(all) == 1 {
		return all[0]
	}
	return clause{And: all}
}

// test reads [not] FIELD OP VALUE.
func (p *parser) test() (clause, bool) {
	not := p.is("not")
	_, _ = p.oneOf("the", "its", "their")
	field, ok := p.field()
	if !ok {
		return clause{}, false
	}
	c, negated, ok := p.comparison(field)
	if ok && not != negated {
		return clause{Not: &c}, true
	}
	return c, ok
}

// comparison reads what a test says of its field.
func (p *parser) comparison(field string) (c clause, negated, ok bool) {
	before := p.at
	for _, is := range []string{"is", "are", "was", "were"} {
		if p.is(is) {
			break
		}
	}
	if p.is("between") {
		c, ok = p.between(field)
		return c, false, ok
	}
	p.at = before
	o, ok := p.operator()
	if !ok {
		return clause{}, false, false
	}
	c = clause{Field: field, Op: o.op}
	switch o.op {
	case "exists":
		if o.negated {
			c.Value = json.RawMessage("false")
		}
		return c, false, true
	case "in":
		c.Value, ok = p.values(true)
		return c, o.negated, ok
	}
	v, ok := p.value()
	if !ok {
		return clause{}, false, false
	}
	c.Value = v
	if o.prefix+o.suffix != "" {
		c.Value, ok = anchored(v, o)
		return c, o.negated, ok
	}
	if before := p.at; (o.op == "=" || o.op == "!=") && p.is("or") { // "airline is Skylark or Contrail"
		p.at = before
		if list, several := p.alternatives(v); several {
			c.Op, c.Value = "in", list
			return c, o.negated != (o.op == "!="), true
		}
	}
	return c, o.negated, true
}

// between reads A and B.
func (p *parser) between(field string) (clause, bool) {
	low, ok := p.value()
	if !ok || !p.is("and") {
		return clause{}, false
	}
	high, ok := p.value()
	return clause{And: []clause{{Field: field, Op: ">=", Value: low}, {Field: field, Op: "<=", Value: high}}}, ok
}

// lacking reads what is about a field being there at all: with a coupon, without coupon, that have no coupon. "no stops" is a number.
func (p *parser) lacking() bool {
	negated, said := false, true
	switch {
	case p.is("without"), p.is("with", "no"), p.is("have", "no"), p.is("has", "no"), p.is("having", "no"):
		negated = true
	case p.is("with"), p.is("have"), p.is("has"):
	case p.is("no"):
		negated, said = true, false
	default:
		return false
	}
	_, article := p.oneOf("a", "an", "any")
	word := p.peek(0).lower
	field, ok := p.knownField()
	if !ok || !said && !negated || !negated && !article {
		return false
	}
	before := p.at
	if _, _, ok := p.comparison(field); ok { // "with a price under 300" is a test
		return false
	}
	p.at = before
	switch {
	case word == "stops" || word == "stop":
		p.filter(clause{Field: "stops", Op: "=", Value: json.RawMessage("0")})
	case negated:
		p.filter(clause{Field: field, Op: "exists", Value: json.RawMessage("false")})
	default:
		p.filter(clause{Field: field, Op: "exists"})
	}
	return true
}

// nonstop reads nonstop, non-stop, direct.
func (p *parser) nonstop() bool {
	if _, ok := p.oneOf("nonstop", "non-stop", "direct"); !ok {
		return false
	}
	p.filter(clause{Field: "stops", Op: "=", Value: json.RawMessage("0")})
	return true
}

// stops reads [with] at most N stops.
func (p *parser) stops() bool {
	p.is("with")
	o, ok := p.operator()
	if !ok {
		o.op = "="
	}
	n, counted := p.count()
	if p.peek(0).text == "0" && !counted {
		p.at++
		counted = true
	}
	if _, stops := p.oneOf("stop", "stops"); !counted || !stops || o.negated || o.op == "in" || o.op == "exists" || o.prefix+o.suffix != "" {
		return false
	}
	p.filter(clause{Field: "stops", Op: o.op, Value: encoded(n, nil)})
	return true
}

// bound reads under $300, cheaper than 300, between $100 and $300: the price, which needs no name.
func (p *parser) bound() bool {
	if p.is("between") {
		low := p.peek(0)
		p.at++
		if !p.is("and") || low.kind != tokenNumber || p.peek(0).kind != tokenNumber {
			return false
		}
		high := p.peek(0)
		p.at++
		p.filter(clause{Field: "price", Op: ">=", Value: json.RawMessage(low.text)}, clause{Field: "price", Op: "<=", Value: json.RawMessage(high.text)})
		return true
	}
	if _, ok := p.oneOf("costing", "priced", "for"); ok && p.peek(0).kind != tokenWord {
		return false
	}
	switch p.peek(0).lower {
	case "before", "after", "since", "earlier", "later", "longer", "shorter", "on", "is", "are":
		return false // a time, or another field's
	}
	o, ok := p.operator()
	t := p.peek(0)
	if !ok || o.negated || t.kind != tokenNumber || !slices.Contains([]string{"<", "<=", ">", ">="}, o.op) {
		return false
	}
	p.at++
	_, _ = p.oneOf("dollars", "usd")
	p.filter(clause{Field: "price", Op: o.op, Value: json.RawMessage(t.text)})
	return true
}
