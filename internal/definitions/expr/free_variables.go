package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
)

// variables are the free variables of an expression.
type variables struct {
	free  []string   // distinct names in order of first use
	paths [][]string // the selectors: row.fare.price is [row fare price]
}

// dependOnRow reports whether the expression reads more than input, steps and run.
func (v *variables) dependOnRow() bool {
	return slices.ContainsFunc(v.free, func(name string) bool { return name != nameInput && name != nameSteps && name != nameRun })
}

// collect adds the free variables of e. bound are the variables of the enclosing macros.
func (v *variables) collect(e ast.Expr, bound []string) {
	if path, ok := selectorPath(e); ok {
		if isAccumulator(e) || slices.Contains(bound, path[0]) {
			return
		}
		if !slices.Contains(v.free, path[0]) {
			v.free = append(v.free, path[0])
		}
		v.paths = append(v.paths, path)
		return
	}
	switch e.Kind() {
	case ast.SelectKind:
		v.collect(e.AsSelect().Operand(), bound)
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			v.collect(e.AsCall().Target(), bound)
		}
		for _, arg := range e.AsCall().Args() {
			v.collect(arg, bound)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			v.collect(element, bound)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			v.collect(entry.AsMapEntry().Key(), bound)
			v.collect(entry.AsMapEntry().Value(), bound)
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			v.collect(field.AsStructField().Value(), bound)
		}
	case ast.ComprehensionKind:
		c := e.AsComprehension()
		v.collect(c.IterRange(), bound)
		v.collect(c.AccuInit(), bound)
		inner := append(slices.Clone(bound), c.IterVar(), c.AccuVar())
		if c.HasIterVar2() {
			inner = append(inner, c.IterVar2())
		}
		for _, part := range []ast.Expr{c.LoopCondition(), c.LoopStep(), c.Result()} {
			v.collect(part, inner)
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
