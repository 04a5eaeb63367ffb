package dataset

import (
	"bufio"
	"io"
)

// writeBuffer is how much is written at a time, in bytes.
const writeBuffer = 64 << 10

// Write writes rows as one compact JSON array, row by row. An error is the writer's.
func Write(w io.Writer, rows []Row) error {
	out := jsonWriter{w: bufio.NewWriterSize(w, writeBuffer)}
	for _, row := range rows {
		if err := out.row(row); err != nil {
			return err
		}
	}
	return out.end()
}

// rowWriter takes rows one by one.
type rowWriter interface {
	row(row []byte) error
	end() error
}

type jsonWriter struct {
	w     *bufio.Writer
	begun bool
	buf   []byte
}

func (j *jsonWriter) row(row []byte) error {
	lead := byte(',')
	if !j.begun {
		lead, j.begun = '[', true
	}
	j.buf = appendRow(append(j.buf[:0], lead), row)
	_, err := j.w.Write(j.buf)
	return err
}

func (j *jsonWriter) end() error {
	if !j.begun {
		_ = j.w.WriteByte('[') // Flush returns its error
	}
	_ = j.w.WriteByte(']') // Flush returns its error
	return j.w.Flush()
}

type ndjsonWriter struct {
	w   *bufio.Writer
	buf []byte
}

func (n *ndjsonWriter) row(row []byte) error {
	n.buf = append(appendRow(n.buf[:0], row), '\n')
	_, err := n.w.Write(n.buf)
	return err
}

func (n *ndjsonWriter) end() error { return n.w.Flush() }

// appendRow appends a row; a nil one is null, as encoding/json has it.
func appendRow(dst, row []byte) []byte {
	if len(row) == 0 {
		return append(dst, typeNull...)
	}
	return appendCompact(dst, row)
}
