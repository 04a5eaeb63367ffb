package definitions

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/expr"
)

// sampleRows is how many rows a preview has.
const sampleRows = 5

// condition evaluates a node's expression. With rows, those that satisfy it go on along true; when none does, all go on along false.
func (v *visit) condition(ctx context.Context) (agent.RunStep, error) {
	program, err := expr.Compile(v.node.Expr)
	if err != nil {
		return agent.RunStep{}, fault(agent.Invalid("expr", "%w", err))
	}
	in, err := v.inflow(ctx)
	if err != nil {
		return agent.RunStep{}, err
	}
	if in.ref != "" && program.PerRow() {
		return v.sift(ctx, program, in)
	}
	data, err := v.data(ctx, in, v.node.Expr)
	if err != nil {
		return agent.RunStep{}, err
	}
	out, err := program.Eval(ctx, data)
	if err != nil {
		return agent.RunStep{}, v.misjudged(ctx, err)
	}
	step := agent.RunStep{Outcome: strconv.FormatBool(out.True), Output: in.output, Ref: in.ref}
	if out.PerRow && out.True {
		step.Output, err = json.Marshal(data.WithRows(out.Matching))
	}
	return step, err
}

// misjudged tells an expression that cannot be evaluated from a worker that stops.
func (v *visit) misjudged(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	return fault(agent.Invalid("expr", "%w", err))
}

// sift reads rows behind a reference one by one, however many there are, and keeps those that satisfy the condition.
func (v *visit) sift(ctx context.Context, program *expr.Program, in inflow) (agent.RunStep, error) {
	data, err := v.bare(ctx, in, v.node.Expr)
	if err != nil {
		return agent.RunStep{}, err
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	kept := v.newKept(ctx)
	var rows, skipped int
	var first error
	err = v.eachRow(ctx, in.ref, 0, func(row any) error {
		rows++
		holds, err := program.Row(ctx, row, data)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			if skipped++; first == nil {
				first = err
			}
		case holds:
			return kept.add(row)
		}
		return nil
	})
	if err != nil {
		stop(err)
		kept.abandon(err)
		return agent.RunStep{}, err
	}
	out, err := kept.finish()
	switch {
	case err != nil:
		return agent.RunStep{}, err
	case skipped > 0 && skipped == rows:
		return agent.RunStep{}, v.misjudged(ctx, first)
	case out.RowCount == 0:
		return agent.RunStep{Outcome: "false", Output: in.output, Ref: in.ref}, nil
	}
	output, err := json.Marshal(out)
	return agent.RunStep{Outcome: "true", Output: output, Ref: out.Ref}, err
}

// kept are rows on their way to the store; nothing goes there before the first one.
type kept struct {
	put    func(r io.Reader) (string, error)
	pipe   *io.PipeWriter
	buffer *bufio.Writer
	done   chan stored
	count  int64
	bytes  int64
	sample []json.RawMessage
}

type stored struct {
	ref string
	err error
}

func (v *visit) newKept(ctx context.Context) *kept {
	return &kept{put: func(r io.Reader) (string, error) { return v.runner.Rows.Put(ctx, v.facts.run.Tenant, r) }}
}

func (k *kept) add(row any) error {
	raw, err := json.Marshal(row)
	if err != nil {
		return err
	}
	separator := byte(',')
	if k.pipe == nil {
		separator = '['
		r, w := io.Pipe()
		k.pipe, k.buffer, k.done = w, bufio.NewWriterSize(w, 64<<10), make(chan stored, 1)
		go func() {
			ref, err := k.put(r)
			_ = r.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // a writer must not wait for a reader that is gone
			k.done <- stored{ref, err}
		}()
	}
	k.bytes += int64(len(raw)) + 1
	if k.count++; k.count <= sampleRows {
		k.sample = append(k.sample, raw)
	}
	if err := k.buffer.WriteByte(separator); err != nil {
		return err
	}
	_, err = k.buffer.Write(raw)
	return err
}

// abandon ends the writing of rows that nobody wants.
func (k *kept) abandon(cause error) {
	if k.pipe != nil {
		_ = k.pipe.CloseWithError(cause) // never fails
		<-k.done
	}
}

func (k *kept) finish() (rowsOutput, error) {
	if k.pipe == nil {
		return rowsOutput{}, nil
	}
	_ = k.buffer.WriteByte(']')                              // a failure stays with the buffer
	_ = k.pipe.CloseWithError(errors.Join(k.buffer.Flush())) // nil ends the content
	got := <-k.done
	if got.err != nil {
		return rowsOutput{}, got.err
	}
	preview, err := json.Marshal(preview{Type: "dataset", RowCount: k.count, Sample: k.sample})
	return rowsOutput{Ref: got.ref, RowCount: k.count, Preview: preview}, err
}

type preview struct {
	Type     string            `json:"type"`
	RowCount int64             `json:"row_count"`
	Sample   []json.RawMessage `json:"sample"`
}
