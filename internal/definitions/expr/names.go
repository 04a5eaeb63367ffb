package expr

import (
	"slices"
	"strings"

	"cel.dev/cel-go/common/ast"
)

// names are the variables of an expression.
type names struct {
	free  []string   // each once, in the order of their first use
	paths [][]string // what is read: row.fare.price is [row fare price]
}

// perRow reports whether an expression looks at single rows, and not only at all that came in.
func (n *names) perRow() bool {
	return slices.ContainsFunc(n.free, func(name string) bool { return name != nameInput && name != nameSteps && name != nameRun })
}

// collect reads the variables that an expression does not bind by itself.
func (n *names) collect(e ast.Expr, bound []string) {
	if path, ok := pathOf(e); ok {
		if accumulates(e) || slices.Contains(bound, path[0]) {
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

// pathOf returns a name and the members selected of it, ok false for anything else.
func pathOf(e ast.Expr) (path []string, ok bool) {
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
