package expr

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/celenv"
)

// Bounds of CEL programs.
const (
	maxCost         = 1_000_000
	maxRecursion    = 100
	interruptEvery  = 100 // iterations of a comprehension
	maxFunctionText = 1 << 20
)

// newEnv returns the environment of expressions, without variables.
func newEnv() (*cel.Env, error) {
	// These functions of the string extensions have results and costs no larger than their arguments.
	texts, err := celenv.StringFunctions("charAt", "format", "lowerAscii", "split", "substring", "trim", "upperAscii")
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "prepare expressions", "%w", err)
	}
	options := append(celenv.Options(), cel.ParserRecursionLimit(maxRecursion), cel.FunctionDecls(texts...))
	options = append(options, growingFunctions()...)
	options = append(options, numberOperators()...)
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "prepare expressions", "%w", err)
	}
	return env, nil
}

// growingFunctions declares join and replace with a bound on their result. Those of the string extensions check no bound before they allocate.
func growingFunctions() []cel.EnvOption {
	text, list := cel.StringType, cel.ListType(cel.StringType)
	return []cel.EnvOption{
		cel.Function("join",
			cel.MemberOverload("list_join", []*cel.Type{list}, text, cel.UnaryBinding(func(l ref.Val) ref.Val { return join(l, types.String("")) })),
			cel.MemberOverload("list_join_string", []*cel.Type{list, text}, text, cel.BinaryBinding(join))),
		cel.Function("replace",
			cel.MemberOverload("string_replace", []*cel.Type{text, text, text}, text, cel.FunctionBinding(replace))),
	}
}

func join(l, sep ref.Val) ref.Val {
	list, ok := l.(traits.Lister)
	between, isText := sep.(types.String)
	if !ok || !isText {
		return types.MaybeNoSuchOverloadErr(l)
	}
	var b strings.Builder
	for i, it := 0, list.Iterator(); it.HasNext() == types.True; i++ {
		part, isText := it.Next().(types.String)
		if !isText {
			return types.NewErr("join is for lists of texts")
		}
		if i > 0 {
			b.WriteString(string(between))
		}
		b.WriteString(string(part))
		if b.Len() > maxFunctionText {
			return textTooLong("join")
		}
	}
	return types.String(b.String())
}

func replace(args ...ref.Val) ref.Val {
	in, isText := args[0].(types.String)
	from, isFromText := args[1].(types.String)
	to, isToText := args[2].(types.String)
	if !isText || !isFromText || !isToText {
		return types.MaybeNoSuchOverloadErr(args[0])
	}
	if len(in)+strings.Count(string(in), string(from))*len(to) > maxFunctionText {
		return textTooLong("replace")
	}
	return types.String(strings.ReplaceAll(string(in), string(from), string(to)))
}

func textTooLong(function string) ref.Val {
	return types.WrapErr(fmt.Errorf("%s would make a text of more than %d bytes", function, maxFunctionText))
}
