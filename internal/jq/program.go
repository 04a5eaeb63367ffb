package jq

import (
	"errors"
	"fmt"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// field is the name of the program in errors.
const field = "query"

// MaxQuery bounds a program, in bytes.
const MaxQuery = 10_000

// Program is a compiled program. It is safe for concurrent use.
type Program struct {
	query   *gojq.Query
	library *library
	byRow   bool // the query runs on each value of the input
	collect bool // with byRow: all outputs together are one array
}

// Compile returns a program with guards in it. The error is [agent.CodeInvalid] about query, with the place of the mistake.
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
	library, err := loadLibrary()
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "compile jq program", "%w", err)
	}
	p := &Program{library: library}
	p.query = p.findRowQuery(q)
	r := &rewriter{library: library}
	r.query(p.query, nil)
	if r.err != nil {
		return nil, r.err
	}
	if p.byRow {
		p.query = pipe(call("_x_rows"), group(p.query))
	}
	if _, err := p.compile(&meter{}, &feeder{}); err != nil {
		return nil, invalid("%s", clip.Bytes(err.Error(), maxQuoted))
	}
	return p, nil
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

// findRowQuery returns f of the programs .[] | f, map(f) and [.[] | f], which can be given the values of an array one by one. It returns
// any other program as it is.
func (p *Program) findRowQuery(q *gojq.Query) *gojq.Query {
	if rest, ok := afterIter(q); ok {
		p.byRow = true
		return rest
	}
	if q.Term == nil || len(q.Term.SuffixList) > 0 {
		return q
	}
	switch t := q.Term; {
	case t.Type == gojq.TermTypeFunc && t.Func.Name == "map" && len(t.Func.Args) == 1 && len(q.FuncDefs) == 0:
		p.byRow, p.collect = true, true
		return t.Func.Args[0]
	case t.Type == gojq.TermTypeArray && t.Array.Query != nil:
		if rest, ok := afterIter(t.Array.Query); ok {
			p.byRow, p.collect = true, true
			rest.FuncDefs = append(q.FuncDefs, rest.FuncDefs...)
			return rest
		}
	}
	return q
}

// afterIter returns f of .[] | f, and false for any other query.
func afterIter(q *gojq.Query) (*gojq.Query, bool) {
	if q.Term != nil && isIteration(q.Term) && len(q.FuncDefs) == 0 {
		return identity(), true
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

// compile returns the program for one run: its functions use the run's meter.
func (p *Program) compile(m *meter, rows *feeder) (*gojq.Code, error) {
	options := []gojq.CompilerOption{
		gojq.WithModuleLoader(p.library),
		gojq.WithIterFunction("_x_rows", 0, 0, func(any, []any) gojq.Iter { return rows }),
		gojq.WithFunction("_g_index", 1, 1, index),
		gojq.WithFunction("_x_sort", 1, 1, m.sort),
		gojq.WithFunction("_x_unique", 1, 1, m.unique),
		gojq.WithFunction("_x_group", 1, 1, m.group),
		gojq.WithFunction("_x_match", 3, 3, m.match),
	}
	for _, g := range guards() {
		options = append(options, gojq.WithFunction(g.name, g.arity, g.arity, func(v any, args []any) any {
			if err := g.check(v, args); err != nil {
				return err
			}
			return v
		}))
	}
	code, err := gojq.Compile(p.query, options...)
	if err != nil {
		return nil, fmt.Errorf("compile: %w", err)
	}
	return code, nil
}

// maxQuoted bounds what an error quotes, in bytes.
const maxQuoted = 200

func invalid(format string, args ...any) *agent.Error { return agent.Invalid(field, format, args...) }

func gojqType(v any) string {
	if v == nil {
		return "null"
	}
	return "a value of type " + gojq.TypeOf(v)
}
