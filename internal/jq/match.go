package jq

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of regular expressions. A match takes time in proportion to the text times the compiled expression.
const (
	maxPattern   = 2_000      // bytes
	maxSteps     = 50_000_000 // bytes of text times instructions, about half a second
	maxCaptures  = 100_000
	keptPatterns = 64 // compiled ones of a run
)

type pattern struct {
	re    *regexp.Regexp
	probe *regexp.Regexp // finds the empty match behind a match, which jq reports and Go does not
	size  int            // instructions
}

type patternCache = simplelru.LRU[string, *pattern]

func (m *meter) pattern(expr, flags string) (*pattern, error) {
	if len(expr) > maxPattern {
		return nil, invalid("a regular expression has %d bytes, at most %d", len(expr), maxPattern)
	}
	if i := strings.IndexFunc(flags, func(r rune) bool { return !strings.ContainsRune("gim", r) }); i >= 0 {
		return nil, invalid("unsupported flag of a regular expression: %q", clip.Bytes(flags[i:], maxQuoted))
	}
	prefix := ""
	if strings.Contains(flags, "i") {
		prefix += "(?i)"
	}
	if strings.Contains(flags, "m") {
		prefix += "(?s)"
	}
	expr = prefix + expr
	if p, ok := m.patterns.Get(expr); ok {
		return p, nil
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		return nil, invalid("invalid regular expression %q: %s", clip.Bytes(expr, maxQuoted), err)
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, invalid("invalid regular expression %q: %s", clip.Bytes(expr, maxQuoted), err)
	}
	p := &pattern{size: len(prog.Inst)}
	if p.re, err = regexp.Compile(expr); err != nil {
		return nil, invalid("invalid regular expression %q: %s", clip.Bytes(expr, maxQuoted), err)
	}
	if p.probe, err = regexp.Compile(`\A(?s:.)(?:` + expr + `)`); err != nil {
		p.probe = nil
	}
	m.patterns.Add(expr, p)
	return p, nil
}

// match is _x_match(re; flags; test): gojq's _match, bounded and in linear time.
func (m *meter) match(v any, args []any) any {
	s, ok := v.(string)
	expr, ok2 := args[0].(string)
	flags, ok3 := args[1].(string)
	if !ok || !ok2 || !ok3 && args[1] != nil {
		return invalid("%s cannot be matched against %s, as they are not both strings", gojqType(v), gojqType(args[0]))
	}
	p, err := m.pattern(expr, flags)
	if err != nil {
		return err
	}
	if len(s)*p.size > maxSteps {
		return tooMuch("a string of %d bytes is too long for this regular expression", len(s))
	}
	if args[2] == true {
		return p.re.MatchString(s)
	}
	n := 1
	if strings.Contains(flags, "g") {
		n = maxCaptures/(p.re.NumSubexp()+1) + 1
	}
	found := p.re.FindAllStringSubmatchIndex(s, n)
	if n > 1 {
		if len(found) == n {
			return tooMuch("a regular expression matches more than %d times", n-1)
		}
		found = p.withEmpty(s, found)
	}
	return p.results(s, found)
}

// withEmpty adds the empty matches right behind others, which jq reports and Go does not.
func (p *pattern) withEmpty(s string, found [][]int) [][]int {
	if p.probe == nil || len(s) > maxSteps/(p.size+2)/max(len(found), 1) {
		return found
	}
	all := make([][]int, 0, len(found))
	for i, x := range found {
		all = append(all, x)
		if x[0] == x[1] || i+1 < len(found) && found[i+1][0] == x[1] {
			continue
		}
		_, w := utf8.DecodeLastRuneInString(s[:x[1]])
		from := x[1] - w
		empty := p.probe.FindStringSubmatchIndex(s[from:])
		if empty == nil || empty[1] != w {
			continue
		}
		empty[0], empty[1] = x[1], x[1]
		for j := 2; j < len(empty); j++ {
			if empty[j] >= 0 {
				empty[j] += from
			}
		}
		all = append(all, empty)
	}
	return all
}

// results returns jq's match objects. Offsets and lengths count code points.
func (p *pattern) results(s string, found [][]int) any {
	out, names := make([]any, len(found)), p.re.SubexpNames()
	count := runes{s: s}
	for i, x := range found {
		captures := make([]any, 0, len(x)/2-1)
		begin := count.upTo(x[0])
		for j := 1; j < len(x)/2; j++ {
			c := map[string]any{"name": nil, "offset": -1, "length": 0, "string": nil}
			if names[j] != "" {
				c["name"] = names[j]
			}
			if from, to := x[2*j], x[2*j+1]; from >= 0 {
				c["offset"] = begin + utf8.RuneCountInString(s[x[0]:from])
				c["length"], c["string"] = utf8.RuneCountInString(s[from:to]), s[from:to]
			}
			captures = append(captures, c)
		}
		out[i] = map[string]any{
			"offset": begin, "length": utf8.RuneCountInString(s[x[0]:x[1]]), "string": s[x[0]:x[1]], "captures": captures,
		}
	}
	return out
}

// runes counts the code points before an offset. Offsets may only grow.
type runes struct {
	s             string
	offset, count int
}

func (r *runes) upTo(offset int) int {
	r.count += utf8.RuneCountInString(r.s[r.offset:offset])
	r.offset = offset
	return r.count
}
