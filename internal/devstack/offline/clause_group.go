package offline

import "slices"

const (
	aggCount = "count"
	aggSum   = "sum"
	aggAvg   = "avg"
	aggMin   = "min"
	aggMax   = "max"
)

// aggregate reads a word for one of the aggregates.
func (p *parser) aggregate() (string, bool) {
	switch {
	case p.is("average"), p.is("avg"), p.is("mean"):
		return aggAvg, true
	case p.is("sum"), p.is("total"):
		return aggSum, true
	case p.is("count"), p.is("number", "of"), p.is("how", "many"):
		return aggCount, true
	case p.is("minimum"), p.is("min"), p.is("lowest"), p.is("smallest"), p.is("cheapest"), p.is("earliest"):
		return aggMin, true
	case p.is("maximum"), p.is("max"), p.is("highest"), p.is("largest"), p.is("biggest"), p.is("latest"), p.is("most", "expensive"):
		return aggMax, true
	default:
		return "", false
	}
}

// spec reads aggregates and their fields: average price, sum of price and seats, count of flights, min, max and average price.
func (p *parser) spec() (*grouping, bool) {
	g := &grouping{}
	for len(g.aggs) < maxSelect {
		before := p.at
		if len(g.aggs) > 0 {
			comma := p.comma()
			if and := p.is("and"); !comma && !and {
				break
			}
		}
		aggs, ok := p.aggregates()
		if !ok {
			p.at = before
			break
		}
		for _, a := range aggs {
			if !slices.Contains(g.aggs, a) {
				g.aggs = append(g.aggs, a)
			}
		}
	}
	return g, len(g.aggs) > 0
}

// aggregates reads FUNCTION[, FUNCTION and FUNCTION] [of] FIELD[, FIELD and FIELD]; a count takes no field.
func (p *parser) aggregates() ([]aggregate, bool) {
	p.skip("the")
	word := p.peek(0).lower
	fns := p.functions()
	if len(fns) == 0 {
		return nil, false
	}
	p.skip("of", "the", "all")
	last := fns[len(fns)-1]
	if last == aggCount {
		p.skip(apiFlights, "flight", "rows", "row", apiBookings, "them", "it", "those", "items", "records")
		return []aggregate{{fn: aggCount}}, len(fns) == 1
	}
	fields := []string{"price"}
	if _, flights := p.oneOf("flight", apiFlights, "fare"); !flights || word != "cheapest" && word != "most" { // "cheapest flight per airline"
		t := p.peek(0)
		if t.kind != tokenString && t.kind != tokenWord || keyword(t.lower) || flights {
			return nil, false
		}
		first, ok := p.field()
		if !ok {
			return nil, false
		}
		fields = p.moreFields([]string{first}, func(p *parser) bool {
			t := p.peek(0)
			fits := p.words.knows(t.lower) || t.kind == tokenString || p.tokens[p.at-1].lower == "and" && p.closed()
			return fits && !p.startsClause() && !p.ahead(p.functionAhead)
		})
	}
	var out []aggregate
	for _, fn := range fns {
		if fn == aggCount {
			out = append(out, aggregate{fn: fn})
			continue
		}
		for _, f := range fields {
			out = append(out, aggregate{fn, f})
		}
	}
	return out, true
}

// functions reads min, max and average.
func (p *parser) functions() []string {
	var fns []string
	for len(fns) < maxSelect {
		before := p.at
		if len(fns) > 0 {
			comma := p.comma()
			if and := p.is("and"); !comma && !and {
				break
			}
			p.skip("the")
		}
		fn, ok := p.aggregate()
		if !ok {
			p.at = before
			break
		}
		fns = append(fns, fn)
	}
	return fns
}

func (p *parser) functionAhead() bool {
	_, ok := p.aggregate()
	return ok
}

// grouping reads AGGREGATE [of] FIELD[, FIELD and FIELD] by|per|for each FIELD…, and group by FIELD… [and AGGREGATE].
func (p *parser) grouping() bool {
	before := p.at
	if by, ok := p.groupBy(); ok {
		p.comma()
		p.skip("and", "with", "show", "showing", "compute", "the", "give", "then")
		behind := p.at
		g, ok := p.spec()
		if !ok {
			g = &grouping{aggs: []aggregate{{fn: aggCount}}}
			p.at = behind
		}
		g.by = by
		return p.begin(stage{group: g})
	}
	p.at = before
	g, ok := p.spec()
	if !ok {
		return false
	}
	if g.by = p.by(); len(g.by) > 0 {
		return p.begin(stage{group: g})
	}
	// The groups may come later: "average price of flights from NYC to LAX by airline". Words that mean other things as well need them.
	word := p.tokens[before].lower
	if word == "the" {
		word = p.tokens[before+1].lower
	}
	if !slices.Contains([]string{"average", "avg", "mean", "sum", "total", "minimum", "maximum", "min", "max"}, word) || p.pending != nil || p.grouped() != nil {
		return false
	}
	for _, a := range g.aggs {
		if a.field != "" && !p.words.knows(a.field) {
			return false
		}
	}
	p.pending = g
	return true
}

// groups reads the groups of an aggregate that came before.
func (p *parser) groups() bool {
	if p.pending == nil {
		return false
	}
	p.pending.by = p.by()
	if len(p.pending.by) == 0 || !p.begin(stage{group: p.pending}) {
		return false
	}
	p.pending = nil
	return true
}

// groupBy reads group[ed] by FIELD, FIELD and FIELD.
func (p *parser) groupBy() ([]string, bool) {
	if _, ok := p.oneOf("group", "grouped"); !ok {
		return nil, false
	}
	p.skip("them", "it", "those", "these", "the", "rows", "flights", "results", "bookings")
	if !p.is("by") {
		return nil, false
	}
	p.skip("the")
	first, ok := p.field()
	if !ok {
		return nil, false
	}
	return p.furtherGroups(first), true
}

// by reads by|per|for each FIELD, FIELD and FIELD.
func (p *parser) by() []string {
	switch {
	case p.is("by"), p.is("per"), p.is("for", "each"), p.is("for", "every"), p.is("of", "each"), p.is("grouped", "by"), p.is("in", "each"):
	default:
		return nil
	}
	p.skip("the", "each")
	first, ok := p.field()
	if !ok {
		return nil
	}
	return p.furtherGroups(first)
}

func (p *parser) furtherGroups(first string) []string {
	return p.moreFields([]string{first}, func(p *parser) bool {
		t := p.peek(0)
		return !p.startsClause() && (p.words.knows(t.lower) || t.kind == tokenString || p.closed()) && !p.ahead(p.functionAhead, p.where, p.showing)
	})
}
