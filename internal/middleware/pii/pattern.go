package pii

import (
	"errors"
	"regexp/syntax"
	"unicode"
	"unicode/utf8"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a detector.
const (
	maxPattern      = 1000 // bytes of the expression
	maxInstructions = 2000 // of the program that it becomes, each of which may run for every byte
	minLookback     = 16
	maxLookback     = 4096
	defaultLookback = 256
)

// pattern is a detector: an RE2 expression with regexp's syntax and choice of match. A [machine] runs it, because regexp cannot report
// whether more text would change its answer.
type pattern struct {
	prog  *syntax.Prog
	limit int       // the most bytes of a value that are looked at before it is replaced
	first [256]bool // the bytes that a value can begin with
}

// newPattern compiles a detector. A lookback of 0 means the longest match of the expression, or [defaultLookback] if that is unbounded.
func newPattern(expression string, lookback int) (*pattern, error) {
	if len(expression) > maxPattern {
		return nil, agent.Invalid("detector", "has %d bytes, more than %d", len(expression), maxPattern)
	}
	if lookback != 0 && (lookback < minLookback || lookback > maxLookback) {
		return nil, agent.Invalid("stream_lookback", "want %d to %d bytes", minLookback, maxLookback)
	}
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, agent.Invalid("detector", "%w", err)
	}
	shortest, longest := lengths(re)
	if shortest == 0 {
		return nil, agent.Invalid("detector", "may match the empty string")
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return nil, agent.Invalid("detector", "%w", err)
	}
	if len(prog.Inst) > maxInstructions {
		return nil, agent.Invalid("detector", "%w", errors.New("is too large: repeat less"))
	}
	p := &pattern{prog: prog, limit: lookback}
	if lookback == 0 {
		p.limit = longest
		if longest > maxLookback {
			p.limit = defaultLookback
		}
	}
	p.markFirst(make([]bool, len(prog.Inst)), uint32(prog.Start)) //nolint:gosec // an index of Inst
	return p, nil
}

// markFirst follows the program to the instructions that wait for the first rune.
func (p *pattern) markFirst(seen []bool, pc uint32) {
	if seen[pc] {
		return
	}
	seen[pc] = true
	inst := &p.prog.Inst[pc]
	switch inst.Op {
	case syntax.InstAlt, syntax.InstAltMatch:
		p.markFirst(seen, inst.Out)
		p.markFirst(seen, inst.Arg)
	case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
		p.markFirst(seen, inst.Out)
	case syntax.InstMatch, syntax.InstFail:
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		for c := range rune(utf8.RuneSelf) {
			p.first[c] = p.first[c] || inst.MatchRune(c)
		}
		for c := utf8.RuneSelf; c < len(p.first); c++ { // those of every other rune, and of what is no UTF-8
			p.first[c] = true
		}
	}
}

// lengths returns the bounds of a match in bytes. Above maxLookback they are not exact.
func lengths(re *syntax.Regexp) (shortest, longest int) {
	switch re.Op {
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			shortest++
			longest += runeLen(c, re.Flags&syntax.FoldCase != 0)
		}
	case syntax.OpCharClass:
		if n := len(re.Rune); n > 0 {
			return 1, runeLen(re.Rune[n-1], false)
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return 1, utf8.UTFMax
	case syntax.OpCapture:
		return lengths(re.Sub[0])
	case syntax.OpStar:
		return repeated(re.Sub[0], 0, -1)
	case syntax.OpPlus:
		return repeated(re.Sub[0], 1, -1)
	case syntax.OpQuest:
		return repeated(re.Sub[0], 0, 1)
	case syntax.OpRepeat:
		return repeated(re.Sub[0], re.Min, re.Max)
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			s, l := lengths(sub)
			shortest, longest = shortest+s, min(longest+l, maxLookback+1)
		}
	case syntax.OpAlternate:
		shortest = maxLookback
		for _, sub := range re.Sub {
			s, l := lengths(sub)
			shortest, longest = min(shortest, s), max(longest, l)
		}
	default: // assertions, and what never matches: no bytes
	}
	return shortest, longest
}

func repeated(re *syntax.Regexp, minCount, maxCount int) (shortest, longest int) {
	s, l := lengths(re)
	if maxCount < 0 && l > 0 {
		return s * minCount, maxLookback + 1
	}
	return s * minCount, min(l*max(maxCount, 0), maxLookback+1)
}

// runeLen returns the most bytes of c or of a rune that differs from it only in case.
func runeLen(c rune, fold bool) int {
	n := utf8.RuneLen(c)
	if n < 0 { // a surrogate, as the end of a class
		return utf8.UTFMax
	}
	if fold {
		for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
			n = max(n, utf8.RuneLen(f))
		}
	}
	return n
}

func (p *pattern) find(text string, from int, more bool) (v value, hold int, ok bool) {
	return p.newMachine(text, from).find(text, from, more)
}
