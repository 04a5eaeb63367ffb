package jq

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"time"
)

// Default limits of a run.
const (
	DefaultTime    = 10 * time.Second
	DefaultMemory  = 256 << 20
	DefaultOutputs = 1_000_000
	DefaultBytes   = 256 << 20
)

// Bounds are the limits of a run, and its tenant.
type Bounds struct {
	Tenant  string        // whose program it is
	Time    time.Duration // processor time; 0: [DefaultTime]
	Memory  int64         // bytes of the decoded input and the program's values; 0: [DefaultMemory]
	Outputs int           // number of outputs; 0: [DefaultOutputs]
	Bytes   int64         // bytes of all outputs as JSON; 0: [DefaultBytes]
}

// Run runs the program on a valid JSON document, and returns its outputs as compact JSON.
//
// Errors are [agent.Error] values with the field query: invalid if the program fails (with the row, if the program gets rows one by one), overflow above
// a limit, rate_limited if too many programs of the tenant wait, cancelled if ctx ends.
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

// RunRows is [Program.Run] on an array of rows.
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
		_ = writeArray(array, outputs) // a buffer returns no error
		return []json.RawMessage{array.Bytes()}, nil
	}
	return outputs, nil
}

func newRequest(query string, b Bounds) *request {
	return &request{
		Query: query, Time: cmp.Or(max(b.Time, 0), DefaultTime), Memory: cmp.Or(max(b.Memory, 0), DefaultMemory),
		Outputs: cmp.Or(max(b.Outputs, 0), DefaultOutputs), Bytes: cmp.Or(max(b.Bytes, 0), DefaultBytes),
	}
}

// arraySize returns how many bytes writeArray writes.
func arraySize(rows []json.RawMessage) int64 {
	size := int64(len("[]") + max(0, len(rows)-1))
	for _, row := range rows {
		size += int64(len(row))
	}
	return size
}

// writeArray writes rows as a JSON array.
func writeArray(w io.Writer, rows []json.RawMessage) error {
	_, err := io.WriteString(w, "[")
	for i, row := range rows {
		if err == nil && i > 0 {
			_, err = io.WriteString(w, ",")
		}
		if err == nil {
			_, err = w.Write(row)
		}
	}
	if err == nil {
		_, err = io.WriteString(w, "]")
	}
	return err
}
