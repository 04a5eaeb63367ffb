// Package celenv has what the CEL expressions of routes, of approvals and of workflow definitions share: the bounds of their programs, the
// version of the string functions, and errors on one line.
package celenv

import (
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/decls"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"

	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	maxNesting      = 4      // comprehensions within one another
	maxRegexProgram = 200    // instructions; each step of matching may execute all of them
	maxValue        = 20_000 // elements of lists and maps that a program reads or makes; ten bytes of text count as one
	maxValueDepth   = 32
	sampleInterval  = 20 // measures values in loops now and then: measuring a growing list every time takes quadratic time
	stringsVersion  = 5  // pinned, so that a new CEL library does not change which expressions are valid
	maxMessage      = 300
)

// Options returns the options of every environment.
func Options() []cel.EnvOption {
	return []cel.EnvOption{
		cel.CrossTypeNumericComparisons(true), // JSON has one kind of number
		cel.RegexProgramSizeLimit(maxRegexProgram),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateComprehensionNestingLimit(maxNesting),
		),
	}
}

// Strings returns the string extensions as an option of an environment.
func Strings() cel.EnvOption { return ext.Strings(ext.StringsVersion(stringsVersion)) }

// StringFunctions returns functions of the string extensions by name.
func StringFunctions(names ...string) ([]*decls.FunctionDecl, error) {
	env, err := cel.NewCustomEnv(Strings())
	if err != nil {
		return nil, err
	}
	out := make([]*decls.FunctionDecl, len(names))
	for i, name := range names {
		f, known := env.Functions()[name]
		if !known {
			return nil, fmt.Errorf("the string extensions have no function %q", name)
		}
		out[i] = f
	}
	return out, nil
}

// ProgramOptions bounds the cost of a program, which CEL counts: a comparison is 1, reading ten characters is 1. A comprehension looks
// at its context every few iterations.
func ProgramOptions(maxCost uint64, interruptEvery uint) []cel.ProgramOption {
	return []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), cel.CostLimit(maxCost), cel.InterruptCheckFrequency(interruptEvery)}
}

// MemoryOptions bounds the values that a program reads or makes: texts of 200 KB, lists of 20,000.
func MemoryOptions() []cel.ProgramOption {
	sizes := types.NewSizeCalculator(types.SizeCalculatorMaxDepth(maxValueDepth), types.SizeCalculatorMaxTraversal(maxValue))
	return []cel.ProgramOption{
		cel.MemoryTracking(types.MemoryTrackerSizeCalculator(sizes), types.MemoryTrackerSampleInterval(sampleInterval)),
		cel.MemoryLimit(maxValue),
	}
}

// HasLoops reports whether an expression has comprehensions. Only they can be interrupted, and only they can take long.
func HasLoops(checked *cel.Ast) bool {
	return len(ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.ComprehensionKind))) > 0
}

// Problems returns the first errors of the compiler as "line:column: message"; errors about limits have no position.
func Problems(issues *cel.Issues, maxProblems int) []string {
	var out []string
	for _, e := range issues.Errors() {
		if len(out) == maxProblems {
			break
		}
		message := ShortLine(strings.ReplaceAll(e.Message, " (in container '')", ""))
		if e.Location.Line() > 0 {
			message = fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, message)
		}
		out = append(out, message)
	}
	return out
}

// ShortLine returns a message of the library as one short line.
func ShortLine(message string) string {
	return clip.Bytes(strings.Join(strings.Fields(message), " "), maxMessage)
}
