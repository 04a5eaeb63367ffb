package routing

import (
	"crypto/sha256"
	"encoding/binary"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// hash returns the hash of the package comment. It must never change.
func hash(s string) int64 {
	sum := sha256.Sum256([]byte(s))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
}

// percent returns 0 to 99. It must never change.
func percent(s string) int64 { return hash(s) % 100 }

// addSalt returns a text with a salt. The separator keeps different pairs apart.
func addSalt(s, salt string) string { return salt + "\x00" + s }

// rolloutFunctions declares hash and percent. Their cost is that of reading their texts.
func rolloutFunctions() []cel.EnvOption {
	text := cel.StringType
	scan := func(arg int) cost.QuantityExpr { return cost.StringScan(cost.Length(cost.Arg(arg))) }
	call := cost.Const(cost.CallCost)
	return []cel.EnvOption{
		cel.Function("hash", cel.Overload("hash_string", []*cel.Type{text}, cel.IntType,
			cel.UnaryBinding(func(s ref.Val) ref.Val { return types.Int(hash(textOf(s))) }))),
		cel.Function("percent",
			cel.Overload("percent_string", []*cel.Type{text}, cel.IntType,
				cel.UnaryBinding(func(s ref.Val) ref.Val { return types.Int(percent(textOf(s))) })),
			cel.Overload("percent_string_string", []*cel.Type{text, text}, cel.IntType,
				cel.BinaryBinding(func(s, salt ref.Val) ref.Val { return types.Int(percent(addSalt(textOf(s), textOf(salt)))) }))),
		cel.CostModel(
			cost.Overload("hash_string", cost.EvalCost(cost.Sum(call, scan(0)))),
			cost.Overload("percent_string", cost.EvalCost(cost.Sum(call, scan(0)))),
			cost.Overload("percent_string_string", cost.EvalCost(cost.Sum(call, scan(0), scan(1)))),
		),
	}
}

// textOf returns the text of a string value. CEL has checked the type.
func textOf(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// maxWork bounds the product of the lengths of a guarded function's arguments, so that a call takes at most a few milliseconds and megabytes.
const maxWork = 1_000_000

// guard binds an overload to its implementation, which is called only if the arguments are not too long.
func guard(b *functions.Overload) []cel.OverloadOpt {
	guarded := func(call func(args ...ref.Val) ref.Val) func(args ...ref.Val) ref.Val {
		return func(args ...ref.Val) ref.Val {
			work := 1
			for _, a := range args {
				work *= max(1, length(a))
				if work > maxWork {
					return types.NewErr("%s of texts this long is not allowed", b.Operator)
				}
			}
			return call(args...)
		}
	}
	switch {
	case b.Unary != nil:
		call := guarded(func(args ...ref.Val) ref.Val { return b.Unary(args[0]) })
		return []cel.OverloadOpt{cel.UnaryBinding(func(arg ref.Val) ref.Val { return call(arg) })}
	case b.Binary != nil:
		call := guarded(func(args ...ref.Val) ref.Val { return b.Binary(args[0], args[1]) })
		return []cel.OverloadOpt{cel.BinaryBinding(func(x, y ref.Val) ref.Val { return call(x, y) })}
	default:
		return []cel.OverloadOpt{cel.FunctionBinding(guarded(b.Function))}
	}
}

// length returns the bytes of a string or the entries of a list, 0 for other values. CEL bounds both, so products do not overflow.
func length(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case traits.Sizer:
		n, _ := v.Size().(types.Int)
		return int(n)
	default:
		return 0
	}
}
