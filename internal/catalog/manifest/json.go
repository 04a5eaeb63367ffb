package manifest

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// jsonReader reads JSON with positions. The YAML library cannot read all JSON: it does not support surrogate pairs, and names have at most
// 1,024 characters.
type jsonReader struct {
	*reader

	decoder    *jsontext.Decoder
	positioner *positioner
}

// readJSON reads the JSON values of a file. It returns the fault that stopped it, nil if it read the whole file.
func (r *reader) readJSON(data []byte) *locatedFault {
	j := &jsonReader{reader: r, decoder: jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true)), positioner: newPositioner(data)}
	for {
		var err error
		if j.decoder.PeekKind() == '[' {
			err = j.readList()
		} else if !r.begin() {
			return tooMany()
		} else if err = j.readDocument(); errors.Is(err, io.EOF) {
			*r.remaining++ // begin counted a document that does not exist
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

// readList reads an array of documents.
func (j *jsonReader) readList() error {
	if _, err := j.decoder.ReadToken(); err != nil {
		return err
	}
	for j.decoder.PeekKind() != ']' {
		if !j.begin() {
			return errTooMany
		}
		if err := j.readDocument(); err != nil {
			return unexpectedEOF(err)
		}
	}
	_, err := j.decoder.ReadToken()
	return unexpectedEOF(err)
}

func (j *jsonReader) readDocument() error {
	root, err := j.readNode(nil, 0)
	if err == nil {
		j.end(root)
	}
	return err
}

// unexpectedEOF returns err, or [io.ErrUnexpectedEOF] if err is [io.EOF].
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func jsonSyntax(err error, data []byte) *locatedFault {
	pos, message := position{}, "ends too early"
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		pos = newPositioner(data).positionOf(int(syntax.ByteOffset))
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			message = strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
		}
	}
	return &locatedFault{pos: pos, message: "malformed JSON: " + message}
}

// readNode reads a value. Its error is a syntax error, after which nothing can be read.
func (j *jsonReader) readNode(path *valuePath, depth int) (*node, error) {
	kind := j.decoder.PeekKind()
	if kind != '{' && kind != '[' {
		return j.readScalar(path, depth)
	}
	if depth >= maxDepth || j.values >= maxValues {
		pos, err := j.skip()
		if err != nil {
			return nil, err
		}
		refused, _ := j.enter(pos, path, true, depth)
		return refused, nil
	}
	if _, err := j.decoder.ReadToken(); err != nil {
		return nil, err
	}
	pos := j.positioner.positionOf(int(j.decoder.InputOffset()) - 1)
	j.values++
	n, closing := &node{form: formObject, pos: pos, keyPos: pos}, jsontext.Kind('}')
	if kind == '[' {
		n.form, closing = formArray, ']'
	}
	names := map[string]bool{}
	for j.decoder.PeekKind() != closing {
		var err error
		if kind == '[' {
			err = j.readItem(n, path, depth)
		} else {
			err = j.readMember(n, names, path, depth)
		}
		if err != nil {
			return nil, unexpectedEOF(err)
		}
	}
	_, err := j.decoder.ReadToken()
	return n, unexpectedEOF(err)
}

func (j *jsonReader) readItem(n *node, path *valuePath, depth int) error {
	item, err := j.readNode(&valuePath{parent: path, index: len(n.items), isItem: true}, depth+1)
	n.items = append(n.items, item)
	return err
}

func (j *jsonReader) readMember(n *node, names map[string]bool, path *valuePath, depth int) error {
	raw, key, err := j.readRaw()
	if err != nil {
		return err
	}
	unquoted, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return err
	}
	name := string(unquoted)
	if problem := nameProblem(name); problem != "" {
		j.addFault(key, path.String(), problem)
		_, err = j.skip()
		return err
	}
	memberPath := &valuePath{parent: path, name: name}
	value, err := j.readNode(memberPath, depth+1)
	if err != nil {
		return err
	}
	j.addMember(n, names, name, key, memberPath, value)
	return nil
}

// readRaw returns the text of the next value or name, and its position.
func (j *jsonReader) readRaw() (jsontext.Value, position, error) {
	raw, err := j.decoder.ReadValue()
	if err != nil {
		return nil, position{}, err
	}
	return raw, j.positioner.positionOf(int(j.decoder.InputOffset()) - len(raw)), nil
}

// skip skips the next value and returns its position.
func (j *jsonReader) skip() (position, error) {
	_, pos, err := j.readRaw()
	return pos, err
}

func (j *jsonReader) readScalar(path *valuePath, depth int) (*node, error) {
	raw, pos, err := j.readRaw()
	if err != nil {
		return nil, err
	}
	if refused, ok := j.enter(pos, path, false, depth); !ok {
		return refused, nil
	}
	n, problem := &node{pos: pos, keyPos: pos}, ""
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
		n.text, n.isInteger, problem = decimal(string(raw))
	case jsontext.KindTrue, jsontext.KindFalse:
		n.form, n.boolValue = formBool, raw.Kind() == jsontext.KindTrue
	default: // null
	}
	if problem != "" {
		return j.refuse(pos, path, problem), nil
	}
	return n, nil
}
