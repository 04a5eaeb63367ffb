package devstack

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"iter"
	"strconv"
	"time"
)

// table is a list of the sample API. Each row has one value per column: a string, an int, a time or nil.
type table struct {
	columns []string
	rows    iter.Seq[[]any]
}

// first returns the table of the first n rows.
func (t table) first(n int) table {
	all := t.rows
	t.rows = func(yield func([]any) bool) {
		left := n
		for row := range all {
			if left--; !yield(row) || left == 0 {
				return
			}
		}
	}
	return t
}

// rowFormat is how a list is written.
type rowFormat uint8

const (
	formatJSON rowFormat = iota
	formatCSV
	formatNDJSON
)

func (f rowFormat) suffix() string { return [...]string{"", ".csv", ".ndjson"}[f] }

func (f rowFormat) mediaType() string {
	return [...]string{"application/json", "text/csv; charset=utf-8", "application/x-ndjson"}[f]
}

// raggedRow is the index of the row that lacks a value on request.
const raggedRow = 2

// write streams the table until the client leaves. fail is how it goes wrong, empty for not.
func (t table) write(w io.Writer, format rowFormat, fail string) {
	out := bufio.NewWriterSize(w, 32<<10)
	defer out.Flush() //nolint:errcheck // the client may have left
	switch format {
	case formatJSON:
		_ = out.WriteByte('[')
	case formatCSV:
		_, _ = out.Write(csvLine(t.columns))
	case formatNDJSON:
	}
	separator := ""
	put := func(line []byte) error {
		_, _ = out.WriteString(separator)
		_, err := out.Write(line)
		switch format {
		case formatJSON:
			separator = ","
		case formatNDJSON:
			err = out.WriteByte('\n')
		case formatCSV:
		}
		return err
	}
	var last []byte // the newest row, which may be the one to break
	n := 0
	for row := range t.rows {
		if n > 0 && put(last) != nil {
			return
		}
		last = t.encode(row, format, n == raggedRow && fail == failRagged)
		n++
	}
	if fail == failBroken {
		last = last[:len(last)/2]
		if format == formatCSV {
			last = append([]byte(`"`), last...) // half a line is only a short one; a quote without its end is broken
		}
	}
	if n > 0 && put(last) != nil || fail == failBroken {
		return
	}
	if format == formatJSON {
		_, _ = out.WriteString("]\n")
	}
}

// encode returns a row in a format. A ragged one lacks its last value and, in JSON, has text in place of numbers.
func (t table) encode(row []any, format rowFormat, ragged bool) []byte {
	columns := t.columns
	if ragged {
		columns = columns[:len(columns)-1]
	}
	if format == formatCSV {
		return csvLine(texts(row[:len(columns)]))
	}
	if ragged {
		fields := map[string]any{}
		for i, name := range columns {
			if fields[name] = row[i]; isNumber(row[i]) {
				fields[name] = "n/a"
			}
		}
		raw, _ := json.Marshal(fields) // such values always encode
		return raw
	}
	line := []byte{'{'}
	for i, name := range columns {
		if i > 0 {
			line = append(line, ',')
		}
		value, _ := json.Marshal(row[i]) // such values always encode
		line = append(append(strconv.AppendQuote(line, name), ':'), value...)
	}
	return append(line, '}')
}

func isNumber(v any) bool {
	_, ok := v.(int)
	return ok
}

// texts returns values as CSV has them.
func texts(row []any) []string {
	cells := make([]string, len(row))
	for i, value := range row {
		switch v := value.(type) {
		case string:
			cells[i] = v
		case int:
			cells[i] = strconv.Itoa(v)
		case time.Time:
			cells[i] = v.Format(time.RFC3339)
		}
	}
	return cells
}

func csvLine(cells []string) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	_ = w.Write(cells) // a buffer takes everything
	w.Flush()
	return b.Bytes()
}
