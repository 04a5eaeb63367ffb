package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The bounds of the sample in a preview.
const (
	sampleRows  = 5
	sampleBytes = 256 // history holds a preview twice
)

const (
	fieldRows     = 100 // rows from which the fields of a dataset are taken
	outputFraming = 72  // the most bytes that an output has besides its rows, reference, report and composite
)

// outcome describes the rows of a call, or of the earlier call whose result is cached.
type outcome struct {
	dataset agent.Dataset
	preview json.RawMessage
	report  json.RawMessage // of the steps
	cached  bool
}

// result stores the rows and returns the result of the call.
func (r *run) result(ctx context.Context) (agent.ToolResult, *outcome, error) {
	if err := r.redact(); err != nil {
		return agent.ToolResult{}, nil, err
	}
	if err := r.checkSize(); err != nil {
		return agent.ToolResult{}, nil, err
	}
	o := &outcome{dataset: agent.Dataset{RowCount: len(r.rows), Fields: dataset.Fields(r.rows, fieldRows)}}
	var err error
	if o.report, err = tool.EncodeJSON(append([]stepReport{}, r.done...)); err != nil {
		return agent.ToolResult{}, nil, err
	}
	if o.preview, err = r.preview(); err != nil {
		return agent.ToolResult{}, nil, err
	}
	if o.dataset.Ref, err = r.store(ctx); err != nil {
		return agent.ToolResult{}, nil, err
	}
	rows, err := r.inlineRows(o)
	if err != nil {
		return agent.ToolResult{}, nil, err
	}
	res, err := r.answer(o, rows)
	return res, o, err
}

// redact applies the agent's middleware to the rows, because stored rows can be read by reference without it.
func (r *run) redact() error {
	if r.inv.Redact == nil {
		return nil
	}
	clean := make([]row, len(r.rows))
	for i, raw := range r.rows {
		var err error
		if clean[i], err = r.inv.Redact(raw); err != nil {
			return err
		}
	}
	r.rows = clean
	return nil
}

// checkSize returns a fault if the stored rows would be too large to be read back. The JSON array may be larger than the rows were in CSV.
func (r *run) checkSize() error {
	size, longest := int64(1), 0
	for i := range r.rows {
		size += int64(len(r.rows[i])) + 1
		if len(r.rows[i]) > len(r.rows[longest]) {
			longest = i
		}
	}
	switch {
	case size > r.cfg.MaxBytes:
		return r.sizeFault("the result is larger than %d bytes as JSON: keep fewer rows or fields", r.cfg.MaxBytes)
	case len(r.rows) > 0 && len(r.rows[longest]) > dataset.MaxRowBytes:
		return r.sizeFault("row %d of the result has %d bytes, at most %d: keep fewer fields", longest, len(r.rows[longest]), dataset.MaxRowBytes)
	default:
		return nil
	}
}

// sizeFault returns the fault of a result that is too large, about the last step or else about input_ref.
func (r *run) sizeFault(format string, args ...any) error {
	err := faultf(agent.CodeOverflow, "", format, args...)
	if n := len(r.done); n > 0 {
		return withStep(err, r.done[n-1].Step, n-1)
	}
	err.failure.Field = "input_ref"
	return err
}

// store streams the rows to the blob store and returns their reference. Without a store the reference is empty.
func (r *run) store(ctx context.Context) (string, error) {
	if r.cfg.Blobs == nil {
		return "", nil
	}
	from, to := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = to.CloseWithError(dataset.Write(to, r.rows)) // it never fails
	}()
	ref, err := r.cfg.Blobs.Put(ctx, r.inv.Tenant, from)
	_ = from.Close() // ends the writer if the store has not read everything
	<-written
	switch {
	case err == nil:
		return ref, nil
	case ctx.Err() != nil:
		return "", contextError(ctx)
	case agent.CodeOf(err) == agent.CodeOverflow:
		return "", contentFault(err, "", "the result")
	default:
		return "", fmt.Errorf("store dataset: %w", err)
	}
}

// inlineRows returns the encoded rows, or nil if the output would exceed its bound with them. Without a blob store it returns all rows.
func (r *run) inlineRows(o *outcome) (json.RawMessage, error) {
	b := &boundedBuffer{remaining: r.maxInlineRows(o)}
	if r.cfg.Blobs == nil {
		b.remaining = math.MaxInt64
	}
	switch err := dataset.Write(b, r.rows); {
	case errors.Is(err, errFull):
		return nil, nil
	case err != nil:
		return nil, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode rows: %w", err)
	default:
		return b.Bytes(), nil
	}
}

// maxInlineRows returns the number of bytes that rows may have within the output. It is negative if there is no room.
func (r *run) maxInlineRows(o *outcome) int64 {
	return int64(tool.InlineBytes(r.inv) - len(o.report) - len(o.dataset.Ref) - len(r.compositeMember()) - outputFraming)
}

// compositeMember returns the member of the output that names the composite, if the call is one of a composite.
func (r *run) compositeMember() string {
	if r.composite == "" {
		return ""
	}
	return `,"composite":` + strconv.Quote(r.composite)
}

var errFull = errors.New("the buffer is full")

// boundedBuffer is a buffer that takes a bounded number of bytes.
type boundedBuffer struct {
	bytes.Buffer

	remaining int64
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.remaining -= int64(len(p)); b.remaining < 0 {
		return 0, errFull
	}
	return b.Buffer.Write(p)
}

// answer returns the result of the call with its rows, or with the preview if rows is nil.
func (r *run) answer(o *outcome, rows json.RawMessage) (agent.ToolResult, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	if o.dataset.Ref != "" {
		ref, err := tool.EncodeJSON(o.dataset.Ref)
		if err != nil {
			return agent.ToolResult{}, err
		}
		fmt.Fprintf(&b, `"ref":%s,`, ref)
	}
	from, to := 0, 0
	if rows == nil {
		fmt.Fprintf(&b, `"preview":%s`, o.preview)
	} else {
		b.WriteString(`"rows":`)
		from = b.Len()
		b.Write(rows)
		to = b.Len()
	}
	fmt.Fprintf(&b, `,"row_count":%d,"steps":%s`, o.dataset.RowCount, o.report)
	if o.cached {
		b.WriteString(`,"cache_hit":true`)
	}
	b.WriteString(r.compositeMember() + "}")
	res := agent.ToolResult{Output: b.Bytes(), Preview: o.preview, CacheHit: o.cached}
	if rows != nil {
		res.Data = res.Output[from:to:to]
	}
	if o.dataset.Ref != "" {
		d := o.dataset
		res.Dataset = &d
	}
	return res, nil
}

// preview returns the preview of the rows: {"type","row_count","sample"}.
func (r *run) preview() (json.RawMessage, error) {
	var b bytes.Buffer
	sample, size := 0, 0
	for sample < min(sampleRows, len(r.rows)) && size+len(r.rows[sample]) <= sampleBytes {
		size += len(r.rows[sample])
		sample++
	}
	fmt.Fprintf(&b, `{"type":"dataset","row_count":%d,"sample":`, len(r.rows))
	if err := dataset.Write(&b, r.rows[:sample]); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode the preview: %w", err)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
