package jq

import (
	"errors"
	"slices"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// field is the name of the program in errors.
const field = "query"

// MaxQuery is the maximum length of a program in bytes.
const MaxQuery = 10_000

// maxQuoted is how many bytes of another error an error quotes.
const maxQuoted = 200

// Program is a valid program. It is safe for concurrent use.
type Program struct {
	text string
	rows rowForm
}

// Compile returns a program, or an error of [agent.CodeInvalid] with the position of the mistake.
func Compile(query string) (*Program, error) {
	if strings.TrimSpace(query) == "" {
		return nil, invalid("is empty")
	}
	if len(query) > MaxQuery {
		return nil, invalid("has %d bytes, at most %d", len(query), MaxQuery)
	}
	q, err := gojq.Parse(query)
	if err != nil {
		return nil, parseError(query, err)
	}
	if _, err := gojq.Compile(q); err != nil {
		return nil, invalid("%s", clip.Bytes(err.Error(), maxQuoted))
	}
	_, form := findRowQuery(q)
	return &Program{text: query, rows: form}, nil
}

// parseError returns the error of a program that cannot be parsed, with its line and column.
func parseError(query string, err error) error {
	parseErr, ok := errors.AsType[*gojq.ParseError](err)
	if !ok {
		return invalid("%s", clip.Bytes(err.Error(), maxQuoted))
	}
	offset := min(max(parseErr.Offset-len(parseErr.Token), 0), len(query))
	line := 1 + strings.Count(query[:offset], "\n")
	column := offset - strings.LastIndexByte(query[:offset], '\n')
	return invalid("line %d, column %d: %s", line, column, clip.Bytes(err.Error(), maxQuoted))
}

// rowForm is the form of a program, which determines whether it can get the values of an array one by one.
type rowForm byte

const (
	rowsTogether rowForm = iota // needs the whole array
	rowsEach                    // .[] | f
	rowsMapped                  // map(f) and [.[] | f], whose outputs are the elements of one array
)

// findRowQuery returns f of the programs .[] | f, map(f) and [.[] | f]. It returns any other program unchanged.
func findRowQuery(q *gojq.Query) (*gojq.Query, rowForm) {
	if f, ok := afterIteration(q); ok {
		return f, rowsEach
	}
	if q.Term == nil || len(q.Term.SuffixList) > 0 {
		return q, rowsTogether
	}
	switch t := q.Term; {
	case t.Type == gojq.TermTypeFunc && t.Func.Name == "map" && len(t.Func.Args) == 1 && len(q.FuncDefs) == 0:
		return t.Func.Args[0], rowsMapped
	case t.Type == gojq.TermTypeArray && t.Array.Query != nil:
		if f, ok := afterIteration(t.Array.Query); ok {
			f.FuncDefs = append(q.FuncDefs, f.FuncDefs...)
			return f, rowsMapped
		}
	}
	return q, rowsTogether
}

// afterIteration returns f of .[] | f, and false for any other query.
func afterIteration(q *gojq.Query) (*gojq.Query, bool) {
	if q.Term != nil && isIteration(q.Term) && len(q.FuncDefs) == 0 {
		return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}, true
	}
	if q.Op != gojq.OpPipe || len(q.Patterns) > 0 || q.Left.Term == nil || len(q.Left.FuncDefs) > 0 || !isIteration(q.Left.Term) {
		return nil, false
	}
	f := *q.Right
	f.FuncDefs = slices.Concat(q.FuncDefs, f.FuncDefs)
	return &f, true
}

// isIteration reports whether a term is .[].
func isIteration(t *gojq.Term) bool {
	return t.Type == gojq.TermTypeIdentity && len(t.SuffixList) == 1 && t.SuffixList[0].Iter
}

func invalid(format string, args ...any) *agent.Error { return agent.Invalid(field, format, args...) }

func tooMuch(format string, args ...any) *agent.Error {
	return agent.FieldErrorf(agent.CodeOverflow, field, format, args...)
}
