package offline

import (
	"encoding/json"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// operator is a comparison of table_filter as a prompt says it.
type operator struct {
	words          string
	op             string
	negated        bool   // there is no operator for it
	prefix, suffix string // what a pattern has around the value
}

// operators lists the comparisons in words, what begins alike with the longer first. "is" may stand before each.
func operators() []operator {
	return []operator{
		{words: "less than or equal to", op: "<="},
		{words: "greater than or equal to", op: ">="},
		{words: "more than or equal to", op: ">="},
		{words: "less than", op: "<"},
		{words: "fewer than", op: "<"},
		{words: "cheaper than", op: "<"},
		{words: "lower than", op: "<"},
		{words: "smaller than", op: "<"},
		{words: "shorter than", op: "<"},
		{words: "earlier than", op: "<"},
		{words: "under", op: "<"},
		{words: "below", op: "<"},
		{words: "before", op: "<"},
		{words: "more than", op: ">"},
		{words: "greater than", op: ">"},
		{words: "higher than", op: ">"},
		{words: "larger than", op: ">"},
		{words: "longer than", op: ">"},
		{words: "later than", op: ">"},
		{words: "over", op: ">"},
		{words: "above", op: ">"},
		{words: "after", op: ">"},
		{words: "exceeds", op: ">"},
		{words: "at most", op: "<="},
		{words: "up to", op: "<="},
		{words: "no more than", op: "<="},
		{words: "not more than", op: "<="},
		{words: "on or before", op: "<="},
		{words: "at least", op: ">="},
		{words: "no less than", op: ">="},
		{words: "not less than", op: ">="},
		{words: "on or after", op: ">="},
		{words: "since", op: ">="},
		{words: "not in", op: "in", negated: true},
		{words: "not one of", op: "in", negated: true},
		{words: "not any of", op: "in", negated: true},
		{words: "none of", op: "in", negated: true},
		{words: "neither", op: "in", negated: true},
		{words: "in", op: "in"},
		{words: "one of", op: "in"},
		{words: "any of", op: "in"},
		{words: "either", op: "in"},
		{words: "does not contain", op: "contains", negated: true},
		{words: "doesn't contain", op: "contains", negated: true},
		{words: "do not contain", op: "contains", negated: true},
		{words: "not contains", op: "contains", negated: true},
		{words: "not containing", op: "contains", negated: true},
		{words: "contains", op: "contains"},
		{words: "contain", op: "contains"},
		{words: "includes", op: "contains"},
		{words: "containing", op: "contains"},
		{words: "does not match", op: "matches", negated: true},
		{words: "doesn't match", op: "matches", negated: true},
		{words: "not matching", op: "matches", negated: true},
		{words: "matches", op: "matches"},
		{words: "match", op: "matches"},
		{words: "matching", op: "matches"},
		{words: "starts with", op: "matches", prefix: "^"},
		{words: "starting with", op: "matches", prefix: "^"},
		{words: "begins with", op: "matches", prefix: "^"},
		{words: "ends with", op: "matches", suffix: "$"},
		{words: "ending with", op: "matches", suffix: "$"},
		{words: "ending in", op: "matches", suffix: "$"},
		{words: "does not exist", op: "exists", negated: true},
		{words: "doesn't exist", op: "exists", negated: true},
		{words: "exists", op: "exists"},
		{words: "exist", op: "exists"},
		{words: "present", op: "exists"},
		{words: "set", op: "exists"},
		{words: "missing", op: "exists", negated: true},
		{words: "absent", op: "exists", negated: true},
		{words: "unset", op: "exists", negated: true},
		{words: "not set", op: "exists", negated: true},
		{words: "not present", op: "exists", negated: true},
		{words: "not missing", op: "exists"},
		{words: "not equal to", op: "!="},
		{words: "does not equal", op: "!="},
		{words: "doesn't equal", op: "!="},
		{words: "other than", op: "!="},
		{words: "isn't", op: "!="},
		{words: "equals", op: "="},
		{words: "equal to", op: "="},
		{words: "exactly", op: "="},
	}
}

// beginsOperator reports whether one of the operators begins with a word.
func beginsOperator(word string) bool {
	switch word {
	case "less", "greater", "more", "fewer", "cheaper", "lower", "smaller", "shorter", "earlier", "under", "below", "before", "higher", "larger", "longer",
		"later", "over", "above", "after", "exceeds", "at", "up", "no", "not", "on", "since", "none", "neither", "in", "one", "any", "either", "does", "doesn't",
		"do", "contains", "contain", "includes", "containing", "matches", "match", "matching", "starts", "starting", "begins", "ends", "ending", "exists", "exist",
		"present", "set", "missing", "absent", "unset", "other", "isn't", "equals", "equal", "exactly":
		return true
	default:
		return false
	}
}

// operator reads a comparison in signs or words.
func (p *parser) operator() (operator, bool) {
	if t := p.peek(0); t.kind == tokenOperator {
		p.at++
		return operator{op: t.text}, true
	}
	is := p.is("is") || p.is("are") || p.is("was") || p.is("were")
	if p.peek(0).kind == tokenWord && beginsOperator(p.peek(0).lower) {
		for _, o := range operators() {
			if first, _, _ := strings.Cut(o.words, " "); first == p.peek(0).lower && p.is(strings.Split(o.words, " ")...) {
				return o, true
			}
		}
	}
	switch {
	case is && p.is("not"):
		return operator{op: "!="}, true
	case is && p.peek(0).kind == tokenOperator: // "is > 3"
		p.at++
		return operator{op: p.tokens[p.at-1].text}, true
	default:
		return operator{op: "="}, is
	}
}

// value reads a number, a string in quotes, a word, or words that all begin with a capital; true, false and null are themselves.
func (p *parser) value() (json.RawMessage, bool) {
	t := p.peek(0)
	switch {
	case t.kind == tokenNumber:
		p.at++
		_, _ = p.oneOf("dollars", "usd", "minutes", "min")
		return json.RawMessage(t.text), true
	case t.kind == tokenString, t.kind == tokenURL:
	case t.kind == tokenWord && (t.lower == "true" || t.lower == "false" || t.lower == "null"):
		p.at++
		return json.RawMessage(t.lower), true
	case t.kind == tokenWord:
		if !capital(t.text) {
			break
		}
		var words []string
		for ; p.peek(0).kind == tokenWord && capital(p.peek(0).text); p.at++ {
			words = append(words, p.peek(0).text)
		}
		return jsonString(strings.Join(words, " ")), true
	default:
		return nil, false
	}
	p.at++
	return jsonString(t.text), true
}

// capital reports whether a word begins with a capital and has small letters as well: a part of a name.
func capital(word string) bool {
	r, _ := utf8.DecodeRuneInString(word)
	return unicode.IsUpper(r) && strings.ContainsFunc(word, unicode.IsLower)
}

// values reads (A, B, C), or A, B or C when bare ones are allowed.
func (p *parser) values(bare bool) (json.RawMessage, bool) {
	if p.peek(0).kind != tokenOpen {
		if !bare {
			return nil, false
		}
		v, ok := p.value()
		if !ok {
			return nil, false
		}
		list, _ := p.alternatives(v)
		return list, true
	}
	p.at++
	list := []json.RawMessage{}
	for len(list) < maxTests {
		if p.comma() || p.is("or") || p.is("and") {
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
		list = append(list, v)
	}
	return encoded(list, nil), len(list) > 0
}

// alternatives reads what follows a value in a list: ", B or C", "nor C"; several is false without any. Commas that no "or" ends separate
// clauses.
func (p *parser) alternatives(first json.RawMessage) (list json.RawMessage, several bool) {
	values := []json.RawMessage{first}
	sure, end := 1, p.at
	for len(values) < maxTests {
		comma := p.comma()
		or := p.is("or") || p.is("nor")
		if !comma && !or {
			break
		}
		before := p.at
		v, ok := p.value()
		if !ok || p.startsTest(before) {
			break
		}
		values = append(values, v)
		if or {
			sure, end = len(values), p.at
		}
	}
	p.at = end
	return encoded(values[:sure], nil), sure > 1
}

// startsTest reports whether the tokens at a place are a test of their own: "or stops = 0".
func (p *parser) startsTest(at int) bool {
	now := p.at
	defer func() { p.at = now }()
	p.at = at
	if p.peek(0).kind != tokenWord || keyword(p.peek(0).lower) {
		return p.peek(0).kind == tokenWord
	}
	if _, ok := p.field(); !ok {
		return false
	}
	_, ok := p.operator()
	return ok
}

// anchored is the pattern of what begins or ends with a value.
func anchored(v json.RawMessage, o operator) (json.RawMessage, bool) {
	text := stringOf(v)
	if text == "" {
		text = string(v)
	}
	return jsonString(o.prefix + regexp.QuoteMeta(text) + o.suffix), true
}

func jsonString(s string) json.RawMessage {
	raw, err := encode(s)
	if err != nil { // cannot be: a string always encodes
		return json.RawMessage(`""`)
	}
	return raw
}
