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

// table has the rows of a list. A row has a value for each column: a string, an int, a time or nil.
type table struct {
	columns []string
	rows    iter.Seq[[]any]
}

// firstRows returns a table with the first n rows.
func (t table) firstRows(n int) table {
	all := t.rows
	t.rows = func(yield func([]any) bool) {
		remaining := n
		for row := range all {
			if remaining--; !yield(row) || remaining == 0 {
				return
			}
		}
	}
	return t
}

// rowFormat is the format of a list.
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

// raggedRow is the index of the row that failRagged changes.
const raggedRow = 2

// write writes the table until the client leaves. fail is the parameter of that name.
func (t table) write(w io.Writer, format rowFormat, fail string) {
	out := bufio.NewWriterSize(w, 32<<10)
	defer out.Flush() //nolint:errcheck // fails if the client has left
	switch format {
	case formatJSON:
		_ = out.WriteByte('[')
	case formatCSV:
		_, _ = out.Write(csvLine(t.columns))
	case formatNDJSON:
	}
	separator := ""
	writeRow := func(line []byte) error {
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
	var last []byte // not written yet, because failBroken changes the last row
	n := 0
	for row := range t.rows {
		if n > 0 && writeRow(last) != nil {
			return
		}
		last = t.encode(row, format, n == raggedRow && fail == failRagged)
		n++
	}
	if fail == failBroken {
		last = last[:len(last)/2]
		if format == formatCSV {
			last = append([]byte(`"`), last...) // half a line is valid CSV, an open quote is not
		}
	}
	if n > 0 && writeRow(last) != nil || fail == failBroken {
		return
	}
	if format == formatJSON {
		_, _ = out.WriteString("]\n")
	}
}

// encode returns a row in a format. A ragged row lacks its last value and, in JSON, has text in place of numbers.
func (t table) encode(row []any, format rowFormat, ragged bool) []byte {
	columns := t.columns
	if ragged {
		columns = columns[:len(columns)-1]
	}
	if format == formatCSV {
		return csvLine(csvCells(row[:len(columns)]))
	}
	if ragged {
		fields := map[string]any{}
		for i, name := range columns {
			if fields[name] = row[i]; isNumber(row[i]) {
				fields[name] = "n/a"
			}
		}
		raw, _ := json.Marshal(fields) // the values of a table always encode
		return raw
	}
	line := []byte{'{'}
	for i, name := range columns {
		if i > 0 {
			line = append(line, ',')
		}
		value, _ := json.Marshal(row[i]) // as above
		line = append(append(strconv.AppendQuote(line, name), ':'), value...)
	}
	return append(line, '}')
}

func isNumber(v any) bool {
	_, ok := v.(int)
	return ok
}

// csvCells returns the values of a row as text for CSV.
func csvCells(row []any) []string {
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
	_ = w.Write(cells) // writing to a buffer never fails
	w.Flush()
	return b.Bytes()
}
