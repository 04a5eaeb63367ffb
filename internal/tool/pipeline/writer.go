package pipeline

import (
	"encoding/json"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// The sizes of the buffers that hold the rows of a step. Each buffer is twice as large as the last one, up to maxBuffer.
const (
	minBuffer = 4 << 10
	maxBuffer = 1 << 20
)

// rowWriter builds the rows of a step, many in one buffer, and bounds their number and total size. A row is appended to buf between
// beginRow and endRow.
type rowWriter struct {
	buf       []byte
	rowStart  int // where the current row begins in buf
	rows      []row
	remaining int64 // bytes
	maxBytes  int64
	maxRows   int

	written []bool // which columns setMembers has written to the current row
}

func (r *run) newWriter(rows int) *rowWriter {
	return &rowWriter{rows: make([]row, 0, rows), remaining: r.cfg.MaxBytes, maxBytes: r.cfg.MaxBytes, maxRows: r.cfg.MaxRows}
}

// beginRow starts a row of about size bytes.
func (w *rowWriter) beginRow(size int) {
	if cap(w.buf)-len(w.buf) < size {
		w.buf = make([]byte, 0, max(min(2*cap(w.buf), maxBuffer), minBuffer, size))
	}
	w.rowStart = len(w.buf)
}

// endRow adds the current row to the rows. It returns an overflow fault if a bound is exceeded.
func (w *rowWriter) endRow() error {
	made := w.buf[w.rowStart:len(w.buf):len(w.buf)]
	if w.remaining -= int64(len(made)); w.remaining < 0 {
		return faultf(agent.CodeOverflow, "", "makes more than %d bytes of rows", w.maxBytes)
	}
	if len(w.rows) == w.maxRows {
		return faultf(agent.CodeOverflow, "", "makes more than %d rows", w.maxRows)
	}
	w.rows = append(w.rows, made)
	return nil
}

// appendMember appends a member to the current object.
func (w *rowWriter) appendMember(label, value []byte) {
	w.appendSeparator()
	w.buf = append(append(w.buf, label...), value...)
}

// appendSeparator appends the opening brace before the first member, and a comma before every other one.
func (w *rowWriter) appendSeparator() {
	switch len(w.buf) - w.rowStart {
	case 0:
		w.buf = append(w.buf, '{')
	case 1: // only the brace is written
	default:
		w.buf = append(w.buf, ',')
	}
}

// closeObject appends the closing brace of an object, which may have no members.
func (w *rowWriter) closeObject() {
	if len(w.buf) == w.rowStart {
		w.buf = append(w.buf, '{')
	}
	w.buf = append(w.buf, '}')
}

// setMembers writes a row with new values for some columns. It replaces fields that the row has in place, and appends the others.
func (w *rowWriter) setMembers(from row, columns []column, values []json.RawMessage) error {
	size := len(from)
	for j := range values {
		size += len(columns[j].label) + len(values[j]) + 1
	}
	w.beginRow(size)
	if len(w.written) < len(columns) {
		w.written = make([]bool, len(columns))
	}
	clear(w.written)
	var m dataset.Member
	for c := dataset.MembersOf(from); ; {
		start := c.Start()
		if !c.Next(&m) {
			break
		}
		j := slices.IndexFunc(columns, func(c column) bool { return m.Is(c.name) })
		if j < 0 {
			w.appendSeparator()
			w.buf = append(w.buf, from[start:m.To]...)
			continue
		}
		w.written[j] = true
		w.appendMember(columns[j].label, values[j])
	}
	for j := range columns {
		if !w.written[j] {
			w.appendMember(columns[j].label, values[j])
		}
	}
	w.closeObject()
	return w.endRow()
}
