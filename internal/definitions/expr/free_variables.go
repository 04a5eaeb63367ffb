package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
)

// variables are the free variables of an expression.
type variables struct {
	free  []string   // each once, in order of first use
	paths [][]string // selectors: row.fare.price is [row fare price]
}

// dependOnRow reports whether the expression reads a row, rather than only input, steps and run.
func (n *variables) dependOnRow() bool {
	return slices.ContainsFunc(n.free, func(name string) bool { return name != nameInput && name != nameSteps && name != nameRun })
}

// collect adds the free variables of e; bound are the variables of the macros around it.
func (n *variables) collect(e ast.Expr, bound []string) {
	if path, ok := selectorPath(e); ok {
		if isAccumulator(e) || slices.Contains(bound, path[0]) {
			return
		}
		if !slices.Contains(n.free, path[0]) {
			n.free = append(n.free, path[0])
		}
		n.paths = append(n.paths, path)
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		n.collect(e.AsSelect().Operand(), bound)
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			n.collect(e.AsCall().Target(), bound)
		}
		for _, arg := range e.AsCall().Args() {
			n.collect(arg, bound)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			n.collect(element, bound)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			n.collect(entry.AsMapEntry().Key(), bound)
			n.collect(entry.AsMapEntry().Value(), bound)
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			n.collect(field.AsStructField().Value(), bound)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		n.collect(c.IterRange(), bound)
		n.collect(c.AccuInit(), bound)
		inner := append(slices.Clone(bound), c.IterVar(), c.AccuVar())
		if c.HasIterVar2() {
			inner = append(inner, c.IterVar2())
		}
		for _, part := range []ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
			n.collect(part, inner)
		}
	default: // literals
	}
}

// selectorPath returns the variable and the members of a selector such as row.fare.price; ok is false for any other expression.
func selectorPath(e ast.Expr) (path []string, ok bool) {
	for e.Kind() == ast.SelectKind {
		path = append(path, e.AsSelect().FieldName())
		e = e.AsSelect().Operand()
	}
	if e.Kind() != ast.IdentKind {
		return nil, false
	}
	path = append(path, strings.TrimPrefix(e.AsIdent(), "."))
	slices.Reverse(path)
	return path, true
}
