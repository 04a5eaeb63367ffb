package expr

import (
	"context"
	"errors"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"

	"github.com/turnstone-run/turnstone/agent"
)

// Program is a compiled condition. It is safe for concurrent use.
type Program struct {
	formula *formula
}

// Outcome is what a condition says of what came in.
type Outcome struct {
	True bool // it holds; with rows: for one of them at least

	PerRow   bool  // it was evaluated for each row
	Matching []any // with PerRow: the rows that satisfy it, in their order
	Rest     []any // with PerRow: the others
	// Skipped counts rows that could not be judged, such as those with a text where the condition compares a number; they are among the
	// Rest. Problem says what was wrong with the first of them.
	Skipped int
	Problem string
}

// Compile compiles a condition: CEL that says true or false. Its error is [agent.CodeInvalid], without a field, and says line:column:
// message; several are on one line.
func Compile(source string) (*Program, error) {
	env, err := newEnv()
	if err != nil {
		return nil, err
	}
	f, err := parse(env, source)
	if err != nil {
		return nil, err
	}
	if f.output != cel.BoolType && f.output != cel.DynType {
		return nil, agent.Invalid("", "is of type %s, want true or false", cel.FormatCELType(f.output))
	}
	return &Program{formula: f}, nil
}

// PerRow reports whether the condition is evaluated for each row of what comes in, where that has rows. When it is not, Eval needs of
// Data.Input only what the expression reads of input.
func (p *Program) PerRow() bool { return p.formula.names.perRow() }

// Eval evaluates the condition. Its error is [agent.CodeInvalid] when what came in, or every row of it, cannot be judged: a text is
// compared with a number, or the evaluation takes too many steps; or the context's own.
func (p *Program) Eval(ctx context.Context, data Data) (Outcome, error) {
	rows, ok := data.Rows()
	if !ok || !p.PerRow() {
		holds, err := p.holds(ctx, &scope{data: &data, row: data.Input})
		return Outcome{True: holds}, err
	}
	out := Outcome{PerRow: true, Matching: []any{}, Rest: []any{}}
	var first error
	for _, row := range rows {
		holds, err := p.Row(ctx, row, data)
		if err := agent.Interrupted(ctx, "evaluate condition"); err != nil {
			return Outcome{}, err
		}
		switch {
		case holds:
			out.Matching = append(out.Matching, row)
		default:
			out.Rest = append(out.Rest, row)
		}
		if err != nil {
			if first == nil {
				first, out.Problem = err, err.Error()
			}
			out.Skipped++
		}
	}
	if out.Skipped == len(rows) && first != nil {
		return Outcome{}, first
	}
	out.True = len(out.Matching) > 0
	return out, nil
}

// Row evaluates the condition for one row, for callers that read more rows than they want to hold. Of data it takes Input, Steps and
// Run. Its error is [agent.CodeInvalid] when the row cannot be judged, or the context's own.
func (p *Program) Row(ctx context.Context, row any, data Data) (bool, error) {
	return p.holds(ctx, &scope{data: &data, row: row})
}

// holds is false where something is missing.
func (p *Program) holds(ctx context.Context, s *scope) (bool, error) {
	v, err := p.formula.eval(ctx, s)
	switch {
	case errors.Is(err, errMissing):
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
