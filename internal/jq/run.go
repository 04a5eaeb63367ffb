package jq

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/itchyny/gojq"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// The default bounds of a run.
const (
	DefaultTime    = 10 * time.Second
	DefaultMemory  = 128 << 20
	DefaultOutputs = 1_000_000
	DefaultBytes   = 256 << 20
)

// Bounds of a run.
type Bounds struct {
	Tenant  string        // who runs the program: tenants take turns
	Time    time.Duration // 0: [DefaultTime]. Pauses do not count.
	Memory  int64         // bytes of heap for the decoded input, and as many for what the program makes of it. 0: [DefaultMemory]
	Outputs int           // 0: [DefaultOutputs]
	Bytes   int64         // of all outputs as JSON. 0: [DefaultBytes]
}

func (b Bounds) withDefaults() Bounds {
	if b.Time <= 0 {
		b.Time = DefaultTime
	}
	if b.Memory <= 0 {
		b.Memory = DefaultMemory
	}
	if b.Outputs <= 0 {
		b.Outputs = DefaultOutputs
	}
	if b.Bytes <= 0 {
		b.Bytes = DefaultBytes
	}
	return b
}

// Run runs the program on a document, well-formed JSON, and returns its outputs as compact JSON.
//
// Errors are [agent.Error] values about query: invalid when the program fails (in a program that has the rows one by one, with the row),
// overflow above a bound, rate_limited when too many programs of the tenant wait; the context's own when it ends.
func (p *Program) Run(ctx context.Context, doc json.RawMessage, b Bounds) ([]json.RawMessage, error) {
	doc = bytes.TrimSpace(doc)
	if p.byRow && len(doc) > 0 && doc[0] == '[' {
		return p.run(ctx, b, nil, elements(doc))
	}
	return p.run(ctx, b, doc, nil)
}

// RunRows is [Program.Run] on the array of the rows.
func (p *Program) RunRows(ctx context.Context, rows []json.RawMessage, b Bounds) ([]json.RawMessage, error) {
	if !p.byRow {
		return p.run(ctx, b, arrayOf(rows), nil)
	}
	return p.run(ctx, b, nil, func() ([]byte, error) {
		if len(rows) == 0 {
			return nil, io.EOF
		}
		row := rows[0]
		rows = rows[1:]
		return row, nil
	})
}

func arrayOf(rows []json.RawMessage) []byte {
	doc := []byte{'['}
	for i, row := range rows {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = append(doc, row...)
	}
	return append(doc, ']')
}

// run collects the outputs of a program.
type run struct {
	meter   *meter
	decoder *decoder
	outputs []json.RawMessage
	left    int64 // bytes of outputs
}

func (p *Program) run(ctx context.Context, b Bounds, doc []byte, rows func() ([]byte, error)) ([]json.RawMessage, error) {
	b = b.withDefaults()
	seat, err := processor.enter(ctx, b.Tenant)
	if err != nil {
		return nil, err
	}
	defer seat.release()
	m := newMeter(ctx, b, seat)
	defer m.watch()()
	r := &run{meter: m, decoder: newDecoder(b.Memory, m), left: b.Bytes, outputs: []json.RawMessage{}}
	feed := &feeder{decoder: r.decoder, rows: rows}
	var input any
	if rows == nil {
		if input, err = decode(doc, r.decoder); err != nil {
			return nil, err
		}
		if p.byRow {
			if err := feed.setInput(input); err != nil {
				return nil, err
			}
		}
		m.rebase()
	}
	code, err := p.compile(m, feed)
	if err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "run jq program", "%w", err)
	}
	if err := r.collect(code.RunWithContext(m, input)); err != nil {
		return nil, feed.withRow(err)
	}
	if p.collect {
		return []json.RawMessage{arrayOf(r.outputs)}, nil
	}
	return r.outputs, nil
}

func (r *run) collect(outputs gojq.Iter) error {
	for {
		v, ok := outputs.Next()
		if err := r.meter.Err(); err != nil {
			return err
		}
		if !ok {
			return nil
		}
		if err, bad := v.(error); bad {
			return programError(err)
		}
		if err := r.output(v); err != nil {
			return err
		}
	}
}

func (r *run) output(v any) error {
	if len(r.outputs) >= r.meter.bounds.Outputs {
		return tooMuch("has more than %d outputs", r.meter.bounds.Outputs)
	}
	g := newGauge()
	g.checkNames = true
	g.maxBytes = int(min(6*r.left+64, int64(g.maxBytes))) // the gauge counts up to five bytes more for each value
	if err := g.check(v); err != nil {
		return err
	}
	text, err := gojq.Marshal(v)
	if err != nil {
		return agent.Errorf(agent.CodeInternal, "run jq program", "%w", err)
	}
	if r.left -= int64(len(text)); r.left < 0 {
		return tooMuch("the outputs are longer than %d bytes", r.meter.bounds.Bytes)
	}
	r.outputs = append(r.outputs, text)
	return nil
}

// programError returns the error of a program that failed. A value that it threw is in the message if it is short.
func programError(err error) error {
	if coded, ok := errors.AsType[*agent.Error](err); ok {
		return coded
	}
	if thrown, ok := err.(gojq.ValueError); ok { //nolint:errorlint // gojq does not wrap it
		v := thrown.Value()
		if message, ok := v.(string); ok {
			return invalid("failed: %s", clip.Bytes(message, maxQuoted))
		}
		if e := checkText(v, 1000); e != nil {
			return invalid("failed with an error that is no text")
		}
		shown, _ := gojq.Marshal(v) // it never fails
		return invalid("failed: %s", clip.Bytes(string(shown), maxQuoted))
	}
	return invalid("failed: %s", clip.Bytes(err.Error(), maxQuoted))
}
