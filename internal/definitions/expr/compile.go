package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"

	"github.com/turnstone-run/turnstone/agent"
)

// MaxExpression bounds an expression, in bytes.
const MaxExpression = 4_096

// maxProblems bounds what is told of one expression.
const maxProblems = 5

// formula is a compiled expression of any type. It is safe for concurrent use.
type formula struct {
	program cel.Program
	names   names
	output  *cel.Type
}

// parse compiles an expression. Its error, [agent.CodeInvalid] without a field, says line:column: message.
func parse(env *cel.Env, source string) (*formula, error) {
	if strings.TrimSpace(source) == "" {
		return nil, agent.Invalid("", "is empty")
	}
	if len(source) > MaxExpression {
		return nil, agent.Invalid("", "is %d bytes, at most %d", len(source), MaxExpression)
	}
	parsed, issues := env.Parse(source)
	if issues.Err() != nil {
		return nil, problems(issues)
	}
	f := new(formula)
	f.names.collect(parsed.NativeRep().Expr(), nil)
	replaceOperators(parsed.NativeRep().Expr())
	variables := make([]cel.EnvOption, len(f.names.free))
	for i, name := range f.names.free {
		variables[i] = cel.Variable(name, cel.DynType)
	}
	env, err := env.Extend(variables...)
	if err != nil {
		return nil, agent.Invalid("", "%s", oneLine(err.Error()))
	}
	checked, issues := env.Check(parsed)
	if issues.Err() != nil {
		return nil, problems(issues)
	}
	f.output = checked.OutputType()
	if f.program, err = env.Program(checked, programOptions()...); err != nil {
		return nil, agent.Invalid("", "%s", oneLine(err.Error()))
	}
	return f, nil
}

func problems(issues *cel.Issues) error {
	var out []string
	for _, e := range issues.Errors() {
		if len(out) == maxProblems {
			break
		}
		message := oneLine(strings.ReplaceAll(e.Message, " (in container '')", ""))
		if e.Location.Line() > 0 { // limits are passed nowhere in particular
			message = fmt.Sprintf("%d:%d: %s", e.Location.Line(), e.Location.Column()+1, message)
		}
		out = append(out, message)
	}
	return agent.Invalid("", "%s", strings.Join(out, "; "))
}

// oneLine keeps a message of a library on one line, and short.
func oneLine(s string) string {
	const most = 300
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// errMissing says that an expression needs something that is not there.
var errMissing = errors.New("it needs something that is not there")

// eval returns the value for a row, or for all that came in. Its error is errMissing, the context's own, or says what is wrong.
func (f *formula) eval(ctx context.Context, s *scope) (ref.Val, error) {
	out, _, err := f.program.ContextEval(ctx, s)
	if err == nil {
		return out, nil
	}
	if interrupted := agent.Interrupted(ctx, "evaluate expression"); interrupted != nil {
		return nil, interrupted
	}
	switch message := err.Error(); {
	case strings.Contains(message, "no such attribute"), strings.Contains(message, "no such key"), strings.Contains(message, "index out of bounds"):
		return nil, fmt.Errorf("%w: %s", errMissing, oneLine(message))
	case strings.Contains(message, "no such overload") && s.null(f.names.paths):
		return nil, fmt.Errorf("%w: null is compared", errMissing)
	default:
		return nil, agent.Invalid("", "%s", oneLine(message))
	}
}
