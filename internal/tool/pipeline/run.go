package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The sample that a preview shows: so many rows, as far as they fit into so many bytes.
const (
	sampleRows  = 5
	sampleBytes = 256 // history holds a preview twice
)

// stepReport says what one step did.
type stepReport struct {
	Step    string `json:"step"`
	RowsIn  int    `json:"rows_in"`
	RowsOut int    `json:"rows_out"`
	MS      int64  `json:"ms"`
}

// run is one call under way.
type run struct {
	cfg  Config
	inv  agent.Invocation
	rows []row
	done []stepReport
}

// all runs the program's steps one after the other.
func (r *run) all(ctx context.Context, p *program) error {
	if p.inputRef != "" {
		rows, err := r.open(ctx, p.inputRef)
		if err != nil {
			return err
		}
		r.rows = rows
		r.inv.Report(fmt.Sprintf("input_ref: %s", count(len(rows))))
	}
	posted := false
	for i, s := range p.steps {
		if ctx.Err() != nil {
			return ended(ctx)
		}
		began, in := time.Now(), len(r.rows)
		rows, err := s.run(ctx, r, r.rows)
		if err != nil {
			err = at(err, s.name(), i)
			if f, ok := errors.AsType[*fault](err); ok && posted {
				f.failure.Retryable = false // the whole would be repeated, and with it what was posted
			}
			return err
		}
		if h, ok := s.(*httpRequest); ok && h.method == http.MethodPost {
			posted = true
		}
		r.rows = rows
		r.done = append(r.done, stepReport{Step: s.name(), RowsIn: in, RowsOut: len(rows), MS: time.Since(began).Milliseconds()})
		r.inv.Report(fmt.Sprintf("%s: %s", s.name(), count(len(rows))))
	}
	return nil
}

func count(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// open reads the dataset that input_ref names.
func (r *run) open(ctx context.Context, ref string) ([]row, error) {
	const field = "input_ref"
	if r.cfg.Datasets == nil {
		return nil, faultf(agent.CodeNotFound, field, "stored datasets are not available here")
	}
	rc, err := r.cfg.Datasets.Open(ctx, r.inv.Tenant, ref)
	if err != nil {
		switch agent.CodeOf(err) {
		case agent.CodeNotFound, agent.CodeInvalid, agent.CodeDenied, agent.CodeOverflow:
			return nil, faultOf(err, field)
		default:
			return nil, fmt.Errorf("open dataset: %w", err)
		}
	}
	defer rc.Close() //nolint:errcheck // nothing is lost: it was read
	body, err := readAll(rc, r.cfg.MaxBytes)
	if err != nil {
		if code := agent.CodeOf(err); code == agent.CodeOverflow {
			return nil, faultOf(err, field)
		}
		return nil, fmt.Errorf("read dataset: %w", err)
	}
	rows, err := rowsOf(body, r.cfg.MaxRows)
	if err != nil {
		return nil, faultOf(err, field)
	}
	return rows, nil
}

// result encodes the rows once; Data is the same bytes.
func (r *run) result() (agent.ToolResult, error) {
	var b bytes.Buffer
	b.WriteString(`{"rows":`)
	from := b.Len()
	if err := writeRows(&b, r.rows); err != nil {
		return agent.ToolResult{}, err
	}
	to := b.Len()
	steps := r.done
	if steps == nil {
		steps = []stepReport{}
	}
	report, err := marshal(steps)
	if err != nil {
		return agent.ToolResult{}, err
	}
	fmt.Fprintf(&b, `,"row_count":%d,"steps":%s}`, len(r.rows), report)
	preview, err := r.preview()
	if err != nil {
		return agent.ToolResult{}, err
	}
	out := b.Bytes()
	return agent.ToolResult{Output: out, Data: out[from:to:to], Preview: preview}, nil
}

// preview is {type,row_count,sample} (seed 004 §2.2).
func (r *run) preview() (json.RawMessage, error) {
	var b bytes.Buffer
	sample, size := 0, 0
	for sample < min(sampleRows, len(r.rows)) && size+len(r.rows[sample]) <= sampleBytes {
		size += len(r.rows[sample])
		sample++
	}
	fmt.Fprintf(&b, `{"type":"dataset","row_count":%d,"sample":`, len(r.rows))
	if err := writeRows(&b, r.rows[:sample]); err != nil {
		return nil, err
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func writeRows(b *bytes.Buffer, rows []row) error {
	b.WriteByte('[')
	for i, row := range rows {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := json.Compact(b, row); err != nil {
			return agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode row %d: %w", i, err)
		}
	}
	b.WriteByte(']')
	return nil
}
