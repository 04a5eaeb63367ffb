package routing

import (
	"context"
	"fmt"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"

	"github.com/turnstone-run/turnstone/internal/clip"
)

// Bounds of an expression.
const (
	maxExpressionBytes = 4_096
	maxExpressionSteps = 100_000 // CEL's measure of cost: a comparison is 1, reading ten characters is 1
	maxProblems        = 10      // told of one expression
)

// expression holds when a CEL program says true.
type expression struct {
	program cel.Program
	loops   bool // it has comprehensions: only they can be interrupted, and only they can take long
}

// expression compiles a source, or takes it from the cache. Problems say, a line each, what is wrong: line:column: message.
func (c *Compiler) expression(source string) (e *expression, problems []string) {
	if len(source) > maxExpressionBytes {
		return nil, []string{fmt.Sprintf("is %d bytes, at most %d", len(source), maxExpressionBytes)}
	}
	if e, ok := c.cache.Get(source); ok {
		return e, nil
	}
	checked, issues := c.env.Compile(source)
	if issues.Err() != nil {
		return nil, describe(issues)
	}
	if t := checked.OutputType(); t != cel.BoolType {
		hint := ""
		if t == cel.DynType {
			hint = "; compare it, such as with == true"
		}
		return nil, []string{fmt.Sprintf("1:1: is of type %s, want bool%s", cel.FormatCELType(t), hint)}
	}
	program, err := c.env.Program(checked, programOptions()...)
	if err != nil {
		return nil, []string{"1:1: " + oneLine(err.Error())}
	}
	loops := ast.MatchDescendants(ast.NavigateAST(checked.NativeRep()), ast.KindMatcher(ast.ComprehensionKind))
	e = &expression{program: program, loops: len(loops) > 0}
	c.cache.Add(source, e)
	return e, nil
}

func describe(issues *cel.Issues) []string {
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
	return out
}

// oneLine keeps a message of a library on one line, and short.
func oneLine(s string) string {
	const most = 300
	return clip.Bytes(strings.Join(strings.Fields(s), " "), most)
}

func (e *expression) test(f *facts, explain bool) (holds bool, reason string) {
	if why := f.spent(); why != "" {
		return false, "expression was not evaluated: " + why
	}
	out, details, err := e.evaluate(f)
	if steps := details.ActualCost(); steps != nil {
		f.steps += min(*steps, maxExpressionSteps) // the last step may be counted far beyond the limit, though it was refused
	}
	switch {
	case err != nil && explain:
		return false, "expression failed: " + oneLine(err.Error())
	case err != nil:
		return false, ""
	case out != types.True:
		return false, "expression is false"
	default:
		return true, ""
	}
}

func (e *expression) evaluate(f *facts) (ref.Val, *cel.EvalDetails, error) {
	if !e.loops {
		return e.program.Eval(f) // three times as fast as with a context
	}
	ctx, cancel := context.WithTimeout(context.Background(), f.bounds.expressionTime)
	defer cancel()
	return e.program.ContextEval(ctx, f)
}
