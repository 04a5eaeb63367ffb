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

// hash must never change: see the package comment.
func hash(s string) int64 {
	sum := sha256.Sum256([]byte(s))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
}

// percent is 0 to 99. It must never change either.
func percent(s string) int64 { return hash(s) % 100 }

// salted keeps the salt apart from the text.
func salted(s, salt string) string { return salt + "\x00" + s }

// rolloutFunctions declares hash and percent. They cost what reading their texts costs.
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
				cel.BinaryBinding(func(s, salt ref.Val) ref.Val { return types.Int(percent(salted(textOf(s), textOf(salt)))) }))),
		cel.CostModel(
			cost.Overload("hash_string", cost.EvalCost(cost.Sum(call, scan(0)))),
			cost.Overload("percent_string", cost.EvalCost(cost.Sum(call, scan(0)))),
			cost.Overload("percent_string_string", cost.EvalCost(cost.Sum(call, scan(0), scan(1)))),
		),
	}
}

// textOf returns the text of a value whose type CEL has checked.
func textOf(v ref.Val) string {
	s, _ := v.(types.String)
	return string(s)
}

// maxWork bounds the product of the lengths of the arguments of a guarded function: a few milliseconds, a few megabytes.
const maxWork = 1_000_000

// guard binds an overload to its own code behind a check of the lengths of its arguments.
func guard(b *functions.Overload) []cel.OverloadOpt {
	refuse := func(args ...ref.Val) ref.Val {
		work := 1
		for _, a := range args {
			work *= max(1, length(a))
			if work > maxWork {
				return types.NewErr("%s of texts this long is not allowed", b.Operator)
			}
		}
		return nil
	}
	switch {
	case b.Unary != nil:
		return []cel.OverloadOpt{cel.UnaryBinding(func(arg ref.Val) ref.Val {
			if err := refuse(arg); err != nil {
				return err
			}
			return b.Unary(arg)
		})}
	case b.Binary != nil:
		return []cel.OverloadOpt{cel.BinaryBinding(func(x, y ref.Val) ref.Val {
			if err := refuse(x, y); err != nil {
				return err
			}
			return b.Binary(x, y)
		})}
	default:
		return []cel.OverloadOpt{cel.FunctionBinding(func(args ...ref.Val) ref.Val {
			if err := refuse(args...); err != nil {
				return err
			}
			return b.Function(args...)
		})}
	}
}

// length returns the bytes of a text or the entries of a list, 0 for anything else. CEL has bounded it, so that products do not overflow.
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
