package routing

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// Bounds of CEL programs.
const (
	maxNesting      = 4   // comprehensions within one another
	maxRegexProgram = 200 // instructions: a step of matching costs up to as many
	// maxValue bounds every value that an expression reads or makes: elements of lists and maps, ten bytes of text each counting as
	// one. So a text is at most 200 KB.
	maxValue       = 20_000
	maxValueDepth  = 32
	sampleEvery    = 20 // measures values in loops now and then: measuring a growing list every time takes quadratic time
	interruptEvery = 10 // turns of a comprehension
	stringsVersion = 5  // of the extensions, so that a new CEL library does not change what a table may say
)

func newEnv() (*cel.Env, error) {
	guards, err := guarded()
	if err != nil {
		return nil, err
	}
	anything := cel.MapType(cel.StringType, cel.DynType)
	options := []cel.EnvOption{
		cel.Variable("flags", anything),
		cel.Variable("metadata", anything),
		cel.CrossTypeNumericComparisons(true), // JSON has one kind of number
		cel.RegexProgramSizeLimit(maxRegexProgram),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateComprehensionNestingLimit(maxNesting),
		),
		ext.Strings(ext.StringsVersion(stringsVersion)),
	}
	for _, name := range []string{"role", "page", "channel", "tenant", "user", "session", "agent"} {
		options = append(options, cel.Variable(name, cel.StringType))
	}
	options = append(options, rollout()...)
	options = append(options, guards...)
	return cel.NewEnv(options...)
}

func programOptions() []cel.ProgramOption {
	sizes := types.NewSizeCalculator(types.SizeCalculatorMaxDepth(maxValueDepth), types.SizeCalculatorMaxTraversal(maxValue))
	return []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize),
		cel.CostLimit(maxExpressionSteps),
		cel.MemoryTracking(types.MemoryTrackerSizeCalculator(sizes), types.MemoryTrackerSampleInterval(sampleEvery)),
		cel.MemoryLimit(maxValue),
		cel.InterruptCheckFrequency(interruptEvery),
	}
}

// guarded replaces the functions of ext.Strings that can make much of little: joining and replacing multiply lengths, searching
// multiplies steps. The limits on steps and values see that only when it is done.
func guarded() ([]cel.EnvOption, error) {
	env, err := cel.NewCustomEnv(ext.Strings(ext.StringsVersion(stringsVersion)))
	if err != nil {
		return nil, err
	}
	var out []cel.EnvOption
	for _, name := range []string{"indexOf", "join", "lastIndexOf", "replace"} {
		function, known := env.Functions()[name]
		if !known {
			return nil, fmt.Errorf("the string extensions have no function %q", name)
		}
		bindings, err := function.Bindings()
		if err != nil {
			return nil, err
		}
		for _, overload := range function.OverloadDecls() {
			for _, b := range bindings {
				if b.Operator == overload.ID() {
					out = append(out, cel.Function(name, cel.MemberOverload(b.Operator, overload.ArgTypes(), overload.ResultType(), guard(b)...)))
				}
			}
		}
	}
	return out, nil
}
