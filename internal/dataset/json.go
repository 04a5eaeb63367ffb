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
	in := bufio.NewReader(within(r, l.bytes()))
	c, err := first(in)
	if err != nil {
		return nil, err
	}
	if c == '[' {
		return collect(in, where{}, l)
	}
	if err := checkDocument(c, in); err != nil {
		return nil, err
	}
	var body spool
	if err := body.fill(in); err != nil {
		return nil, err
	}
	w, err := locate(body.again(false))
	if err != nil {
		return nil, err
	}
	return collect(body.again(true), w, l)
}

// checkDocument refuses what begins neither an array nor an object.
func checkDocument(c byte, in *bufio.Reader) error {
	switch c {
	case '{', '[':
		return nil
	case 0:
		return agent.Errorf(agent.CodeInvalid, "", "is empty, not JSON")
	case '"', 't', 'f', 'n', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return agent.Errorf(agent.CodeInvalid, "", "is no JSON array or object: it begins with %q", beginning(in))
	default:
		return agent.Errorf(agent.CodeInvalid, "", "is not JSON: it begins with %q", beginning(in))
	}
}

func beginning(in *bufio.Reader) string {
	start, _ := in.Peek(40) // fewer is as good
	return strings.ToValidUTF8(string(start), "\ufffd")
}

func collect(r io.Reader, w where, l Limits) ([]Row, error) {
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
func each(r io.Reader, w where, yield func(row []byte) error) error {
	dec := jsontext.NewDecoder(r)
	if err := w.enter(dec); err != nil {
		return err
	}
	return w.rows(dec, yield)
}

// rows is each behind [where.enter].
func (w where) rows(dec *jsontext.Decoder, yield func(row []byte) error) error {
	if w.single {
		row, err := dec.ReadValue()
		if err != nil {
			return malformed(err, inDocument)
		}
		return checked(row, func(pointer string) string { return place(place("", strings.Join(w.path, "/")), pointer) }, yield)
	}
	for i := 0; dec.PeekKind() != ']'; i++ {
		row, err := dec.ReadValue()
		if err != nil {
			return malformed(err, w.rowPlace)
		}
		at := func(pointer string) string { return place("row "+strconv.Itoa(i), pointer) }
		if err := checked(row, at, yield); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return malformed(err, w.rowPlace)
	}
	if len(w.path) > 0 {
		return nil
	}
	return ended(dec)
}

// Check says of a well-formed row whether it can be read again: what is nested deeper than [MaxDepth] and numbers beyond float64 are
// [agent.CodeInvalid], with the place in the row as the error's field.
func Check(row Row) error {
	return checked(row, inDocument, func([]byte) error { return nil })
}

func inDocument(pointer string) string { return place("", pointer) }

func checked(row []byte, at func(pointer string) string, yield func(row []byte) error) error {
	if offset, what := check(row); what != "" {
		return agent.Invalid(at(pointerAt(row, offset)), "%s", what)
	}
	return yield(row)
}

// ended checks that nothing follows the document.
func ended(dec *jsontext.Decoder) error {
	_, err := dec.ReadToken()
	if err == io.EOF { //nolint:errorlint // jsontext returns it as it is
		return nil
	}
	if err := malformed(err, func(string) string { return "" }); err != nil && agent.CodeOf(err) != agent.CodeInvalid {
		return err
	}
	return agent.Errorf(agent.CodeInvalid, "", "is malformed JSON: something follows its end, at byte %d", dec.InputOffset())
}
