package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// The sample that a preview shows: so many rows, as far as they fit into so many bytes.
const (
	sampleRows  = 5
	sampleBytes = 256 // history holds a preview twice
)

const (
	defaultInline = 32 << 10 // bytes of an output, unless the invocation says otherwise
	sampleFields  = 100      // rows that tell which fields there are
	outputWords   = 72       // bytes at most of an output's names and braces, its count and cache_hit
)

// outcome is the answer of a call: its rows, or those of an earlier call.
type outcome struct {
	dataset agent.Dataset
	preview json.RawMessage
	report  json.RawMessage // of the steps
	cached  bool
}

// result stores the rows and describes them.
func (r *run) result(ctx context.Context) (agent.ToolResult, *outcome, error) {
	if err := r.redact(); err != nil {
		return agent.ToolResult{}, nil, err
	}
	if err := r.checkSize(); err != nil {
		return agent.ToolResult{}, nil, err
	}
	o := &outcome{dataset: agent.Dataset{RowCount: len(r.rows), Fields: dataset.Fields(r.rows, sampleFields)}}
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
	rows, err := r.inline(o)
	if err != nil {
		return agent.ToolResult{}, nil, err
	}
	res, err := o.answer(rows)
	return res, o, err
}

// redact applies the agent's middleware to the rows, because what is stored can be read by reference without it.
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

// checkSize refuses a result that would be too large to be read again: commas count, and CSV becomes longer than it was.
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

// sizeFault returns the fault of the step that made a result that is too large.
func (r *run) sizeFault(format string, args ...any) error {
	err := faultf(agent.CodeOverflow, "", format, args...)
	if n := len(r.done); n > 0 {
		return locate(err, r.done[n-1].Step, n-1)
	}
	err.failure.Field = "input_ref"
	return err
}

// store streams the rows to the blob store and returns their reference, empty without a store.
func (r *run) store(ctx context.Context) (string, error) {
	if r.cfg.Blobs == nil {
		return "", nil
	}
	from, to := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = to.CloseWithError(dataset.Write(to, r.rows)) // nil is the end of the stream; never fails itself
	}()
	ref, err := r.cfg.Blobs.Put(ctx, r.inv.Tenant, from)
	_ = from.Close() // ends the writer if not all was read
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

// inline encodes the rows if the whole output then fits, else it returns nil. Without a blob store all rows fit.
func (r *run) inline(o *outcome) (json.RawMessage, error) {
	b := &boundedBuffer{left: r.room(o)}
	if r.cfg.Blobs == nil {
		b.left = int64(1) << 62
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

// room returns how long the rows may be, in bytes, so that the output is within its bound.
func (r *run) room(o *outcome) int64 {
	maxBytes := r.inv.InlineBytes
	if maxBytes <= 0 {
		maxBytes = defaultInline
	}
	return int64(maxBytes - len(o.report) - len(o.dataset.Ref) - outputWords)
}

var errFull = errors.New("no room")

// boundedBuffer is a buffer that refuses more than left bytes.
type boundedBuffer struct {
	bytes.Buffer

	left int64
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, errFull
	}
	return b.Buffer.Write(p)
}

// answer returns the result with the rows, or with the preview if rows is nil.
func (o *outcome) answer(rows json.RawMessage) (agent.ToolResult, error) {
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
	b.WriteByte('}')
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

// preview returns {type,row_count,sample}.
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
