package dataset

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// Where rows usually are in an object; see the package comment for the rule.
func rowFields() []string {
	return []string{"rows", "items", "data", "results", "records", "values", "entries", "hits", "flights"}
}

func wrapperFields() []string { return []string{"data", "result", "response", "payload"} }

// rowsPlace is the place of the rows in a document: the elements of the array at a path, or the one object.
type rowsPlace struct {
	path   []string
	single bool
}

// rowPlace turns the pointer to a mistake in the document into the form of errors.
func (w rowsPlace) rowPlace(pointer string) string {
	for _, name := range w.path {
		pointer = strings.TrimPrefix(pointer, string(jsontext.Pointer("").AppendToken(name)))
	}
	index, rest, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if _, err := strconv.Atoi(index); err != nil {
		return fieldPath("", pointer)
	}
	return fieldPath("row "+index, rest)
}

// locate reads a document that is an object to its end, keeping no more of it than the names of the arrays.
func locate(r io.Reader) (rowsPlace, error) {
	dec := jsontext.NewDecoder(r)
	o := outline{}
	if err := o.read(dec, true); err != nil {
		return rowsPlace{}, syntaxError(err, inDocument)
	}
	if err := checkEnd(dec); err != nil {
		return rowsPlace{}, err
	}
	return o.rows()
}

// outline is what the rule of rows needs to know of an object.
type outline struct {
	arrays  []string            // members that are one of rowFields and hold an array
	objects []string            // members that hold an array of objects, all of them up to a bound
	inner   map[string]*outline // members that are one of wrapperFields and hold an object
}

// The most arrays that a refusal names.
const maxNamed = 20

func (o *outline) read(dec *jsontext.Decoder, descend bool) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		token, err := dec.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		switch kind := dec.PeekKind(); {
		case kind == '[':
			err = o.array(dec, name)
		case kind == '{' && descend && slices.Contains(wrapperFields(), name):
			if o.inner == nil {
				o.inner = map[string]*outline{}
			}
			o.inner[name] = &outline{}
			err = o.inner[name].read(dec, false)
		default:
			err = dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

func (o *outline) array(dec *jsontext.Decoder, name string) error {
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	if slices.Contains(rowFields(), name) {
		o.arrays = append(o.arrays, name)
	}
	if dec.PeekKind() == '{' && len(o.objects) < maxNamed {
		o.objects = append(o.objects, name)
	}
	for dec.PeekKind() != ']' {
		if err := dec.SkipValue(); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// rows applies the rule.
func (o *outline) rows() (rowsPlace, error) {
	for _, name := range rowFields() {
		if slices.Contains(o.arrays, name) {
			return rowsPlace{path: []string{name}}, nil
		}
	}
	switch len(o.objects) {
	case 0:
	case 1:
		return rowsPlace{path: o.objects}, nil
	default:
		names := slices.Clone(o.objects)
		for i := range names {
			names[i] = clip.Bytes(names[i], maxQuoted)
		}
		slices.Sort(names)
		return rowsPlace{}, agent.Errorf(agent.CodeInvalid, "", "has several arrays and none is obviously the rows: %s", strings.Join(names, ", "))
	}
	for _, name := range wrapperFields() {
		if o.inner[name] != nil {
			w, err := o.inner[name].rows()
			w.path = append([]string{name}, w.path...)
			return w, err
		}
	}
	return rowsPlace{single: true}, nil
}

// enter reads up to the first row.
func (w rowsPlace) enter(dec *jsontext.Decoder) error {
	for _, name := range w.path {
		if _, err := dec.ReadToken(); err != nil {
			return syntaxError(err, inDocument)
		}
		for {
			token, err := dec.ReadToken()
			if err != nil {
				return syntaxError(err, inDocument)
			}
			if token.Kind() == '"' && token.String() == name {
				break
			}
			if err := dec.SkipValue(); err != nil {
				return syntaxError(err, inDocument)
			}
		}
	}
	if w.single {
		return nil
	}
	if _, err := dec.ReadToken(); err != nil {
		return syntaxError(err, inDocument)
	}
	return nil
}
