package offline

import (
	"regexp"
	"slices"
	"strings"
)

const (
	maxProgram = 4 << 10 // bytes of a jq program or a pattern
	maxBare    = 500     // of a pattern without quotes
)

// jq reads jq 'PROGRAM', transform with jq `PROGRAM`, or, without quotes, jq .… up to the line's end.
func (p *parser) jq() bool {
	p.skip("apply", "run", "transform", "them", "those", "it", "with", "using")
	if !p.is("jq") {
		return false
	}
	p.skip("program", "query", "filter", "transform")
	program := ""
	if t := p.peek(0); t.kind == tokenString {
		program = t.text
		p.at++
	} else if line, _, _ := strings.Cut(p.rest(maxProgram), "\n"); strings.HasPrefix(line, ".") || strings.HasPrefix(line, "[") || strings.HasPrefix(line, "{") ||
		strings.HasPrefix(line, "map(") {
		program = strings.TrimSpace(line)
		p.leap(p.peek(0).from + len(line))
	}
	if program == "" || len(program) > maxProgram {
		return false
	}
	return p.begin(stage{jq: program})
}

var (
	bareExtract = regexp.MustCompile(`(?is)^extract\s+(?:the\s+)?(\S.*?)\s+(?:from|out\s+of|in)\s`)
	bareFormat  = regexp.MustCompile(`^(?:%\S*)(?:\s+\S*%\S*)*`)
	wordFormat  = regexp.MustCompile(`(?i)^(?:dd|d|mm|m|yyyy|yy)(?:[-/.](?:dd|d|mm|m|yyyy|yy)){2}`)
)

// extracting reads extract PATTERN from FIELD, the pattern in quotes or not, and extract area code from FIELD for patterns that have a name.
func (p *parser) extracting() bool {
	if p.peek(0).lower != "extract" {
		return false
	}
	var pattern string
	begins := p.peek(0).from
	p.at++
	p.skip("the", "all", "pattern", "regex")
	if t := p.peek(0); t.kind == tokenString {
		pattern = t.text
		p.at++
		if _, ok := p.oneOf("from", "in"); !ok && !p.is("out", "of") {
			return false
		}
	} else {
		found := bareExtract.FindStringSubmatchIndex(clipBytes(p.prompt[begins:], maxBare))
		if found == nil {
			return false
		}
		pattern = p.prompt[begins+found[2] : begins+found[3]]
		p.leap(begins + found[1])
		if known := namedPattern(strings.ToLower(pattern)); known != "" {
			pattern = known
		} else if !strings.ContainsAny(pattern, `\[({^$*+?|.`) {
			return false
		}
	}
	p.skip("the", "field", "column", "each")
	field, ok := p.field()
	if !ok || pattern == "" || len(pattern) > maxProgram {
		return false
	}
	for _, name := range groupNames(pattern, field) {
		p.words[strings.ToLower(name)] = true
	}
	return p.begin(stage{extract: &extraction{pattern, field}})
}

// namedPattern is the pattern of what has a name.
func namedPattern(name string) string {
	switch strings.TrimSuffix(name, "s") {
	case "area code":
		return `(?P<area_code>\d{3})-\d{3}-\d{4}`
	case "email", "email addresse", "email address", "e-mail":
		return `(?P<email>[\w.+-]+@[\w-]+(?:\.[\w-]+)+)`
	case "domain":
		return `@(?P<domain>[\w-]+(?:\.[\w-]+)+)`
	case "number", "digit":
		return `(?P<number>\d+)`
	case "phone", "phone number":
		return `(?P<phone_number>\d{3}-\d{3}-\d{4})`
	case "year":
		return `(?P<year>\d{4})`
	case "first name":
		return `^(?P<first_name>\w+)`
	case "last name":
		return `^\w+ (?P<last_name>\w+)`
	default:
		return ""
	}
}

// dating reads parse FIELD [as|with format FORMAT]: %d/%m/%Y, dd/mm/yyyy, iso, or anything in quotes.
func (p *parser) dating() bool {
	if !p.is("parse") && !p.is("convert") {
		return false
	}
	p.skip("the", "date", "dates", "in", "field", "column", "of")
	begins := p.at
	_, known := p.knownField()
	p.at = begins
	first, ok := p.field()
	if !ok {
		return false
	}
	fields := p.moreFields([]string{first}, func(p *parser) bool { return !p.startsClause() && p.words.knows(p.peek(0).lower) })
	format := ""
	before := p.at
	if _, ok := p.oneOf("as", "with", "using", "from", "in", "to"); ok {
		p.skip("a", "the", "date", "dates", "format", "of", "iso", "rfc3339", "rfc")
		if f, ok := p.dateFormat(); ok {
			format = f
		} else if p.at == before+1 {
			p.at = before
		}
	}
	if !known && format == "" { // "parse this"
		return false
	}
	for _, f := range fields {
		if !p.begin(stage{date: &dating{f, format}}) {
			return false
		}
	}
	return true
}

func (p *parser) dateFormat() (string, bool) {
	if t := p.peek(0); t.kind == tokenString {
		p.at++
		return t.text, true
	}
	rest := p.rest(200)
	if line, _, ok := strings.Cut(rest, "\n"); ok {
		rest = line
	}
	if f := trimmed(bareFormat.FindString(rest)); f != "" {
		p.leap(p.peek(0).from + len(f))
		return f, true
	}
	if f := wordFormat.FindString(rest); f != "" {
		p.leap(p.peek(0).from + len(f))
		return strings.NewReplacer("dd", "%d", "mm", "%m", "yyyy", "%Y", "yy", "%y", "d", "%d", "m", "%m").Replace(strings.ToLower(f)), true
	}
	return "", false
}

