package jq

import (
	"reflect"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// signature is the name of a function and its number of arguments.
type signature struct {
	name  string
	arity int
}

func signatureOf(f *gojq.Func) signature { return signature{f.Name, len(f.Args)} }

func (s signature) String() string { return s.name + "/" + strconv.Itoa(s.arity) }

// scope lists the functions that the program has defined so far, the innermost first.
type scope struct {
	function signature
	outer    *scope
}

func (s *scope) with(function signature) *scope { return &scope{function, s} }

func (s *scope) has(function signature) bool {
	for ; s != nil; s = s.outer {
		if s.function == function {
			return true
		}
	}
	return false
}

// rewriter puts guards into a syntax tree, which it changes. Its methods rewrite one kind of node with everything below it.
type rewriter struct {
	library   *library
	isLibrary bool // the tree is builtins.jq, which may use names that begin with _
	err       error
}

func (r *rewriter) fail(format string, args ...any) {
	if r.err == nil {
		r.err = invalid(format, args...)
	}
}

// node rewrites the nodes that need a guard, and looks for them in all others.
func (r *rewriter) node(n any, s *scope) {
	switch n := n.(type) {
	case *gojq.Query:
		r.query(n, s)
	case *gojq.String:
		r.interpolation(n, s)
	case *gojq.Func:
		r.children(n, s)
		r.function(n, s)
	case *gojq.Index:
		r.children(n, s)
		if n.Start != nil && !n.IsSlice && !isShortIndex(n.Start) {
			n.Start = call("_g_index", n.Start)
		}
	case *gojq.Term:
		r.children(n, s)
		if n.Type == gojq.TermTypeFormat && n.Str == nil {
			n.Type, n.Func = gojq.TermTypeFunc, &gojq.Func{Name: "_s_format", Args: []*gojq.Query{text(strings.TrimPrefix(n.Format, "@"))}}
		}
	default:
		r.children(n, s)
	}
}

// children rewrites the nodes that the fields of a node point to.
func (r *rewriter) children(n any, s *scope) {
	for _, v := range reflect.ValueOf(n).Elem().Fields() {
		r.field(v, s)
	}
}

func (r *rewriter) field(v reflect.Value, s *scope) {
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			r.field(v.Index(i), s)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			r.node(v.Interface(), s)
		}
	default: // names and numbers
	}
}

func (r *rewriter) query(q *gojq.Query, s *scope) {
	if r.err != nil {
		return
	}
	if q.Meta != nil || len(q.Imports) > 0 {
		r.fail("modules are not available")
		return
	}
	for _, f := range q.FuncDefs {
		s = r.definition(f, s)
	}
	isShort := isShortPath(q.Left)
	body := gojq.Query{Term: q.Term, Left: q.Left, Right: q.Right, Patterns: q.Patterns}
	r.children(&body, s)
	guardOperator(q, isShort)
}

// definition returns the scope in which the function is defined.
func (r *rewriter) definition(f *gojq.FuncDef, s *scope) *scope {
	r.checkName(f.Name)
	s = s.with(signature{f.Name, len(f.Args)})
	inner := s
	for _, arg := range f.Args {
		inner = inner.with(signature{strings.TrimPrefix(arg, "$"), 0})
	}
	r.query(f.Body, inner)
	return s
}

func (r *rewriter) checkName(name string) {
	if strings.HasPrefix(name, "_") && !r.isLibrary {
		r.fail("a name that begins with _ is not available: %s", clip.Bytes(name, maxQuoted))
	}
}

// function refuses a function that may do harm, and replaces one that has a guard.
func (r *rewriter) function(f *gojq.Func, s *scope) {
	switch fn := signatureOf(f); {
	case strings.HasPrefix(f.Name, "$"):
		if f.Name == "$ENV" || f.Name == "$__loc__" {
			r.fail("%s is not available", f.Name)
		}
	case s.has(fn):
	case strings.HasPrefix(f.Name, "_") && !r.isLibrary:
		r.checkName(f.Name)
	case r.library.guarded[fn]:
		f.Name = "_s_" + f.Name
	case !isHarmless(fn) && !r.library.defined[fn]:
		r.fail("function %s is not available", clip.Bytes(fn.String(), maxQuoted))
	}
}

