package offline

// superlative reads [N] cheapest [N], most expensive [N], fastest [N], slowest [N], latest [N], earliest [N], highest FIELD.
func (p *parser) superlative() bool {
	n, counted := p.count()
	field, desc := "price", false
	switch {
	case p.is("cheapest"), p.is("lowest", "price"), p.is("least", "expensive"):
	case p.is("most", "expensive"), p.is("priciest"), p.is("highest", "price"):
		desc = true
	case p.is("fastest"), p.is("shortest"):
		field = "duration_min"
	case p.is("slowest"), p.is("longest"):
		field, desc = "duration_min", true
	case p.is("earliest"):
		field = "departure"
	case p.is("latest"):
		field, desc = "departure", true
	default:
		d := direction(p.peek(0).lower)
		if d == 0 {
			return false
		}
		p.at++
		f, ok := p.knownField()
		if g := p.grouped(); !ok && g != nil && p.peek(0).lower == "first" { // "highest first" is about what was computed
			f, ok = g.aggs[0].name(), true
		}
		if !ok {
			return false
		}
		field, desc = f, d < 0
	}
	s := p.next(field)
	if len(s.sort) == 0 {
		s.sort = []sortKey{{field, desc}}
	}
	if _, first := p.oneOf("first"); first { // "cheapest first" is an order, not a number
		return true
	}
	if counted {
		s.top = n
	} else if n, ok := p.count(); ok {
		s.top = n
	} else if p.is("flight") || p.is("one") {
		s.top = 1
	}
	return true
}

// sorting reads sort by FIELD [ascending|descending] [and|then by FIELD …].
func (p *parser) sorting() bool {
	if _, ok := p.oneOf("sort", "sorted", "order", "ordered", "rank", "ranked"); !ok {
		return false
	}
	for !p.is("by") {
		if p.result() {
			continue
		}
		if _, ok := p.oneOf("them", "it", "those", "these", "the", "rows", "results", "flights", "all", "result"); ok {
			continue
		}
		if p.peek(0).kind == tokenComma { // "sort, show top 3"
			p.next("price").sort = []sortKey{{field: "price"}}
			return true
		}
		return false
	}
	var keys []sortKey
	for len(keys) < maxSelect {
		key, ok := p.sortKey()
		if !ok {
			break
		}
		keys = append(keys, key)
		before := p.at
		if !p.furtherKey() {
			p.at = before
			break
		}
	}
	if len(keys) == 0 {
		return false
	}
	var uses []string
	for _, k := range keys {
		uses = append(uses, k.field)
	}
	p.next(uses...).sort = keys
	return true
}

// furtherKey steps over what is between two keys: "then by", "and", ", then".
func (p *parser) furtherKey() bool {
	comma := p.comma()
	and, then := p.is("and"), p.is("then")
	by := p.is("by")
	t := p.peek(0)
	if t.kind != tokenString && (t.kind != tokenWord || keyword(t.lower) && p.grouped() == nil) {
		return false
	}
	switch {
	case by:
		return comma || and || then
	case then, and:
		return (p.words.knows(t.lower) || t.kind == tokenString || p.closed()) && !p.ahead(p.grouping, p.where)
	default:
		return false
	}
}

func (p *parser) sortKey() (sortKey, bool) {
	p.is("the")
	field, ok := p.field()
	if !ok {
		return sortKey{}, false
	}
	key := sortKey{field: field}
	if p.peek(0).kind == tokenComma && direction(p.peek(1).lower) != 0 && (p.peek(2).kind != tokenNumber) { // "by price, descending"
		p.at++
	}
	if p.peek(0).lower == "in" && direction(p.peek(1).lower) != 0 {
		p.at++
	}
	if d := direction(p.peek(0).lower); d != 0 {
		p.at++
		key.desc = d < 0
		_, _ = p.oneOf("first", "order")
	}
	return key, true
}

// direction is 1 for words that mean ascending, -1 for descending, 0 for others.
func direction(word string) int {
	switch word {
	case "asc", "ascending", "lowest", "cheapest", "smallest", "earliest", "increasing", "oldest", "fewest":
		return 1
	case "desc", "descending", "highest", "largest", "biggest", "latest", "decreasing", "newest":
		return -1
	default:
		return 0
	}
}

// amount reads top N, first N, limit [to] N, show [me] [the] [top] N; top N [FIELD] by [AGGREGATE] FIELD also sorts, the largest first.
func (p *parser) amount() bool {
	word, ok := p.oneOf("top", "first", "limit", "show", "list", "take", "best", "give")
	if !ok {
		return false
	}
	p.skip("me", "the", "to", "only", "top", "first", "it", "them")
	n, ok := p.count()
	if !ok {
		return false
	}
	if word == "show" || word == "list" || word == "give" { // "show 3 stops" is no amount of rows
		if t := p.peek(0); t.kind == tokenWord && (t.lower == "stops" || t.lower == "stop") {
			return false
		}
	}
	if !p.ranking(n) {
		p.next().top = n
		if word == "top" {
			p.cut = len(p.in.stages)
		}
	}
	return true
}

// ranked reads by FIELD behind "top 5 flights from NYC to LAX".
func (p *parser) ranked() bool {
	if p.cut == 0 || !p.is("by") {
		return false
	}
	s := &p.in.stages[p.cut-1]
	key, ok := p.sortKey()
	if !ok || len(s.sort) > 0 {
		return false
	}
	if p.tokens[p.at-1].kind != tokenWord || direction(p.tokens[p.at-1].lower) == 0 {
		key.desc = true
	}
	s.sort = []sortKey{key}
	return true
}

// ranking reads what may follow "top 3": [FIELD] by [AGGREGATE] FIELD.
func (p *parser) ranking(n int) bool {
	before := p.at
	by := ""
	if t := p.peek(0); t.kind == tokenWord && (t.lower == apiFlights || t.lower == "rows" || t.lower == apiBookings) {
		p.at++
	} else if name, ok := p.knownField(); ok {
		by = name
	}
	if !p.is("by") {
		p.at = before
		return false
	}
	p.skip("the")
	key := sortKey{desc: true}
	if g, ok := p.spec(); ok && by != "" && p.grouped() == nil {
		g.by = []string{by}
		if !p.begin(stage{group: g}) {
			return false
		}
		key.field = g.aggs[0].name()
	} else {
		p.at = before
		p.knownField()
		p.skip(apiFlights, "rows", apiBookings)
		p.skip("by", "the")
		f, ok := p.field()
		if !ok {
			p.at = before
			return false
		}
		key.field = f
		if d := direction(p.peek(0).lower); d != 0 {
			p.at++
			key.desc = d < 0
		}
	}
	s := p.next(key.field)
	s.sort, s.top = []sortKey{key}, n
	return true
}
