package offline

import "encoding/json"

// where reads where TEST ((and|or) TEST)…; "and" binds tighter. A test may also stand alone, as in "stops at most 1", when its field
// is no word of everyday language.
func (p *parser) where() bool {
	if _, ok := p.oneOf("where", "whose", "having", "with", "filter"); !ok {
		if t := p.peek(0); t.lower != "price" && (t.kind != tokenWord || filler(t.lower)) {
			return false
		}
		if verb := p.peek(1).lower; (verb == "is" || verb == "are") && !comparative(p.peek(2)) {
			return false // "what is the capital"
		}
	}
	var either []clause
	var all []clause
	for len(either)+len(all) < maxTests {
		c, ok := p.test()
		if !ok {
			break
		}
		all = append(all, c)
		before := p.at
		if p.is("or") {
			either = append(either, join(all))
			all = nil
			continue
		}
		if p.peek(0).kind == tokenComma {
			p.at++
		}
		if !p.is("and") {
			p.at = before
			break
		}
		if !p.testAhead() { // "and" joins the next clause, not a test
			p.at = before
			break
		}
	}
	switch {
	case len(either) > 0:
		if len(all) > 0 {
			either = append(either, join(all))
		}
		if len(either) == 1 {
			p.in.tests = append(p.in.tests, either[0])
			return true
		}
		p.in.tests = append(p.in.tests, clause{Or: either})
	case len(all) > 0:
		p.in.tests = append(p.in.tests, all...)
	default:
		return false
	}
	return true
}

func join(all []clause) clause {
	if len(all) == 1 {
		return all[0]
	}
	return clause{And: all}
}

// testAhead reports whether a test can be read here, without reading it.
func (p *parser) testAhead() bool {
	before := p.at
	_, ok := p.test()
	p.at = before
	return ok
}

// test reads [not] FIELD OP VALUE.
func (p *parser) test() (clause, bool) {
	not := p.is("not")
	_, _ = p.oneOf("the", "its")
	field, ok := p.field()
	if !ok {
		return clause{}, false
	}
	op, negated, ok := p.operator()
	if !ok {
		return clause{}, false
	}
	c := clause{Field: field, Op: op}
	switch op {
	case "exists":
	case "in":
		if c.Value, ok = p.list(); !ok {
			return clause{}, false
		}
	default:
		if c.Value, ok = p.value(); !ok {
			return clause{}, false
		}
	}
	if not != negated {
		return clause{Not: &c}, true
	}
	return c, true
}

// operator reads a comparison in signs or words; negated is for those that table_filter has no operator for.
func (p *parser) operator() (op string, negated, ok bool) {
	if t := p.peek(0); t.kind == tokenOperator {
		p.at++
		return t.text, false, true
	}
	is := p.is("is") || p.is("are")
	switch {
	case p.is("less", "than"), p.is("cheaper", "than"), p.is("lower", "than"), p.is("under"), p.is("below"):
		return "<", false, true
	case p.is("more", "than"), p.is("greater", "than"), p.is("higher", "than"), p.is("over"), p.is("above"):
		return ">", false, true
	case p.is("at", "most"), p.is("up", "to"):
		return "<=", false, true
	case p.is("at", "least"):
		return ">=", false, true
	case p.is("not", "in"):
		return "in", true, true
	case p.is("in"), p.is("one", "of"):
		return "in", false, true
	case p.is("contains"), p.is("includes"), p.is("containing"):
		return "contains", false, true
	case p.is("matches"), p.is("matching"):
		return "matches", false, true
	case p.is("exists"):
		return "exists", false, true
	case p.is("equals"), p.is("equal", "to"):
		return "=", false, true
	case is && p.is("not"):
		return "!=", false, true
	default:
		return "=", false, is
	}
}

// value reads a number, a string in quotes or a word; true, false and null are themselves.
func (p *parser) value() (json.RawMessage, bool) {
	t := p.peek(0)
	switch {
	case t.kind == tokenNumber:
		p.at++
		_, _ = p.oneOf("dollars", "usd")
		return json.RawMessage(t.text), true
	case t.kind == tokenString, t.kind == tokenURL:
	case t.kind == tokenWord && (t.lower == "true" || t.lower == "false" || t.lower == "null"):
		p.at++
		return json.RawMessage(t.lower), true
	case t.kind == tokenWord:
	default:
		return nil, false
	}
	p.at++
	return jsonString(t.text), true
}

// list reads (A, B, C).
func (p *parser) list() (json.RawMessage, bool) {
	if p.peek(0).kind != tokenOpen {
		return nil, false
	}
	p.at++
	values := []json.RawMessage{}
	for len(values) < maxTests {
		if p.peek(0).kind == tokenComma {
			if p.at >= len(p.tokens) {
				return nil, false
			}
			p.at++
			continue
		}
		if p.peek(0).kind == tokenClose {
			p.at++
			break
		}
		v, ok := p.value()
		if !ok {
			return nil, false
		}
		values = append(values, v)
	}
	raw, err := encode(values)
	return raw, err == nil && len(values) > 0
}

// nonstop reads nonstop, non-stop, direct.
func (p *parser) nonstop() bool {
	if _, ok := p.oneOf("nonstop", "non-stop", "direct"); !ok {
		return false
	}
	p.in.tests = append(p.in.tests, clause{Field: "stops", Op: "=", Value: json.RawMessage("0")})
	return true
}

// stops reads [with] at most N stops.
func (p *parser) stops() bool {
	p.is("with")
	op, _, ok := p.operator()
	if !ok {
		op = "="
	}
	t := p.peek(0)
	if t.kind != tokenNumber {
		return false
	}
	p.at++
	if _, ok := p.oneOf("stop", "stops"); !ok {
		return false
	}
	p.in.tests = append(p.in.tests, clause{Field: "stops", Op: op, Value: json.RawMessage(t.text)})
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
		p.in.tests = append(p.in.tests,
			clause{Field: "price", Op: ">=", Value: json.RawMessage(low.text)}, clause{Field: "price", Op: "<=", Value: json.RawMessage(high.text)})
		return true
	}
	if _, ok := p.oneOf("costing", "priced", "for"); ok && p.peek(0).kind != tokenWord {
		return false
	}
	op, negated, ok := p.operator()
	t := p.peek(0)
	if !ok || negated || t.kind != tokenNumber || op != "<" && op != "<=" && op != ">" && op != ">=" {
		return false
	}
	p.at++
	p.in.tests = append(p.in.tests, clause{Field: "price", Op: op, Value: json.RawMessage(t.text)})
	return true
}

func jsonString(s string) json.RawMessage {
	raw, err := encode(s)
	if err != nil { // cannot be: a string always encodes
		return json.RawMessage(`""`)
	}
	return raw
}
