package definitions

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
)

// previewRows is the number of rows in a preview.
const previewRows = 5

// rowWriter streams rows to the store as a JSON array. It opens the store only for the first row.
type rowWriter struct {
	put     func(r io.Reader) (string, error)
	pipe    *io.PipeWriter
	buffer  *bufio.Writer
	stored  chan storedRows
	count   int64
	size    int64
	preview []json.RawMessage
}

// storedRows is the result of storing the array.
type storedRows struct {
	ref string
	err error
}

// newRowWriter returns a writer without rows. The caller must call finish or abort.
func (v *nodeVisit) newRowWriter(ctx context.Context) *rowWriter {
	return &rowWriter{put: func(r io.Reader) (string, error) { return v.runner.Rows.Put(ctx, v.facts.run.Tenant, r) }}
}

// add writes one row.
func (w *rowWriter) add(row any) error {
	raw, err := json.Marshal(row)
	if err != nil {
		return err
	}
	separator := byte(',')
	if w.pipe == nil {
		separator = '['
		w.open()
	}
	w.size += int64(len(raw)) + 1
	w.count++
	if w.count <= previewRows {
		w.preview = append(w.preview, raw)
	}
	if err := w.buffer.WriteByte(separator); err != nil {
		return err
	}
	_, err = w.buffer.Write(raw)
	return err
}

// open begins to store the rows.
func (w *rowWriter) open() {
	reader, pipe := io.Pipe()
	w.pipe, w.buffer, w.stored = pipe, bufio.NewWriterSize(pipe, 64<<10), make(chan storedRows, 1)
	go func() {
		ref, err := w.put(reader)
		_ = reader.CloseWithError(errors.Join(err, io.ErrClosedPipe)) // unblocks the writer
		w.stored <- storedRows{ref, err}
	}()
}

// abort discards the rows.
func (w *rowWriter) abort(cause error) {
	if w.pipe != nil {
		_ = w.pipe.CloseWithError(cause) // never fails
		<-w.stored
	}
}

// finish completes the array and returns its reference. It returns the zero value if there are no rows.
func (w *rowWriter) finish() (rowsOutput, error) {
	if w.pipe == nil {
		return rowsOutput{}, nil
	}
	_ = w.buffer.WriteByte(']')                              // Flush returns its error
	_ = w.pipe.CloseWithError(errors.Join(w.buffer.Flush())) // nil is the end of the content
	stored := <-w.stored
	if stored.err != nil {
		return rowsOutput{}, stored.err
	}
	preview, err := json.Marshal(rowsPreview{Type: "dataset", RowCount: w.count, Sample: w.preview})
	return rowsOutput{Ref: stored.ref, RowCount: w.count, Preview: preview}, err
}

// rowsPreview is the preview of stored rows in a node's output.
type rowsPreview struct {
	Type     string            `json:"type"`
	RowCount int64             `json:"row_count"`
	Sample   []json.RawMessage `json:"sample"`
}
