package expr

import (
	"cmp"
	"context"
	"errors"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/turnstone-run/turnstone/agent"
)

// Program is a compiled condition. It is safe for concurrent use.
type Program struct {
	expression *expression
}

// Outcome is the result of a condition.
type Outcome struct {
	True     bool  // the condition is true, with PerRow for at least one row
	PerRow   bool  // the condition was evaluated for each row
	Matching []any // with PerRow: the rows that satisfy the condition, in order
}

// Compile compiles a condition, which is CEL of type bool. Its error is [agent.CodeInvalid] without a field; the message is "line:column:
// problem", and several problems are on one line.
func Compile(source string) (*Program, error) {
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	e, err := compile(env, source)
	if err != nil {
		return nil, err
	}
	if e.output != cel.BoolType && e.output != cel.DynType {
		return nil, agent.Invalid("", "is of type %s, want true or false", cel.FormatCELType(e.output))
	}
	return &Program{expression: e}, nil
}

// PerRow reports whether the condition is evaluated for each row of an input that has rows.
func (p *Program) PerRow() bool { return p.expression.variables.dependOnRow() }

// Eval evaluates the condition. A row for which the evaluation fails does not match. The error is that of the context, or [agent.CodeInvalid] if the
// evaluation fails for the input or for every row, for example because it compares a text with a number or exceeds the cost limit.
func (p *Program) Eval(ctx context.Context, data Data) (Outcome, error) {
	rows, ok := data.Rows()
	if !ok || !p.PerRow() {
		holds, err := p.isTrue(ctx, &activation{data: &data, row: data.Input})
		return Outcome{True: holds}, err
	}
	out := Outcome{PerRow: true, Matching: []any{}}
	var firstErr error
	failedRows := 0
	for _, row := range rows {
		holds, err := p.Row(ctx, row, data)
		if err := agent.Interrupted(ctx, "evaluate condition"); err != nil {
			return Outcome{}, err
		}
		if holds {
			out.Matching = append(out.Matching, row)
		}
		if err != nil {
			failedRows++
			firstErr = cmp.Or(firstErr, err)
		}
	}
	if failedRows == len(rows) && firstErr != nil {
		return Outcome{}, firstErr
	}
	out.True = len(out.Matching) > 0
	return out, nil
}

// Row evaluates the condition for one row, for callers that do not have all rows in memory. Its error is that of the context, or
// [agent.CodeInvalid] if the evaluation fails.
func (p *Program) Row(ctx context.Context, row any, data Data) (bool, error) {
	return p.isTrue(ctx, &activation{data: &data, row: row})
}

// isTrue reports whether the condition is true. It is false if a value is missing.
func (p *Program) isTrue(ctx context.Context, s *activation) (bool, error) {
	v, err := p.expression.eval(ctx, s)
	switch {
	case errors.Is(err, errMissingValue):
		return false, nil
	case err != nil:
		return false, err
	}
	switch v := v.(type) {
	case types.Bool:
		return bool(v), nil
	case types.Null:
		return false, nil
	default:
		return false, agent.Invalid("", "is of type %s, want true or false", v.Type().TypeName())
	}
}
