package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// csvGrowth bounds the rows to a multiple of the body: each repeats the names of its columns.
const csvGrowth = 8

// readCSV reads records as objects; see the package comment.
func readCSV(r io.Reader, l Limits, header bool) ([]Row, error) {
	in := bufio.NewReader(limitReader(r, l.bytes()))
	skipMark(in)
	table := csvTable{tape: tape{r: in}}
	table.records = csv.NewReader(&table.tape)
	table.records.ReuseRecord, table.records.FieldsPerRecord = true, -1

	rows, kept, size := []Row{}, arena{}, int64(0)
	for {
		record, err := table.next()
		switch {
		case err == io.EOF && header && table.names == nil: //nolint:errorlint // next returns it as it is
			return nil, agent.Errorf(agent.CodeInvalid, "", "is empty, not CSV: want a header")
		case err == io.EOF: //nolint:errorlint // next returns it as it is
			return rows, nil
		case err != nil:
			return nil, err
		}
		if table.names == nil {
			if err := table.columns(record, header); err != nil {
				return nil, err
			}
			if header {
				continue
			}
		}
		row, err := table.row(record)
		if err != nil {
			return nil, err
		}
		if len(rows) == l.rows() {
			return nil, tooMany(l.rows())
		}
		if size += int64(len(row)); size > csvGrowth*l.bytes() {
			return nil, agent.Errorf(agent.CodeOverflow, "", "as JSON is larger than %d bytes", csvGrowth*l.bytes())
		}
		rows = append(rows, kept.keep(row))
	}
}

// csvTable reads records one by one.
type csvTable struct {
	tape    tape
	records *csv.Reader
	names   [][]byte // quoted, with the colon; nil until the columns are known
	raw     []byte   // of the last record, and empty lines before it
	line    int      // how many lines are before raw
	buf     []byte
}

func (t *csvTable) next() ([]string, error) {
	t.line += bytes.Count(t.raw, []byte{'\n'})
	record, err := t.records.Read()
	t.raw = t.tape.cut(t.records.InputOffset())
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		where := ""
		if parse.Line != parse.StartLine { // a record goes on where its quotes do
			where = " at " + lineOf(parse.Line)
		}
		return nil, agent.Invalid(lineOf(parse.StartLine), "is malformed CSV%s, column %d: %s", where, parse.Column, csvMistake(parse.Err))
	}
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(t.raw) {
		return nil, agent.Invalid(t.recordLine(), "is not UTF-8")
	}
	return record, nil
}

func csvMistake(err error) string {
	if errors.Is(err, csv.ErrBareQuote) {
		return `a quote within a value that is not quoted; write "" within quotes`
	}
	if errors.Is(err, csv.ErrQuote) {
		return "a quote that is not closed, or something behind the closing one"
	}
	return clip.Bytes(err.Error(), maxQuoted)
}

func lineOf(n int) string { return "line " + strconv.Itoa(n) }

func (t *csvTable) recordLine() string {
	n, _ := t.records.FieldPos(0)
	return lineOf(n)
}

// columns takes the names from the first record, or makes them.
func (t *csvTable) columns(record []string, header bool) error {
	if len(record) > MaxColumns {
		return agent.FieldErrorf(agent.CodeOverflow, t.recordLine(), "has %d columns, at most %d", len(record), MaxColumns)
	}
	seen := make(map[string]int, len(record))
	for i, name := range record {
		switch {
		case !header:
			name = "column_" + strconv.Itoa(i+1)
		case i == 0: // blank lines may stand before the mark
			name = strings.TrimLeft(name, byteOrderMark)
		}
		before, twice := seen[name]
		switch {
		case name == "":
			return agent.Invalid(t.recordLine(), "column %d of the header has no name", i+1)
		case twice:
			return agent.Invalid(t.recordLine(), "columns %d and %d of the header are both %q", before, i+1, clip.Bytes(name, maxQuoted))
		}
		seen[name] = i + 1
		quoted, err := jsontext.AppendQuote(nil, name)
		if err != nil {
			return agent.Invalid(t.recordLine(), "column %d of the header: %w", i+1, err)
		}
		t.names = append(t.names, append(quoted, ':'))
	}
	return nil
}

// row returns the record as an object, valid until the next call.
func (t *csvTable) row(record []string) ([]byte, error) {
	if len(record) != len(t.names) {
		return nil, agent.Invalid(t.recordLine(), "has %d values, the table has %d columns", len(record), len(t.names))
	}
	t.buf = append(t.buf[:0], '{')
	b := t.buf
	for i, value := range record {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, t.names[i]...)
		switch {
		case value == "" && !t.quoted(i):
			b = append(b, "null"...)
		case isPlainNumber(value):
			b = append(b, value...)
		default:
			var err error
			if b, err = jsontext.AppendQuote(b, value); err != nil {
				return nil, agent.Invalid(t.recordLine(), "%w", err)
			}
		}
	}
	b = append(b, '}')
	t.buf = b
	return b, nil
}

// quoted reports whether a value of the last record began with a quote.
func (t *csvTable) quoted(i int) bool {
	line, column := t.records.FieldPos(i)
	rest := t.raw
	for range line - 1 - t.line {
		_, rest, _ = bytes.Cut(rest, []byte{'\n'})
	}
	return column-1 < len(rest) && rest[column-1] == '"'
}

// tape keeps the bytes that encoding/csv has read, because it does not tell "" from an empty value.
type tape struct {
	r    io.Reader
	kept []byte
	from int64 // the offset of kept
}

func (t *tape) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.kept = append(t.kept, p[:n]...)
	return n, err
}

// cut returns what is kept up to an offset and forgets it with the next Read.
func (t *tape) cut(to int64) []byte {
	n := to - t.from
	cut := t.kept[:n]
	t.kept, t.from = t.kept[n:], to
	return cut
}

// isPlainNumber reports whether a value is a number in JSON's syntax that a float64 holds without loss.
func isPlainNumber(s string) bool {
	if s == "" || len(s) > 40 || s[0] != '-' && (s[0] < '0' || s[0] > '9') {
		return false
	}
	digits, hasExponent, ok := ScanNumber(s)
	return ok && digits <= ExactDigits && (!hasExponent || !overflowsFloat(s))
}