// joining reads [left|inner] join [ROWS] [with] ROWS [on FIELD [= FIELD]].
func (p *parser) joining() bool {
	p.skip("inner", "then")
	j := &joining{left: p.is("left")}
	p.is("outer")
	if _, ok := p.oneOf("join", "joined", "merge", "merged", "combine", "combined", "enrich"); !ok {
		return false
	}
	p.skip("those", "them", "it", "these", "the", "flights", "rows")
	if first, ok := p.rows(); ok {
		j.with = first
		if _, and := p.oneOf("with", "and", "to", "against"); and {
			second, ok := p.rows()
			if !ok {
				return false
			}
			j.from, j.with = &first, second
		}
	} else {
		if _, with := p.oneOf("with", "and", "to", "against"); !with {
			return false
		}
		p.skip("the", "rows", "of")
		if j.with, ok = p.rows(); !ok {
			return false
		}
	}
	p.key(j)
	if p.is("keeping", "all") || p.is("keep", "all") || p.is("keeping", "unmatched") {
		j.left = true
		p.skip("rows", "unmatched", "flights")
	}
	if j.from != nil && !p.in.from.given() && !p.in.refines() { // the first of the two is the source
		p.in.from, j.from = *j.from, nil
	}
	return p.begin(stage{join: j})
}

// rows reads a source within a join.
func (p *parser) rows() (source, bool) {
	for _, read := range []func() (source, bool){
		p.address, p.list,
		func() (source, bool) {
			which, ok := p.picked()
			return source{pick: &which}, ok
		},
		func() (source, bool) {
			p.skip("the", "list", "of", "all")
			from, ok := p.named()
			if ok && from.api == apiFlights {
				before := p.at
				if from.origin, from.dest, ok = p.places(); !ok {
					p.at, from.origin, from.dest = before, "NYC", "LAX"
				}
				ok = true
			}
			return from, ok
		},
	} {
		before := p.at
		if from, ok := read(); ok {
			return from, true
		}
		p.at = before
	}
	return source{}, false
}

// key reads on FIELD [= FIELD].
func (p *parser) key(j *joining) {
	before := p.at
	if _, ok := p.oneOf("on", "by", "using", "over"); !ok {
		return
	}
	p.skip("the", "field", "key")
	first, ok := p.field()
	if !ok {
		p.at = before
		return
	}
	j.on = [2]string{first, first}
	before = p.at
	_, equals := p.oneOf("equals", "is", "to")
	if t := p.peek(0); t.kind == tokenOperator && t.text == "=" {
		p.at++
		equals = true
	}
	if second, ok := p.field(); equals && ok {
		j.on[1] = second
		return
	}
	p.at = before
}

// selection reads only FIELD, FIELD as NAME and FIELD; "show" does as well where all fields are known.
func (p *parser) selection() bool {
	word, ok := p.oneOf("only", "just", "select", "columns", "fields", "show", "list", "display", "give", "return", "keep")
	if !ok {
		return false
	}
	p.skip("show", "keep", "return", "me", "the", "only", "just")
	p.skip("fields", "columns", "their", "its")
	var list []column
	for len(list) < maxSelect {
		read := p.field
		if slices.Contains([]string{"show", "list", "display", "give", "return", "keep"}, word) {
			read = p.knownField
		}
		f, ok := read()
		if !ok {
			break
		}
		c := column{field: f}
		before := p.at
		if p.is("as") {
			if c.as, ok = p.field(); !ok {
				p.at = before
			}
			p.words[strings.ToLower(c.as)] = true
		}
		list = append(list, c)
		before = p.at
		comma := p.comma()
		if and := p.is("and"); !comma && !and || p.startsClause() {
			p.at = before
			break
		}
	}
	if len(list) == 0 {
		return false
	}
	s := p.next()
	for _, c := range list {
		if !slices.Contains(s.fields, c) && len(s.fields) < maxSelect {
			s.fields = append(s.fields, c)
		}
	}
	return true
}

// renaming reads rename FIELD to NAME [and FIELD to NAME …]: the other fields stay.
func (p *parser) renaming() bool {
	if _, ok := p.oneOf("rename", "call"); !ok {
		return false
	}
	s := p.next()
	found := false
	for len(s.rename) < maxSelect {
		before := p.at
		if found {
			comma := p.comma()
			if and := p.is("and"); !comma && !and {
				break
			}
		}
		p.skip("the", "field", "column")
		field, ok := p.field()
		if _, to := p.oneOf("to", "as", "into"); !ok || !to {
			p.at = before
			break
		}
		as, ok := p.field()
		if !ok {
			p.at = before
			break
		}
		p.words[strings.ToLower(as)] = true
		s.rename = append(s.rename, column{field, as})
		found = true
	}
	return found
}

// dropping reads drop FIELD, FIELD and FIELD.
func (p *parser) dropping() bool {
	if _, ok := p.oneOf("drop", "remove", "hide"); !ok {
		return false
	}
	p.skip("the", "field", "fields", "column", "columns")
	first, ok := p.knownField()
	if !ok {
		return false
	}
	s := p.next()
	s.drop = append(s.drop, p.moreFields([]string{first}, func(p *parser) bool { return !p.startsClause() && p.words.knows(p.peek(0).lower) })...)
	return true
}
