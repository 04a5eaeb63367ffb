package schema

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of a pattern: repeating a long one {1000} times would fill the memory and slow down every match.
const (
	maxPattern      = 1_000 // bytes
	maxInstructions = 5_000
	maxOfSchema     = 50_000 // instructions of all patterns of a schema
)

// pattern is a regular expression that knows its size.
type pattern struct {
	*regexp.Regexp

	instructions int
}

// patterns compiles the regular expressions of one schema.
type patterns struct{ left int } // instructions

// compile accepts RE2 only, which matches in a time linear in the text.
func (p *patterns) compile(text string) (jsonschema.Regexp, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("a pattern has at most %d bytes", maxPattern)
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			return nil, fmt.Errorf("the pattern is not supported: %s: %s (patterns are RE2: no look-around, no back-references)",
				bad.Code, clip.Runes(bad.Expr, maxEcho+1))
		}
		return nil, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fmt.Errorf("compile pattern: %w", err)
	}
	if p.left -= len(program.Inst); p.left < 0 || len(program.Inst) > maxInstructions {
		return nil, errors.New("the pattern is too large: it repeats too much")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("compile pattern: %w", err)
	}
	return &pattern{Regexp: re, instructions: len(program.Inst)}, nil
}
