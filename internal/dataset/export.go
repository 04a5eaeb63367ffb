package dataset

import (
	"bufio"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// MaxRowBytes is how long one row of an export may be, and what is between two rows: so much of a document is in memory at a time.
const MaxRowBytes = 64 << 20

// Option changes how rows are exported.
type Option func(*exporter)

// ForSpreadsheets puts a single quote before strings and names of columns in a CSV that a spreadsheet would take for a formula: those that
// begin with = + - @, a tab or a carriage return (OWASP, "CSV Injection"). It is off by default because such a table does not read back
// as it was. Numbers stay numbers, -1 included.
func ForSpreadsheets() Option { return func(e *exporter) { e.disarm = true } }

type exporter struct {
	open   func() (io.ReadCloser, error)
	disarm bool
	bound  int64 // of a row, in bytes
	found  bool  // where is known, for a document that is no array
	where  rowsPlace
}

// Export writes the rows of a stored JSON document in a format, without ever holding more of it than a row. open is called once for
// an array, once more when the rows are inside an object, to find them, and once more for CSV, to learn the columns: the members of all
// rows in the order of their first appearance, at most [MaxColumns].
//
// Errors: those of the package comment about the document, also after something was written; [agent.CodeOverflow] for a row above
// [MaxRowBytes]; what open, the reader or w answers.
func Export(w io.Writer, open func() (io.ReadCloser, error), f Format, options ...Option) error {
	e := exporter{open: open, bound: MaxRowBytes}
	for _, set := range options {
		set(&e)
	}
	out := bufio.NewWriterSize(w, writeBuffer)
	switch f {
	case JSON:
		return e.copy(&jsonWriter{w: out})
	case NDJSON:
		return e.copy(&ndjsonWriter{w: out})
	case CSV, CSVNoHeader:
		table, err := e.columns()
		if err != nil {
			return err
		}
		table.w, table.disarm = out, e.disarm
		if f == CSV {
			table.header()
		}
		return e.copy(table)
	default:
		return agent.Invalid("format", "%q is unknown: want json, ndjson or csv", clip.Bytes(string(f), maxQuoted))
	}
}

func (e *exporter) copy(out rowWriter) error {
	if err := e.each(out.row); err != nil {
		return err
	}
	return out.end()
}

func (e *exporter) columns() (*csvWriter, error) {
	c := &csvWriter{index: map[string]int{}}
	return c, e.each(c.learn)
}

// each opens the document and reads its rows; before the first time, when it is no array, to find where they are.
func (e *exporter) each(yield func(row []byte) error) error {
	for {
		again, err := e.pass(yield)
		if err != nil || !again {
			return err
		}
		e.found = true
	}
}

func (e *exporter) pass(yield func(row []byte) error) (again bool, err error) {
	r, err := e.open()
	if err != nil {
		return false, err
	}
	defer func() {
		if closeErr := r.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("close the document: %w", closeErr)
		}
	}()
	row := limitReader(r, e.bound)
	in := bufio.NewReader(row)
	c, err := firstByte(in)
	if err != nil {
		return false, err
	}
	if err := checkDocument(c, in); err != nil {
		return false, err
	}
	if c != '[' && !e.found {
		row.isPaused = true
		e.where, err = locate(in)
		return err == nil, err
	}
	dec := jsontext.NewDecoder(in)
	row.isPaused = true
	if err := e.where.enter(dec); err != nil {
		return false, err
	}
	row.isPaused = false
	return false, e.where.rows(dec, func(v []byte) error {
		row.left = row.bound // for the next one
		return yield(v)
	})
}
