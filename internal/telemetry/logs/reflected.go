package logs

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"go.uber.org/zap/zapcore"
)

const (
	maxParts   = 10_000     // of a value that is written by reflection, at all depths
	maxReflect = 128 << 10  // bytes of it as JSON
	maxStrings = 1024 << 10 // bytes of its texts, before it is written
)

// reflected is what to write of a value that encoding/json writes: JSON as it is where nothing is to be taken out, else its members,
// elements or text, which go through the redactor one by one.
func (r *Redactor) reflected(value any, left *budget) (any, error) {
	if value == nil {
		return nil, nil //nolint:nilnil // null is written as what it is
	}
	w := walk{r: r, parts: maxParts, text: maxStrings}
	switch w.visit(reflect.ValueOf(value), 0); {
	case w.private:
		return redacted, nil
	case w.parts < 0 || w.text < 0:
		return "[cut: too large, or leads back to itself]", nil
	}
	text, err := marshal(value)
	switch {
	case err != nil:
		return nil, err
	case len(text) > maxReflect:
		return fmt.Sprintf("[cut: %d bytes]", len(text)), nil
	case len(text) <= maxText && len(text) <= left.bytes && bytes.IndexByte(text, '\\') < 0 && !r.holds(string(text)):
		left.bytes -= len(text)
		return json.RawMessage(text), nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return parse(d, 0)
}

// marshal is JSON as zap has it, by a value whose methods may panic.
func marshal(value any) (text []byte, err error) {
	defer recovered(&err)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// walk goes over a value before it is written, which tells what would take too long, and bytes that would be base64 or numbers then.
type walk struct {
	r           *Redactor
	parts, text int
	private     bool
}

const maxSteps = 64 // pointers, interfaces and levels on the way to one value

func (w *walk) visit(v reflect.Value, steps int) {
	if w.parts--; w.parts < 0 || w.text < 0 || w.private || !v.IsValid() {
		return
	}
	if steps == maxSteps {
		w.parts = -1
		return
	}
	if v.CanInterface() { // what writes itself is judged by what it wrote
		switch v.Interface().(type) {
		case json.Marshaler, encoding.TextMarshaler:
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		w.visit(v.Elem(), steps+1)
	case reflect.String:
		w.text -= v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				w.visit(v.Field(i), steps+1)
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); w.parts >= 0 && entries.Next(); {
			w.visit(entries.Key(), steps+1)
			w.visit(entries.Value(), steps+1)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			w.text -= v.Len()
		}
		if w.private = w.r.spelled(v); w.private || v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := 0; i < v.Len() && w.parts >= 0; i++ {
			w.visit(v.Index(i), steps+1)
		}
	default:
	}
}

// members and elements are JSON in the order in which it was written.
type (
	members []member
	member  struct {
		name  string
		value any
	}
	elements []any
)

// parse reads one value: members, elements, a string, or a literal as JSON has it.
func parse(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if depth == maxDepth {
			return beyond(false), skip(d)
		}
		if t == '[' {
			return parseElements(d, depth)
		}
		return parseMembers(d, depth)
	default:
		return t, nil
	}
}

// skip reads on to the end of what was begun.
func skip(d *json.Decoder) error {
	for level := 1; level > 0; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			level++
		case json.Delim('}'), json.Delim(']'):
			level--
		}
	}
	return nil
}

func parseMembers(d *json.Decoder, depth int) (any, error) {
	all := members{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := parse(d, depth+1)
		if err != nil {
			return nil, err
		}
		s, _ := name.(string)
		all = append(all, member{s, v})
	}
	_, err := d.Token()
	return all, err
}

func parseElements(d *json.Decoder, depth int) (any, error) {
	all := elements{}
	for d.More() {
		v, err := parse(d, depth+1)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	_, err := d.Token()
	return all, err
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (m members) MarshalLogObject(to zapcore.ObjectEncoder) error {
	for _, member := range m {
		switch v := member.value.(type) {
		case members:
			_ = to.AddObject(member.name, v) // neither fails: they hold nothing but themselves
		case elements:
			_ = to.AddArray(member.name, v)
		case string:
			to.AddString(member.name, v)
		case bool:
			to.AddBool(member.name, v)
		case json.Number:
			addNumber(to, member.name, v)
		default:
			_ = to.AddReflected(member.name, v)
		}
	}
	return nil
}

// MarshalLogArray implements [zapcore.ArrayMarshaler].
func (e elements) MarshalLogArray(to zapcore.ArrayEncoder) error {
	for _, value := range e {
		switch v := value.(type) {
		case members:
			_ = to.AppendObject(v)
		case elements:
			_ = to.AppendArray(v)
		case string:
			to.AppendString(v)
		case bool:
			to.AppendBool(v)
		default:
			_ = to.AppendReflected(v)
		}
	}
	return nil
}

// addNumber adds a number under the name of one: token counts are none of tokens.
func addNumber(to zapcore.ObjectEncoder, name string, n json.Number) {
	if i, err := n.Int64(); err == nil && !strings.ContainsAny(n.String(), ".eE") {
		to.AddInt64(name, i)
		return
	}
	if f, err := n.Float64(); err == nil {
		to.AddFloat64(name, f)
		return
	}
	_ = to.AddReflected(name, n)
}
