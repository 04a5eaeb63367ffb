package flightsapi

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"io"
	"iter"
)

// format is how a list is written.
type format uint8

const (
	formatJSON format = iota
	formatCSV
	formatNDJSON
)

func (f format) suffix() string { return [...]string{"", ".csv", ".ndjson"}[f] }

func (f format) media() string {
	return [...]string{"application/json", "text/csv; charset=utf-8", "application/x-ndjson"}[f]
}

// row is one of a list, in JSON by its tags and in CSV by its cells.
type row interface {
	header() []string
	cells() []string
}

// write streams a list until the client leaves; fail is how it goes wrong, empty for not.
func write[R row](w io.Writer, f format, rows iter.Seq[R], fail string) {
	out := bufio.NewWriterSize(w, 32<<10)
	defer out.Flush() //nolint:errcheck // a client that went away is nobody's fault
	var none R
	line := writeLine(f, out, none.header())
	if f == formatJSON {
		_ = out.WriteByte('[')
	}
	var last []byte
	n := 0
	for r := range rows {
		if n > 0 && line(last, n) != nil {
			return
		}
		last = encode(f, r, n == raggedRow && fail == failRagged)
		n++
	}
	if fail == failBroken && n > 0 {
		last = last[:len(last)/2]
		if f == formatCSV {
			last = append([]byte(`"`), last...) // half a line is a short one; a quote without its end is broken
		}
	}
	if n > 0 && line(last, n) != nil || fail == failBroken {
		return
	}
	switch {
	case f == formatJSON:
		_, _ = out.WriteString("]\n")
	case f == formatCSV && n == 0:
		_, _ = out.Write(record(none.header()))
	}
}

// writeLine returns what writes the n-th row, from 1 on, and what belongs before and behind it.
func writeLine(f format, out *bufio.Writer, header []string) func(raw []byte, n int) error {
	return func(raw []byte, n int) error {
		if f == formatCSV && n == 1 {
			_, _ = out.Write(record(header))
		}
		if f == formatJSON && n > 1 {
			_ = out.WriteByte(',')
		}
		_, err := out.Write(raw)
		if f == formatNDJSON {
			err = out.WriteByte('\n')
		}
		return err
	}
}

// raggedRow is the position of the row that lacks a value.
const raggedRow = 2

func encode[R row](f format, r R, ragged bool) []byte {
	if f == formatCSV {
		cells := r.cells()
		if ragged {
			cells = cells[:len(cells)-1]
		}
		return record(cells)
	}
	raw, _ := json.Marshal(r) // rows of this package encode
	if !ragged {
		return raw
	}
	var fields map[string]any
	_ = json.Unmarshal(raw, &fields) // it was just encoded
	header := r.header()
	delete(fields, header[len(header)-1])
	for name, v := range fields {
		if _, number := v.(float64); number {
			fields[name] = "n/a"
		}
	}
	raw, _ = json.Marshal(fields)
	return raw
}

// record is a line of CSV.
func record(cells []string) []byte {
	var b writer
	w := csv.NewWriter(&b)
	_ = w.Write(cells) // a slice of bytes takes everything
	w.Flush()
	return b
}

type writer []byte

func (b *writer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}
