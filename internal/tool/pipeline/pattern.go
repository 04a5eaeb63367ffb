package pipeline

import (
	"context"
	"regexp"
	"regexp/syntax"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The bounds of a regular expression. RE2 takes time in proportion to the length of the text times the size of the program.
const (
	maxPattern = 64 << 10 // bytes
	maxProgram = 20_000   // instructions; [a-z]{1000} has about a thousand
	maxMatch   = 1 << 28  // instructions times bytes of one text: some seconds at most
	matchCheck = 1 << 24  // instructions times bytes between two checks of the context
)

// pattern is a regular expression (RE2) that a model wrote.
type pattern struct {
	re    *regexp.Regexp
	size  int64 // instructions of the program
	spent int64 // instructions times bytes since the last check of the context
}

// compilePattern parses a regular expression and bounds the size of its program before it compiles it. field names it in the fault.
func compilePattern(field, text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, faultf(agent.CodeOverflow, field, "is %d bytes, at most %d", len(text), maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, invalid(field, "is no valid pattern (RE2): %s", clip.Bytes(err.Error(), maxQuote))
	}
	size := programSize(tree)
	if size > maxProgram {
		return nil, faultf(agent.CodeOverflow, field, "is a pattern that makes a program of more than %d instructions: repeat less", maxProgram)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, invalid(field, "is no valid pattern (RE2): %s", clip.Bytes(err.Error(), maxQuote))
	}
	return &pattern{re: re, size: size}, nil
}

// programSize returns an upper estimate of the number of instructions of a compiled expression.
func programSize(e *syntax.Regexp) int64 {
	size := int64(1)
	switch e.Op {
	case syntax.OpLiteral:
		size += int64(len(e.Rune))
	case syntax.OpCharClass:
		size++ // RE2 searches the ranges instead of trying each
	default:
	}
	for _, sub := range e.Sub {
		size += programSize(sub)
		if size > maxProgram {
			return size
		}
	}
	if e.Op == syntax.OpRepeat {
		size *= int64(max(e.Min, e.Max, 1)) + 1
	}
	return size
}

// checkCost returns a fault if matching a text of row i would take too long. Now and then it checks the context.
func (p *pattern) checkCost(ctx context.Context, argument string, i int, field *path, text []byte) error {
	work := p.size * int64(len(text))
	if work > maxMatch {
		return valueFault(argument, i, field, "%d bytes are too long for this pattern: at most %d", len(text), maxMatch/p.size)
	}
	if p.spent += work; p.spent > matchCheck {
		p.spent = 0
		return checkContext(ctx, 0)
	}
	return nil
}
