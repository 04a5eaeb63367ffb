package definitions

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// runCondition evaluates the expression of a condition. An expression about rows is evaluated for each row: if rows satisfy it, the outcome is
// "true" and the output has these rows, otherwise the outcome is "false" and the output has all rows.
func (v *nodeVisit) runCondition(ctx context.Context) (agent.RunStep, error) {
	program, err := expr.Compile(v.node.Expr)
	if err != nil {
		return agent.RunStep{}, asNodeError(agent.Invalid("expr", "%w", err))
	}
	in, err := v.loadInput(ctx)
	if err != nil {
		return agent.RunStep{}, err
	}
	if in.rowsRef != "" && program.PerRow() {
		return v.filterStoredRows(ctx, program, in)
	}
	data, err := v.loadData(ctx, in, v.node.Expr)
	if err != nil {
		return agent.RunStep{}, err
	}
	out, err := program.Eval(ctx, data)
	if err != nil {
		return agent.RunStep{}, v.evaluationError(ctx, err)
	}
	step := agent.RunStep{Outcome: strconv.FormatBool(out.True), Output: in.value, Ref: in.rowsRef}
	if out.PerRow && out.True {
		step.Output, err = json.Marshal(data.WithRows(out.Matching))
	}
	return step, err
}

// evaluationError returns err as an error of the node, unless the context has ended.
func (v *nodeVisit) evaluationError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return asNodeError(agent.Invalid("expr", "%w", err))
}

// filterStoredRows evaluates the condition for each row of a stored table and stores the rows that satisfy it. It holds one row in memory at
// a time.
func (v *nodeVisit) filterStoredRows(ctx context.Context, program *expr.Program, in visitInput) (agent.RunStep, error) {
	data, err := v.loadDataWithoutRows(ctx, in, v.node.Expr)
	if err != nil {
		return agent.RunStep{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	writer := v.newRowWriter(ctx)
	var rows, skipped int
	var firstErr error
	err = v.forEachRow(ctx, in.rowsRef, 0, func(row any) error {
		rows++
		holds, err := program.Row(ctx, row, data)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			skipped++
			if firstErr == nil {
				firstErr = err
			}
		case holds:
			return writer.add(row)
		}
		return nil
	})
	if err != nil {
		stop(err)
		writer.abort(err)
		return agent.RunStep{}, err
	}
	out, err := writer.finish()
	switch {
	case err != nil:
		return agent.RunStep{}, err
	case skipped > 0 && skipped == rows:
		return agent.RunStep{}, v.evaluationError(ctx, firstErr)
	case out.RowCount == 0:
		return agent.RunStep{Outcome: "false", Output: in.value, Ref: in.rowsRef}, nil
	}
	output, err := json.Marshal(out)
	return agent.RunStep{Outcome: "true", Output: output, Ref: out.Ref}, err
}
