package pipeline

import (
	"encoding/json"
	"slices"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// The sizes of the pieces of memory that hold a step's new rows: the first, and the most; each is twice the one before.
const (
	firstChunk = 4 << 10
	chunk      = 1 << 20
)

// writer makes the rows of a step, many in one piece of memory, and bounds them all together. A row is appended to buf between begin
// and end.
type writer struct {
	buf     []byte
	from    int // where the row under way begins
	rows    []row
	left    int64 // bytes
	bound   int64
	maxRows int

	written []bool // of the columns that with adds, for the row under way
}

func (r *run) newWriter(rows int) *writer {
	return &writer{rows: make([]row, 0, rows), left: r.cfg.MaxBytes, bound: r.cfg.MaxBytes, maxRows: r.cfg.MaxRows}
}

// begin starts a row of about so many bytes.
func (w *writer) begin(size int) {
	if cap(w.buf)-len(w.buf) < size {
		w.buf = make([]byte, 0, max(min(2*cap(w.buf), chunk), firstChunk, size))
	}
	w.from = len(w.buf)
}

// end keeps the row; [agent.CodeOverflow] when it is one too many.
func (w *writer) end() error {
	made := w.buf[w.from:len(w.buf):len(w.buf)]
	if w.left -= int64(len(made)); w.left < 0 {
		return faultf(agent.CodeOverflow, "", "makes more than %d bytes of rows", w.bound)
	}
	if len(w.rows) == w.maxRows {
		return faultf(agent.CodeOverflow, "", "makes more than %d rows", w.maxRows)
	}
	w.rows = append(w.rows, made)
	return nil
}

// appendMember appends a member to the present object.
func (w *writer) appendMember(label, value []byte) {
	w.appendSeparator()
	w.buf = append(append(w.buf, label...), value...)
}

// appendSeparator appends the brace or comma that stands before a member.
func (w *writer) appendSeparator() {
	switch len(w.buf) - w.from {
	case 0:
		w.buf = append(w.buf, '{')
	case 1: // the brace
	default:
		w.buf = append(w.buf, ',')
	}
}

// close appends the end of an object.
func (w *writer) close() {
	if len(w.buf) == w.from {
		w.buf = append(w.buf, '{')
	}
	w.buf = append(w.buf, '}')
}

// setMembers writes a row with some fields set: those that it has are replaced where they are, the others follow at its end.
func (w *writer) setMembers(from row, columns []column, values []json.RawMessage) error {
	size := len(from)
	for j := range values {
		size += len(columns[j].label) + len(values[j]) + 1
	}
	w.begin(size)
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
	w.close()
	return w.end()
}
