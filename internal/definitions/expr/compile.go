package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/celenv"
)

// maxExpression is the maximum length of an expression in bytes.
const maxExpression = 4_096

// maxReportedErrors is the maximum number of errors reported for one expression.
const maxReportedErrors = 5

// expression is a compiled expression of any type. It is safe for concurrent use.
type expression struct {
	program   cel.Program
	variables variables
	output    *cel.Type
}

// compile compiles an expression. Its error is [agent.CodeInvalid] without a field; the message is "line:column: problem".
func compile(env *cel.Env, source string) (*expression, error) {
	if strings.TrimSpace(source) == "" {
		return nil, agent.Invalid("", "is empty")
	}
	if len(source) > maxExpression {
		return nil, agent.Invalid("", "is %d bytes, at most %d", len(source), maxExpression)
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, compileError(issues)
	}
	e := new(expression)
	e.variables.collect(parsed.NativeRep().Expr(), nil)
	replaceOperators(parsed.NativeRep().Expr())
	variables := make([]cel.EnvOption, len(e.variables.free))
	for i, name := range e.variables.free {
		variables[i] = cel.Variable(name, cel.DynType)
	}
	env, err := env.Extend(variables...)
	if err != nil {
		return nil, agent.Invalid("", "%s", celenv.ShortLine(err.Error()))
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, compileError(issues)
	}
	e.output = checked.OutputType()
	if e.program, err = env.Program(checked, celenv.ProgramOptions(maxCost, interruptEvery)...); err != nil {
		return nil, agent.Invalid("", "%s", celenv.ShortLine(err.Error()))
	}
	return e, nil
}

// compileError joins the first errors of the compiler.
func compileError(issues *cel.Issues) error {
	return agent.Invalid("", "%s", strings.Join(celenv.Problems(issues, maxReportedErrors), "; "))
}

// errMissingValue is the error of an expression that reads a missing or null value.
var errMissingValue = errors.New("it needs something that is not there")

// eval returns the value of the expression. Its error is errMissingValue, the context's, or [agent.CodeInvalid].
func (e *expression) eval(ctx context.Context, s *activation) (ref.Val, error) {
	out, _, err := e.program.ContextEval(ctx, s)
	if err == nil {
		return out, nil
	}
	if interrupted := agent.Interrupted(ctx, "evaluate expression"); interrupted != nil {
		return nil, interrupted
	}
	switch message := err.Error(); {
	case strings.Contains(message, "no such attribute"), strings.Contains(message, "no such key"), strings.Contains(message, "index out of bounds"):
		return nil, fmt.Errorf("%w: %s", errMissingValue, celenv.ShortLine(message))
	case strings.Contains(message, "no such overload") && s.readsNull(e.variables.paths):
		return nil, fmt.Errorf("%w: null is compared", errMissingValue)
	default:
		return nil, agent.Invalid("", "%s", celenv.ShortLine(message))
	}
}