// interpolation bounds each piece of an interpolated string, which bounds the whole string.
func (r *rewriter) interpolation(s *gojq.String, sc *scope) {
	count := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeNumber, Number: strconv.Itoa(len(s.Queries))}}
	for i, q := range s.Queries {
		if q.Term != nil && q.Term.Str != nil {
			continue // literal text
		}
		r.query(q, sc)
		s.Queries[i] = group(pipe(q, call("_g_piece", count)))
	}
}

// guardOperator replaces an operator that can make or walk large values. isShort says that the left operand was a short path before it
// was rewritten. Any other path may become as long as the program likes, and gojq follows it on Go's stack: so it is computed and checked
// first.
func guardOperator(q *gojq.Query, isShort bool) {
	switch q.Op { //nolint:exhaustive // the others do nothing by themselves
	case gojq.OpAssign, gojq.OpModify, gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv, gojq.OpUpdateMod, gojq.OpUpdateAlt:
		if !isShort {
			q.Left = call("_checked", q.Left)
		}
		if q.Op == gojq.OpModify {
			// gojq walks the whole tree to delete what the right side leaves empty.
			replace(q, pipe(call("_g_tree"), &gojq.Query{Left: q.Left, Op: q.Op, Right: q.Right}))
		}
		return
	}
	function := operatorFunctions()[q.Op]
	if function == "" || q.Op != gojq.OpMul && (isConstant(q.Left) || isConstant(q.Right)) {
		return
	}
	replace(q, call(function, q.Left, q.Right))
}

// operatorFunctions are the functions of guards.jq that take the place of operators. gojq itself calls the first three for +=, -= and *=.
func operatorFunctions() map[gojq.Operator]string {
	return map[gojq.Operator]string{
		gojq.OpAdd: "_add", gojq.OpSub: "_subtract", gojq.OpMul: "_multiply",
		gojq.OpEq: "_equal", gojq.OpNe: "_notequal", gojq.OpGt: "_greater", gojq.OpLt: "_less", gojq.OpGe: "_greatereq", gojq.OpLe: "_lesseq",
	}
}

// replace changes a query and keeps its definitions.
func replace(q, by *gojq.Query) {
	definitions := q.FuncDefs
	*q = *by
	q.FuncDefs = definitions
}

// isConstant reports whether a query is a literal number, null, true or false: adding it or comparing with it is cheap.
func isConstant(q *gojq.Query) bool {
	if !isBareTerm(q) {
		return false
	}
	switch q.Term.Type {
	case gojq.TermTypeNumber, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse:
		return true
	default:
		return false
	}
}

// isShortIndex reports whether an index is a string or a small literal number.
func isShortIndex(q *gojq.Query) bool {
	if !isBareTerm(q) {
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

func isBareTerm(q *gojq.Query) bool {
	return q != nil && q.Term != nil && len(q.Term.SuffixList) == 0 && len(q.FuncDefs) == 0
}

// isShortPath reports whether a path, not yet rewritten, is no longer than its text.
func isShortPath(q *gojq.Query) bool {
	if q == nil || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return false
	}
	if q.Term == nil {
		return (q.Op == gojq.OpPipe || q.Op == gojq.OpComma) && isShortPath(q.Left) && isShortPath(q.Right)
	}
	switch q.Term.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeIndex:
		return true
	case gojq.TermTypeQuery:
		return isShortPath(q.Term.Query)
	default:
		return false
	}
}

// text, call, pipe, group and identity make queries: a string, a function call, l | r, (q) and .
func text(s string) *gojq.Query {
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
