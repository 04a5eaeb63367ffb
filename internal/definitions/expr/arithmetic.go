package expr

import (
	"math"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// operatorFunctions returns the functions that replace the operators of CEL. JSON has one type of number, but CEL distinguishes integers from
// floating-point numbers: if price is 450, price * 1.1 is an error, and if it is 5, price / 2 is 2. These functions accept both types.
func operatorFunctions() map[string]string {
	return map[string]string{
		operators.Add: "@number_add", operators.Subtract: "@number_subtract", operators.Multiply: "@number_multiply",
		operators.Divide: "@number_divide", operators.Modulo: "@number_modulo",
	}
}

// numberOperators declares the functions of operatorFunctions.
func numberOperators() []cel.EnvOption {
	bind := func(operator string, do func(x, y ref.Val) ref.Val) cel.EnvOption {
		name := operatorFunctions()[operator]
		return cel.Function(name, cel.Overload(name, []*cel.Type{cel.DynType, cel.DynType}, cel.DynType, cel.BinaryBinding(
			func(x, y ref.Val) ref.Val {
				x, y = sameNumberKind(x, y)
				return do(x, y)
			})))
	}
	return []cel.EnvOption{
		bind(operators.Add, func(x, y ref.Val) ref.Val {
			if a, ok := x.(traits.Adder); ok {
				return a.Add(y)
			}
			return types.MaybeNoSuchOverloadErr(x)
		}),
		bind(operators.Subtract, func(x, y ref.Val) ref.Val {
			if a, ok := x.(traits.Subtractor); ok {
				return a.Subtract(y)
			}
			return types.MaybeNoSuchOverloadErr(x)
		}),
		bind(operators.Multiply, func(x, y ref.Val) ref.Val {
			if a, ok := x.(traits.Multiplier); ok {
				return a.Multiply(y)
			}
			return types.MaybeNoSuchOverloadErr(x)
		}),
		bind(operators.Divide, divide),
		bind(operators.Modulo, modulo),
	}
}

// sameNumberKind converts an integer to floating point if the other operand is a floating-point number.
func sameNumberKind(x, y ref.Val) (a, b ref.Val) {
	_, xFloat := x.(types.Double)
	_, yFloat := y.(types.Double)
	if i, ok := x.(types.Int); ok && yFloat {
		return types.Double(i), y
	}
	if i, ok := y.(types.Int); ok && xFloat {
		return x, types.Double(i)
	}
	return x, y
}

func divide(x, y ref.Val) ref.Val {
	a, isInt := x.(types.Int)
	b, isDivisorInt := y.(types.Int)
	if isInt && isDivisorInt && b != 0 && (b == -1 || a%b != 0) { // division by -1 may overflow
		return types.Double(a) / types.Double(b)
	}
	if d, ok := y.(types.Double); ok && d == 0 {
		return types.NewErr("division by zero")
	}
	if d, ok := x.(traits.Divider); ok {
		return d.Divide(y)
	}
	return types.MaybeNoSuchOverloadErr(x)
}

func modulo(x, y ref.Val) ref.Val {
	a, isFloat := x.(types.Double)
	b, isDivisorFloat := y.(types.Double)
	if isFloat && isDivisorFloat {
		if b == 0 {
			return types.NewErr("modulus by zero")
		}
		return types.Double(math.Mod(float64(a), float64(b)))
	}
	if m, ok := x.(traits.Modder); ok {
		return m.Modulo(y)
	}
	return types.MaybeNoSuchOverloadErr(x)
}

// replaceOperators replaces operators by the functions of operatorFunctions.
func replaceOperators(root ast.Expr) {
	functions, factory := operatorFunctions(), ast.NewExprFactory()
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind {
			return
		}
		call := e.AsCall()
		if len(call.Args()) > 0 && isAccumulator(call.Args()[0]) {
			return // the operator belongs to the expansion of a macro
		}
		if name, ok := functions[call.FunctionName()]; ok {
			e.SetKindCase(factory.NewCall(e.ID(), name, call.Args()...))
		}
	}))
}

// isAccumulator reports whether an expression is the variable in which a macro collects its result. Only those names begin with @.
func isAccumulator(e ast.Expr) bool {
	return e.Kind() == ast.IdentKind && strings.HasPrefix(e.AsIdent(), "@")
}
