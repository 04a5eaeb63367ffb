package offline

import (
	"regexp/syntax"
	"unicode"
	"unicode/utf8"
)

// patternExamples are strings that a pattern may match, the shortest first, then those of at least so many runes. There are none for
// a pattern that Go cannot read.
func patternExamples(pattern string, least, nth int) []string {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil
	}
	re = re.Simplify()
	var out []string
	write := func(extra int) {
		e := example{extra: min(extra, maxText), nth: nth}
		e.write(re)
		out = append(out, string(e.out))
	}
	write(0)
	if missing := least - utf8.RuneCountInString(out[0]); missing > 0 {
		write(missing)
		write(least)
	}
	write(1)
	return out
}

// example writes a string that an expression matches: where it may go on for ever, extra times more than it must.
type example struct {
	out   []rune
	extra int
	nth   int // which rune of the first class that has several
}

func (e *example) write(re *syntax.Regexp) {
	if len(e.out) > maxText {
		return
	}
	switch re.Op {
	case syntax.OpLiteral:
		e.out = append(e.out, re.Rune...)
	case syntax.OpCharClass:
		e.class(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		e.out = append(e.out, 'x')
	case syntax.OpStar:
		e.repeat(re.Sub[0], e.extra)
		e.extra = 0
	case syntax.OpPlus:
		e.repeat(re.Sub[0], 1+e.extra)
		e.extra = 0
	case syntax.OpQuest:
		if e.extra > 0 {
			e.extra--
			e.write(re.Sub[0])
		}
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			e.write(sub)
		}
	case syntax.OpAlternate:
		e.write(re.Sub[0])
	default: // the empty ones; repetitions of a number are gone since Simplify
	}
}

func (e *example) repeat(re *syntax.Regexp, n int) {
	for range n {
		e.write(re)
	}
}

// class writes a letter, else a digit, else whatever the class has.
func (e *example) class(ranges []rune) {
	if len(ranges) == 0 {
		return
	}
	for _, want := range []func(rune) bool{unicode.IsLetter, unicode.IsDigit, unicode.IsPrint} {
		for i := 0; i+1 < len(ranges); i += 2 {
			for _, first := range []rune{ranges[i], 'a', 'A', '0'} {
				if first < ranges[i] || first > ranges[i+1] || !want(first) {
					continue
				}
				if r := first + rune(e.nth%100); r <= ranges[i+1] && want(r) {
					e.nth, first = 0, r
				}
				e.out = append(e.out, first)
				return
			}
		}
	}
	e.out = append(e.out, ranges[0])
}
