package jq

import (
	"errors"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// field is the name of the program in errors.
const field = "query"

// MaxQuery bounds a program, in bytes.
const MaxQuery = 10_000

// maxQuoted bounds what an error quotes, in bytes.
const maxQuoted = 200

// Program is a program that compiles. It is safe for concurrent use.
type Program struct {
	text string
	rows rowForm
}

// Compile checks a program. The error is [agent.CodeInvalid] about query, with the place of the mistake.
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
	parse, ok := errors.AsType[*gojq.ParseError](err)
	if !ok {
		return invalid("%s", clip.Bytes(err.Error(), maxQuoted))
	}
	at := min(max(parse.Offset-len(parse.Token), 0), len(query))
	line := 1 + strings.Count(query[:at], "\n")
	column := at - strings.LastIndexByte(query[:at], '\n')
	return invalid("line %d, column %d: %s", line, column, clip.Bytes(err.Error(), maxQuoted))
}

// rowForm says whether a program can be given the values of an array one by one.
type rowForm byte

const (
	rowsTogether rowForm = iota // it cannot
	rowsEach                    // .[] | f
	rowsMapped                  // map(f) and [.[] | f]: all outputs together are one array
)

// findRowQuery returns f of the programs .[] | f, map(f) and [.[] | f]. It returns any other program as it is.
func findRowQuery(q *gojq.Query) (*gojq.Query, rowForm) {
	if rest, ok := afterIteration(q); ok {
		return rest, rowsEach
	}
	if q.Term == nil || len(q.Term.SuffixList) > 0 {
		return q, rowsTogether
	}
	switch t := q.Term; {
	case t.Type == gojq.TermTypeFunc && t.Func.Name == "map" && len(t.Func.Args) == 1 && len(q.FuncDefs) == 0:
		return t.Func.Args[0], rowsMapped
	case t.Type == gojq.TermTypeArray && t.Array.Query != nil:
		if rest, ok := afterIteration(t.Array.Query); ok {
			rest.FuncDefs = append(q.FuncDefs, rest.FuncDefs...)
			return rest, rowsMapped
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
	rest := *q.Right
	rest.FuncDefs = append(append([]*gojq.FuncDef{}, q.FuncDefs...), rest.FuncDefs...)
	return &rest, true
}

// isIteration reports whether a term is .[].
func isIteration(t *gojq.Term) bool {
	return t.Type == gojq.TermTypeIdentity && len(t.SuffixList) == 1 && t.SuffixList[0].Iter
}

func invalid(format string, args ...any) *agent.Error { return agent.Invalid(field, format, args...) }

func tooMuch(format string, args ...any) *agent.Error {
	return agent.FieldErrorf(agent.CodeOverflow, field, format, args...)
}
