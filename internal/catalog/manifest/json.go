package manifest

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonReader reads JSON with places. The YAML library cannot read all JSON: it has no surrogate pairs, and its names are at most 1,024
// characters long.
type jsonReader struct {
	*reader

	in     *jsontext.Decoder
	places *placer
}

// json reads the JSON values of a file. It returns the fault that stopped it, nil at the end.
func (r *reader) json(data []byte) *locatedFault {
	j := &jsonReader{reader: r, in: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true)), places: newPlacer(data)}
	for {
		var err error
		if j.in.PeekKind() == '[' {
			err = j.list()
		} else if !r.begin() {
			return tooMany()
		} else if err = j.document(); errors.Is(err, io.EOF) {
			*r.left++ // the end, and no document
			return nil
		}
		if errors.Is(err, errTooMany) {
			return tooMany()
		}
		if err != nil {
			return jsonSyntax(err, data)
		}
	}
}

var errTooMany = errors.New("too many documents")

// list reads an array of documents.
func (j *jsonReader) list() error {
	if _, err := j.in.ReadToken(); err != nil {
		return err
	}
	for j.in.PeekKind() != ']' {
		if !j.begin() {
			return errTooMany
		}
		if err := j.document(); err != nil {
			return unexpectedEOF(err)
		}
	}
	_, err := j.in.ReadToken()
	return unexpectedEOF(err)
}

func (j *jsonReader) document() error {
	root, err := j.node(nil, 0)
	if err == nil {
		j.end(root)
	}
	return err
}

// unexpectedEOF turns the end of the text within a value into an error.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func jsonSyntax(err error, data []byte) *locatedFault {
	at, message := place{}, "ends too early"
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		at = newPlacer(data).place(int(syntax.ByteOffset))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			message = strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
		}
	}
	return &locatedFault{at: at, message: "malformed JSON: " + message}
}

// node reads a value. Its error is a syntax error: nothing after it can be read.
func (j *jsonReader) node(t *trail, depth int) (*node, error) {
	kind := j.in.PeekKind()
	if kind != '{' && kind != '[' {
		return j.scalar(t, depth)
	}
	if depth >= maxDepth || j.values >= maxValues {
		at, err := j.skip()
		if err != nil {
			return nil, err
		}
		refused, _ := j.enter(at, t, true, depth)
		return refused, nil
	}
	if _, err := j.in.ReadToken(); err != nil {
		return nil, err
	}
	at := j.places.place(int(j.in.InputOffset()) - 1)
	j.values++
	if kind == '[' {
		n := &node{form: formArray, at: at, key: at}
		for j.in.PeekKind() != ']' {
			item, err := j.node(&trail{up: t, index: len(n.items), list: true}, depth+1)
			if err != nil {
				return nil, unexpectedEOF(err)
			}
			n.items = append(n.items, item)
		}
		_, err := j.in.ReadToken()
		return n, unexpectedEOF(err)
	}
	n := &node{form: formObject, at: at, key: at}
	seen := map[string]struct{}{}
	for j.in.PeekKind() != '}' {
		if err := j.member(n, seen, t, depth); err != nil {
			return nil, unexpectedEOF(err)
		}
	}
	_, err := j.in.ReadToken()
	return n, unexpectedEOF(err)
}

func (j *jsonReader) member(n *node, seen map[string]struct{}, t *trail, depth int) error {
	raw, key, err := j.raw()
	if err != nil {
		return err
	}
	unquoted, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return err
	}
	name := string(unquoted)
	if problem := nameProblem(name); problem != "" {
		j.fault(key, t.String(), problem)
		_, err = j.skip()
		return err
	}
	way := &trail{up: t, name: name}
	value, err := j.node(way, depth+1)
	if err != nil {
		return err
	}
	j.add(n, seen, name, key, way, value)
	return nil
}

// raw returns a scalar or a name as it is written, and its place.
func (j *jsonReader) raw() (jsontext.Value, place, error) {
	raw, err := j.in.ReadValue()
	if err != nil {
		return nil, place{}, err
	}
	return raw, j.places.place(int(j.in.InputOffset()) - len(raw)), nil
}

func (j *jsonReader) skip() (place, error) {
	_, at, err := j.raw()
	return at, err
}

func (j *jsonReader) scalar(t *trail, depth int) (*node, error) {
	raw, at, err := j.raw()
	if err != nil {
		return nil, err
	}
	if refused, ok := j.enter(at, t, false, depth); !ok {
		return refused, nil
	}
	n, problem := &node{at: at, key: at}, ""
	switch raw.Kind() {
	case jsontext.KindString:
		var text []byte
		if text, err = jsontext.AppendUnquote(nil, raw); err != nil {
			return nil, err
		}
		n.form, n.text = formText, string(text)
		problem = scalarProblem(n.text)
	case jsontext.KindNumber:
		n.form = formNumber
		n.text, n.whole, problem = decimal(string(raw))
	case jsontext.KindTrue, jsontext.KindFalse:
		n.form, n.truth = formBool, raw.Kind() == jsontext.KindTrue
	default: // null
	}
	if problem != "" {
		return j.refuse(at, t, problem), nil
	}
	return n, nil
}
