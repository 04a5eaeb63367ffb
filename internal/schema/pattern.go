package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of a pattern, because repetitions such as {1000} take much memory and slow down every match.
const (
	maxPattern      = 1_000 // bytes
	maxInstructions = 5_000
	maxOfSchema     = 50_000 // instructions of all patterns of a schema
)

// pattern is a regular expression with its size.
type pattern struct {
	*regexp.Regexp

	instructions int
}

// patterns compiles the regular expressions of a schema.
type patterns struct{ remaining int } // instructions

// compile compiles a pattern, which must be RE2, because RE2 matches in linear time.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("a pattern has at most %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		if e, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, fmt.Errorf("the pattern is not supported: %s: %s (patterns are RE2: no look-around, no back-references)",
				e.Code, clip.Runes(e.Expr, maxEcho+1))
		}
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("compile pattern: %w", err)
	}
	p.remaining -= len(program.Inst)
	if p.remaining < 0 || len(program.Inst) > maxInstructions {
		return nil, errors.New("the pattern is too large: it repeats too much")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("compile pattern: %w", err)
	}
	return &pattern{Regexp: re, instructions: len(program.Inst)}, nil
}
