package dataset

import (
	"bufio"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
)

// ReadJSON reads the rows of a JSON document; see the package comment for where they are. An array is read as it comes; an object is
// kept until it is known where in it the rows are.
func ReadJSON(r io.Reader, l Limits) ([]Row, error) {
	in := bufio.NewReader(limitReader(r, l.bytes()))
	c, err := firstByte(in)
	if err != nil {
		return nil, err
	}
	if c == '[' {
		return collect(in, rowsPlace{}, l)
	}
	if err := checkDocument(c, in); err != nil {
		return nil, err
	}
	var body spool
	if err := body.fill(in); err != nil {
		return nil, err
	}
	w, err := locate(body.newReader(false))
	if err != nil {
		return nil, err
	}
	return collect(body.newReader(true), w, l)
}

// checkDocument refuses what begins neither an array nor an object.
func checkDocument(c byte, in *bufio.Reader) error {
	switch c {
	case '{', '[':
		return nil
	case 0:
		return agent.Errorf(agent.CodeInvalid, "", "is empty, not JSON")
	case '"', 't', 'f', 'n', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return agent.Errorf(agent.CodeInvalid, "", "is no JSON array or object: it begins with %q", excerpt(in))
	default:
		return agent.Errorf(agent.CodeInvalid, "", "is not JSON: it begins with %q", excerpt(in))
	}
}

func excerpt(in *bufio.Reader) string {
	start, _ := in.Peek(40) // fewer is as good
	return strings.ToValidUTF8(string(start), "\ufffd")
}

func collect(r io.Reader, w rowsPlace, l Limits) ([]Row, error) {
	rows, kept := []Row{}, arena{}
	err := each(r, w, func(row []byte) error {
		if len(rows) == l.rows() {
			return tooMany(l.rows())
		}
		rows = append(rows, kept.keep(row))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// each calls yield with every row of a document, checked; a row is good until yield returns. The document is read to its end when it
// is an array: another one was read as a whole to find the rows.
func each(r io.Reader, w rowsPlace, yield func(row []byte) error) error {
	dec := jsontext.NewDecoder(r)
	if err := w.enter(dec); err != nil {
		return err
	}
	return w.rows(dec, yield)
}

// rows is [each] after [where.enter].
func (w rowsPlace) rows(dec *jsontext.Decoder, yield func(row []byte) error) error {
	if w.single {
		row, err := dec.ReadValue()
		if err != nil {
			return syntaxError(err, inDocument)
		}
		return yieldChecked(row, func(pointer string) string { return fieldPath(fieldPath("", strings.Join(w.path, "/")), pointer) }, yield)
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		row, err := dec.ReadValue()
		if err != nil {
			return syntaxError(err, w.rowPlace)
		}
		at := func(pointer string) string { return fieldPath("row "+strconv.Itoa(i), pointer) }
		if err := yieldChecked(row, at, yield); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return syntaxError(err, w.rowPlace)
	}
	if len(w.path) > 0 {
		return nil
	}
	return checkEnd(dec)
}

// Check returns an error if a well-formed row cannot be read again: [agent.CodeInvalid] for nesting deeper than [MaxDepth] and numbers
// beyond float64, with the place in the row as the error's field.
func Check(row Row) error {
	return yieldChecked(row, inDocument, func([]byte) error { return nil })
}

func inDocument(pointer string) string { return fieldPath("", pointer) }

func yieldChecked(row []byte, at func(pointer string) string, yield func(row []byte) error) error {
	if offset, what := findUnreadable(row); what != "" {
		return agent.Invalid(at(pointerAt(row, offset)), "%s", what)
	}
	return yield(row)
}

// checkEnd checks that nothing follows the document.
func checkEnd(dec *jsontext.Decoder) error {
	_, err := dec.ReadToken()
	if err == io.EOF { //nolint:errorlint // jsontext returns it as it is
		return nil
	}
	if err := syntaxError(err, func(string) string { return "" }); err != nil && agent.CodeOf(err) != agent.CodeInvalid {
		return err
	}
	return agent.Errorf(agent.CodeInvalid, "", "is malformed JSON: something follows its end, at byte %d", dec.InputOffset())
}
