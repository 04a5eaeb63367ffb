package expr

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/ext"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of CEL programs.
const (
	maxNesting      = 4   // of comprehensions
	maxRegexProgram = 200 // instructions; each step of matching may execute all of them
	maxCost         = 1_000_000
	maxRecursion    = 100
	interruptEvery  = 100 // iterations of a comprehension
	stringsVersion  = 5   // pinned, so that a new CEL library does not change which definitions are valid
	maxFunctionText = 1 << 20
)

// newEnv returns the environment of expressions, without variables.
func newEnv() (*cel.Env, error) {
	texts, err := textFunctions()
	if err != nil {
		return nil, err
	}
	options := []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true), // JSON has one kind of number
		cel.RegexProgramSizeLimit(maxRegexProgram),
		cel.ParserRecursionLimit(maxRecursion),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateComprehensionNestingLimit(maxNesting),
		),
		cel.FunctionDecls(texts...),
	}
	options = append(options, growingFunctions()...)
	options = append(options, numberOperators()...)
	env, err := cel.NewEnv(options...)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "prepare expressions", "%w", err)
	}
	return env, nil
}

func programOptions() []cel.ProgramOption {
	return []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptEvery)}
}

// textFunctions returns the functions of the string extensions whose result and cost are no larger than their arguments.
func textFunctions() ([]*decls.FunctionDecl, error) {
	env, err := cel.NewCustomEnv(ext.Strings(ext.StringsVersion(stringsVersion)))
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "prepare expressions", "%w", err)
	}
	var out []*decls.FunctionDecl
	for _, name := range []string{"charAt", "format", "lowerAscii", "split", "substring", "trim", "upperAscii"} {
		f, known := env.Functions()[name]
		if !known {
			return nil, agent.Errorf(agent.CodeInternal, "prepare expressions", "the string extensions have no function %q", name)
		}
		out = append(out, f)
	}
	return out, nil
}

// growingFunctions returns join and replace with a bound on their result. The string extensions would check the bound too late.
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
	from, isFrom := args[1].(types.String)
	to, isTo := args[2].(types.String)
	if !isText || !isFrom || !isTo {
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
