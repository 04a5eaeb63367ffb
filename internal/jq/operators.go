package jq

import (
	"github.com/itchyny/gojq"
)

// Variables of the rewriting; no program can name them.
const (
	pathsVariable = "$__paths"
	valueVariable = "$__value"
)

// operator guards a query with an operator. Its operands are rewritten already; plain says whether the left one was a plain path.
func (r *rewriter) operator(q *gojq.Query, plain bool) {
	switch q.Op { //nolint:exhaustive // the others do nothing by themselves
	case gojq.OpAdd, gojq.OpSub, gojq.OpMul:
		become(q, arithmetic(q.Op, q.Left, q.Right))
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		if !constant(q.Left) && !constant(q.Right) {
			become(q, call(comparisons()[q.Op].function, q.Left, q.Right))
		}
	case gojq.OpAssign, gojq.OpUpdateAlt:
		become(q, update(q.Left, q.Op, q.Right, plain))
	case gojq.OpModify:
		// What the right side makes empty is deleted, and for that the whole tree is gone through.
		become(q, pipe(call("_g_tree"), update(q.Left, q.Op, q.Right, plain)))
	case gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul:
		op := map[gojq.Operator]gojq.Operator{
			gojq.OpUpdateAdd: gojq.OpAdd, gojq.OpUpdateSub: gojq.OpSub, gojq.OpUpdateMul: gojq.OpMul,
		}[q.Op]
		change := arithmetic(op, identity(), call(valueVariable))
		become(q, bind(q.Right, valueVariable, update(q.Left, gojq.OpModify, change, plain)))
	case gojq.OpUpdateDiv, gojq.OpUpdateMod:
		become(q, update(q.Left, q.Op, q.Right, plain))
	}
}

// become changes a query and leaves its definitions in place.
func become(q, to *gojq.Query) {
	defs := q.FuncDefs
	*q = *to
	q.FuncDefs = defs
}

// arithmetic is l op r behind a guard, unless a number stands there and the operation cannot grow.
func arithmetic(op gojq.Operator, l, r *gojq.Query) *gojq.Query {
	if op != gojq.OpMul && (constant(l) || constant(r)) {
		return &gojq.Query{Left: l, Op: op, Right: r}
	}
	function := map[gojq.Operator]string{gojq.OpAdd: "_o_add", gojq.OpSub: "_o_sub", gojq.OpMul: "_o_mul"}[op]
	return call(function, r, l)
}

// constant reports whether a query is a number, null, true or false as it stands: nothing grows with it.
func constant(q *gojq.Query) bool {
	if q == nil || q.Term == nil || len(q.Term.SuffixList) > 0 || len(q.FuncDefs) > 0 {
		return false
	}
	switch q.Term.Type {
	case gojq.TermTypeNumber, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse:
		return true
	default:
		return false
	}
}

// update is path op value. Paths that are not plain are found first and looked at: each may be as long as a program runs, and gojq walks
// along them on Go's stack.
func update(path *gojq.Query, op gojq.Operator, value *gojq.Query, plain bool) *gojq.Query {
	if plain {
		return &gojq.Query{Left: path, Op: op, Right: value}
	}
	all := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeArray, Array: &gojq.Array{Query: call("path", path)}}}
	each := call(pathsVariable)
	each.Term.SuffixList = []*gojq.Suffix{{Iter: true}}
	checked := pipe(all, call("_g_paths", identity()))
	return bind(checked, pathsVariable, &gojq.Query{Left: call("getpath", each), Op: op, Right: value})
}

// plainPath reports whether a path, not yet rewritten, is no longer than it is written.
func plainPath(q *gojq.Query) bool {
	if q == nil || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return false
	}
	if q.Term == nil {
		return (q.Op == gojq.OpPipe || q.Op == gojq.OpComma) && plainPath(q.Left) && plainPath(q.Right)
	}
	switch t := q.Term; t.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeIndex:
		return true
	case gojq.TermTypeQuery:
		return plainPath(t.Query)
	default:
		return false
	}
}

type operation struct {
	function string
	holds    func(order int) bool
}

func comparisons() map[gojq.Operator]operation {
	return map[gojq.Operator]operation{
		gojq.OpEq: {"_x_eq", func(o int) bool { return o == 0 }},
		gojq.OpNe: {"_x_ne", func(o int) bool { return o != 0 }},
		gojq.OpGt: {"_x_gt", func(o int) bool { return o > 0 }},
		gojq.OpLt: {"_x_lt", func(o int) bool { return o < 0 }},
		gojq.OpGe: {"_x_ge", func(o int) bool { return o >= 0 }},
		gojq.OpLe: {"_x_le", func(o int) bool { return o <= 0 }},
	}
}
