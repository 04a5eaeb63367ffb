package jq

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"time"
)

// The default bounds of a run.
const (
	DefaultTime    = 10 * time.Second
	DefaultMemory  = 256 << 20
	DefaultOutputs = 1_000_000
	DefaultBytes   = 256 << 20
)

// Bounds of a run.
type Bounds struct {
	Tenant  string        // who runs the program
	Time    time.Duration // of the processor. 0: [DefaultTime]
	Memory  int64         // bytes, of the decoded input and what the program makes of it. 0: [DefaultMemory]
	Outputs int           // 0: [DefaultOutputs]
	Bytes   int64         // of all outputs as JSON. 0: [DefaultBytes]
}

// Run runs the program on a document, well-formed JSON, and returns its outputs as compact JSON.
//
// Errors are [agent.Error] values about query: invalid when the program fails (in a program that has the rows one by one, with the row),
// overflow above a bound, rate_limited when too many programs of the tenant wait; the context's own when it ends.
func (p *Program) Run(ctx context.Context, doc json.RawMessage, b Bounds) ([]json.RawMessage, error) {
	doc = bytes.TrimSpace(doc)
	r := newRequest(p.text, b)
	r.Size = int64(len(doc))
	r.ByRow = p.rows != rowsTogether && bytes.HasPrefix(doc, []byte("["))
	return p.run(ctx, b.Tenant, r, func(w io.Writer) error {
		_, err := w.Write(doc)
		return err
	})
}

// RunRows is [Program.Run] on the array of the rows.
func (p *Program) RunRows(ctx context.Context, rows []json.RawMessage, b Bounds) ([]json.RawMessage, error) {
	r := newRequest(p.text, b)
	r.ByRow = p.rows != rowsTogether
	r.Size = arraySize(rows)
	return p.run(ctx, b.Tenant, r, func(w io.Writer) error { return writeArray(w, rows) })
}

func (p *Program) run(ctx context.Context, tenant string, r *request, send func(io.Writer) error) ([]json.RawMessage, error) {
	place, err := programs.enter(ctx, tenant)
	if err != nil {
		return nil, err
	}
	defer place.release()
	c, err := children.take()
	if err != nil {
		return nil, err
	}
	outputs, err := c.run(ctx, r, send)
	if err != nil {
		return nil, err
	}
	if r.ByRow && p.rows == rowsMapped {
		array := bytes.NewBuffer(make([]byte, 0, arraySize(outputs)))
		_ = writeArray(array, outputs) // a buffer takes everything
		return []json.RawMessage{array.Bytes()}, nil
	}
	return outputs, nil
}

func newRequest(query string, b Bounds) *request {
	r := &request{Query: query, Time: DefaultTime, Memory: DefaultMemory, Outputs: DefaultOutputs, Bytes: DefaultBytes}
	if b.Time > 0 {
		r.Time = b.Time
	}
	if b.Memory > 0 {
		r.Memory = b.Memory
	}
	if b.Outputs > 0 {
		r.Outputs = b.Outputs
	}
	if b.Bytes > 0 {
		r.Bytes = b.Bytes
	}
	return r
}

// arraySize returns how many bytes writeArray writes.
func arraySize(rows []json.RawMessage) int64 {
	size := int64(len("[]") + max(0, len(rows)-1))
	for _, row := range rows {
		size += int64(len(row))
	}
	return size
}

func writeArray(w io.Writer, rows []json.RawMessage) error {
	mark := []byte("[")
	for _, row := range rows {
		if _, err := w.Write(mark); err != nil {
			return err
		}
		if _, err := w.Write(row); err != nil {
			return err
		}
		mark = []byte(",")
	}
	end := "]"
	if len(rows) == 0 {
		end = "[]"
	}
	_, err := io.WriteString(w, end)
	return err
}
