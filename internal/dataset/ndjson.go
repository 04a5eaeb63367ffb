package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// recordSeparator begins the texts of a JSON text sequence (RFC 7464).
const recordSeparator = 0x1e

// ReadNDJSON reads a JSON value from each line that is not empty. In a JSON text sequence a value may have several lines; an error then
// names its first one.
func ReadNDJSON(r io.Reader, l Limits) ([]Row, error) {
	in := bufio.NewReaderSize(limitReader(r, l.bytes()), 64<<10)
	skipMark(in)
	s := splitter{in: in, delimiter: '\n', line: 1}
	if c, _ := in.Peek(1); len(c) > 0 && c[0] == recordSeparator {
		s.delimiter = recordSeparator
	}
	rows, kept, dec := []Row{}, arena{}, lineDecoder{}
	for {
		text, line, err := s.next()
		switch {
		case err == io.EOF: //nolint:errorlint // next returns it as it is
			return rows, nil
		case err != nil:
			return nil, err
		case len(rows) == l.rows():
			return nil, tooMany(l.rows())
		}
		if err := dec.findUnreadable(text, line); err != nil {
			return nil, err
		}
		rows = append(rows, kept.keep(text))
	}
}

// splitter cuts a body into texts.
type splitter struct {
	in        *bufio.Reader
	delimiter byte
	line      int    // of what comes next, from 1
	long      []byte // a text that is longer than the reader's buffer
}

// next returns a text without the white space around it, good until the next call, and the line on which it begins; io.EOF at the end.
func (s *splitter) next() (text []byte, line int, err error) {
	for {
		piece, err := s.piece()
		if err != nil && (err != io.EOF || len(piece) == 0) { //nolint:errorlint // bufio returns it as it is
			return nil, 0, err
		}
		piece = bytes.TrimSuffix(piece, []byte{s.delimiter})
		text := bytes.TrimLeft(piece, " \t\r\n")
		line := s.line + bytes.Count(piece[:len(piece)-len(text)], []byte{'\n'})
		s.line += bytes.Count(piece, []byte{'\n'})
		if s.delimiter == '\n' {
			s.line++
		}
		if text = bytes.TrimRight(text, " \t\r\n"); len(text) > 0 {
			return text, line, nil
		}
	}
}

// piece reads to the next delimiter, as ReadSlice does, however far that is.
func (s *splitter) piece() ([]byte, error) {
	s.long = s.long[:0]
	for {
		piece, err := s.in.ReadSlice(s.delimiter)
		if errors.Is(err, bufio.ErrBufferFull) {
			s.long = append(s.long, piece...)
			continue
		}
		if len(s.long) == 0 {
			return piece, err
		}
		s.long = append(s.long, piece...)
		return s.long, err
	}
}

// lineDecoder checks one text after the other.
type lineDecoder struct {
	in  bytes.Buffer
	dec jsontext.Decoder
}

func (d *lineDecoder) findUnreadable(text []byte, line int) error {
	at := func(pointer string) string { return fieldPath("line "+strconv.Itoa(line), pointer) }
	d.in = *bytes.NewBuffer(text)
	d.dec.Reset(&d.in)
	if _, err := d.dec.ReadValue(); err != nil {
		return syntaxError(err, at)
	}
	if d.dec.InputOffset() != int64(len(text)) {
		return agent.Invalid(at(""), "is malformed JSON: something follows its value, at byte %d", d.dec.InputOffset())
	}
	if offset, what := findUnreadable(text); what != "" {
		return agent.Invalid(at(pointerAt(text, offset)), "%s", what)
	}
	return nil
}
