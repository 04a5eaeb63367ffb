package jq

import (
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// name is a function by name and number of arguments.
type name struct {
	text  string
	arity int
}

func nameOf(f *gojq.Func) name { return name{f.Name, len(f.Args)} }

func (n name) String() string { return n.text + "/" + strconv.Itoa(n.arity) }

// scope is what the program itself has defined at a place.
type scope struct {
	name name
	up   *scope
}

func (s *scope) with(n name) *scope { return &scope{n, s} }

func (s *scope) has(n name) bool {
	for ; s != nil; s = s.up {
		if s.name == n {
			return true
		}
	}
	return false
}

// rewriter puts guards into a program. It changes the tree that it is given.
type rewriter struct {
	library *library
	builtin bool // in builtins.jq: names that begin with _ are its own business
	err     error
}

func (r *rewriter) fail(format string, args ...any) {
	if r.err == nil {
		r.err = invalid(format, args...)
	}
}

func (r *rewriter) query(q *gojq.Query, s *scope) {
	if q == nil || r.err != nil {
		return
	}
	if q.Meta != nil || len(q.Imports) > 0 {
		r.fail("modules are not available")
		return
	}
	for _, f := range q.FuncDefs {
		s = r.define(f, s)
	}
	if q.Term != nil {
		r.term(q.Term, s)
		return
	}
	for _, p := range q.Patterns {
		r.pattern(p, s)
	}
	plain := plainPath(q.Left)
	r.query(q.Left, s)
	r.query(q.Right, s)
	r.operator(q, plain)
}

// define rewrites a definition and returns the scope behind it.
func (r *rewriter) define(f *gojq.FuncDef, s *scope) *scope {
	if strings.HasPrefix(f.Name, "_") && !r.builtin {
		r.fail("a name that begins with _ is not available: %s", clip.Bytes(f.Name, maxQuoted))
	}
	s = s.with(name{f.Name, len(f.Args)})
	inner := s
	for _, arg := range f.Args {
		inner = inner.with(name{strings.TrimPrefix(arg, "$"), 0})
	}
	r.query(f.Body, inner)
	return s
}

func (r *rewriter) term(t *gojq.Term, s *scope) {
	switch t.Type {
	case gojq.TermTypeFunc:
		r.call(t.Func, s)
	case gojq.TermTypeRecurse:
		r.library.need(name{"recurse", 0})
	case gojq.TermTypeIndex:
		r.index(t.Index, s)
	case gojq.TermTypeObject:
		for _, kv := range t.Object.KeyVals {
			r.str(kv.KeyString, s)
			r.query(kv.KeyQuery, s)
			r.query(kv.Val, s)
		}
	case gojq.TermTypeArray:
		r.query(t.Array.Query, s)
	case gojq.TermTypeUnary:
		r.term(t.Unary.Term, s)
	case gojq.TermTypeFormat:
		r.format(t, s)
	case gojq.TermTypeString:
		r.str(t.Str, s)
	case gojq.TermTypeQuery:
		r.query(t.Query, s)
	default:
		r.control(t, s)
	}
	for _, suffix := range t.SuffixList {
		r.index(suffix.Index, s)
	}
}

func (r *rewriter) control(t *gojq.Term, s *scope) {
	switch t.Type { //nolint:exhaustive // the others are in term
	case gojq.TermTypeIf:
		r.query(t.If.Cond, s)
		r.query(t.If.Then, s)
		for _, e := range t.If.Elif {
			r.query(e.Cond, s)
			r.query(e.Then, s)
		}
		r.query(t.If.Else, s)
	case gojq.TermTypeTry:
		r.query(t.Try.Body, s)
		r.query(t.Try.Catch, s)
	case gojq.TermTypeReduce:
		r.query(t.Reduce.Query, s)
		r.patterns(t.Reduce.Patterns, s)
		r.query(t.Reduce.Start, s)
		r.query(t.Reduce.Update, s)
	case gojq.TermTypeForeach:
		r.query(t.Foreach.Query, s)
		r.patterns(t.Foreach.Patterns, s)
		r.query(t.Foreach.Start, s)
		r.query(t.Foreach.Update, s)
		r.query(t.Foreach.Extract, s)
	case gojq.TermTypeLabel:
		r.query(t.Label.Body, s)
	}
}

func (r *rewriter) patterns(all []*gojq.Pattern, s *scope) {
	for _, p := range all {
		r.pattern(p, s)
	}
}

func (r *rewriter) pattern(p *gojq.Pattern, s *scope) {
	if p == nil {
		return
	}
	r.patterns(p.Array, s)
	for _, o := range p.Object {
		r.str(o.KeyString, s)
		r.query(o.KeyQuery, s)
		r.pattern(o.Val, s)
	}
}

// call decides what a name may be: the program's own, defined in jq, guarded, harmless, or nothing.
func (r *rewriter) call(f *gojq.Func, s *scope) {
	for _, a := range f.Args {
		r.query(a, s)
	}
	n := nameOf(f)
	switch {
	case strings.HasPrefix(f.Name, "$"):
		if f.Name == "$ENV" || f.Name == "$__loc__" {
			r.fail("%s is not available", f.Name)
		}
	case s.has(n):
	case strings.HasPrefix(f.Name, "_") && !r.builtin:
		r.fail("a name that begins with _ is not available: %s", clip.Bytes(f.Name, maxQuoted))
	case r.library.guarded[n]:
		f.Name = "_s_" + f.Name
	case harmless(n):
	case r.library.defined[n] != nil:
		r.library.need(n)
	default:
		r.fail("function %s is not available", clip.Bytes(n.String(), maxQuoted))
	}
}

func (r *rewriter) index(i *gojq.Index, s *scope) {
	if i == nil {
		return
	}
	r.str(i.Str, s)
	r.query(i.End, s)
	if i.Start == nil {
		return
	}
	r.query(i.Start, s)
	if !i.IsSlice && !shortIndex(i.Start) {
		i.Start = call("_g_index", i.Start)
	}
}

// shortIndex reports whether an index is a string or a small number as it stands.
func shortIndex(q *gojq.Query) bool {
	if q.Term == nil || len(q.Term.SuffixList) > 0 || len(q.FuncDefs) > 0 {
		return false
	}
	switch q.Term.Type {
	case gojq.TermTypeString:
		return true
	case gojq.TermTypeNumber:
		n, err := strconv.ParseFloat(q.Term.Number, 64)
		return err == nil && n <= maxIndex
	default:
		return false
	}
}

// str bounds each piece of an interpolated string, so that their sum is bounded.
func (r *rewriter) str(str *gojq.String, s *scope) {
	if str == nil {
		return
	}
	for i, q := range str.Queries {
		if q.Term != nil && q.Term.Str != nil {
			continue
		}
		r.query(q, s)
		bound := call("_g_piece", &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNumber, Number: strconv.Itoa(len(str.Queries))}})
		str.Queries[i] = group(pipe(q, bound))
	}
}

func (r *rewriter) format(t *gojq.Term, s *scope) {
	if t.Str != nil {
		r.str(t.Str, s)
		return
	}
	t.Type = gojq.TermTypeFunc
	t.Func = &gojq.Func{Name: "_s_format", Args: []*gojq.Query{literal(strings.TrimPrefix(t.Format, "@"))}}
	t.Format = ""
}

func literal(s string) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeString, Str: &gojq.String{Str: s}}}
}

func call(f string, args ...*gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: f, Args: args}}}
}

func pipe(l, r *gojq.Query) *gojq.Query { return &gojq.Query{Left: l, Op: gojq.OpPipe, Right: r} }

func group(q *gojq.Query) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: q}}
}

func identity() *gojq.Query { return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}} }

// bind is value as $name | body.
func bind(value *gojq.Query, variable string, body *gojq.Query) *gojq.Query {
	return &gojq.Query{Left: group(value), Op: gojq.OpPipe, Patterns: []*gojq.Pattern{{Name: variable}}, Right: body}
}
