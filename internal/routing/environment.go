package routing

import (
	"cel.dev/cel-go/cel"

	"github.com/turnstone-run/turnstone/internal/celenv"
)

// interruptEvery is the number of iterations after which a comprehension checks its context.
const interruptEvery = 10

func newEnv() (*cel.Env, error) {
	guards, err := guardedFunctions()
	if err != nil {
		return nil, err
	}
	object := cel.MapType(cel.StringType, cel.DynType)
	options := append(celenv.Options(), celenv.Strings(), cel.Variable("flags", object), cel.Variable("metadata", object))
	for _, name := range []string{"role", "page", "channel", "tenant", "user", "session", "agent"} {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	options = append(options, rolloutFunctions()...)
	return cel.NewEnv(append(options, guards...)...)
}

func programOptions() []cel.ProgramOption {
	return append(celenv.ProgramOptions(maxExpressionSteps, interruptEvery), celenv.MemoryOptions()...)
}

// guardedFunctions replaces the string functions whose result or work grows with the product of the lengths of their arguments. The limits on steps
// and values are checked only after a call.
func guardedFunctions() ([]cel.EnvOption, error) {
	functions, err := celenv.StringFunctions("indexOf", "join", "lastIndexOf", "replace")
	if err != nil {
		return nil, err
	}
	var out []cel.EnvOption
	for _, f := range functions {
		bindings, err := f.Bindings()
		if err != nil {
			return nil, err
		}
		for _, overload := range f.OverloadDecls() {
			for _, b := range bindings {
				if b.Operator == overload.ID() {
					out = append(out, cel.Function(f.Name(), cel.MemberOverload(b.Operator, overload.ArgTypes(), overload.ResultType(), guard(b)...)))
				}
			}
		}
	}
	return out, nil
}
