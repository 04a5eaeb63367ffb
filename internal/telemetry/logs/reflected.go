package logs

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/redact"
)

const (
	maxParts     = 10_000     // of a value that is written by reflection, at all depths
	maxReflected = 128 << 10  // bytes of its JSON
	maxStrings   = 1024 << 10 // bytes of its texts, before it is written
	maxSteps     = 64         // pointers, interfaces and levels on the way to one part
)

// AddReflected writes a value as encoding/json does. JSON without secrets is written unchanged; else every member and element is redacted.
func (o *object) AddReflected(key string, value any) error {
	if value == nil || o.secrecy(key) != redact.Public {
		name, ok := o.admit(key)
		if !ok {
			return nil
		}
		return o.to.AddReflected(name, nil)
	}
	c := partCounter{r: o.r, parts: maxParts, text: maxStrings}
	switch c.visit(reflect.ValueOf(value), 0); {
	case c.foundSecret:
		o.AddString(key, redact.Placeholder)
		return nil
	case c.isFull():
		o.AddString(key, "[cut: too large, or leads back to itself]")
		return nil
	}
	text, err := marshalJSON(value)
	switch {
	case err != nil:
		return err
	case len(text) > maxReflected:
		o.AddString(key, fmt.Sprintf("[cut: %d bytes]", len(text)))
		return nil
	case len(text) > redact.MaxText || len(text) > o.left.bytes || bytes.IndexByte(text, '\\') >= 0 || o.r.Contains(string(text)):
		return addJSON(o, key, text)
	}
	name, ok := o.admit(key)
	if !ok {
		return nil
	}
	o.left.bytes -= len(text)
	return o.to.AddReflected(name, json.RawMessage(text))
}

// marshalJSON returns the JSON of a value whose methods may panic.
func marshalJSON(value any) (text []byte, err error) {
	defer recoverError(&err)
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// partCounter counts the parts of a value before it is written, and finds bytes that spell a secret: JSON would hide them in base64 or
// numbers.
type partCounter struct {
	r           *redaction
	parts, text int // that are left
	foundSecret bool
}

func (c *partCounter) isFull() bool { return c.parts < 0 || c.text < 0 }

func (c *partCounter) visit(v reflect.Value, steps int) {
	if c.parts--; c.isFull() || c.foundSecret || !v.IsValid() {
		return
	}
	if steps == maxSteps {
		c.parts = -1
		return
	}
	if v.CanInterface() { // the JSON of a value that encodes itself is checked afterwards
		switch v.Interface().(type) {
		case json.Marshaler, encoding.TextMarshaler:
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		c.visit(v.Elem(), steps+1)
	case reflect.String:
		c.text -= v.Len()
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() || f.Anonymous {
				c.visit(v.Field(i), steps+1)
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); !c.isFull() && entries.Next(); {
			c.visit(entries.Key(), steps+1)
			c.visit(entries.Value(), steps+1)
		}
	case reflect.Slice, reflect.Array:
		isBytes := v.Type().Elem().Kind() == reflect.Uint8
		if isBytes {
			c.text -= v.Len()
		}
		if c.foundSecret = c.r.spellsSecret(v); c.foundSecret || isBytes {
			return
		}
		for i := 0; i < v.Len() && !c.isFull(); i++ {
			c.visit(v.Index(i), steps+1)
		}
	default:
	}
}

// addJSON adds a JSON value as what it is: an object, an array, a text, a number, a boolean or null.
func addJSON(to zapcore.ObjectEncoder, name string, value jsontext.Value) error {
	switch value.Kind() {
	case '{':
		return to.AddObject(name, jsonObject(value))
	case '[':
		return to.AddArray(name, jsonArray(value))
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil && text == nil {
			return err
		}
		to.AddString(name, string(text))
	case 't', 'f':
		to.AddBool(name, value.Kind() == 't')
	case '0':
		return addJSONNumber(to, name, json.Number(value))
	default:
		return to.AddReflected(name, nil)
	}
	return nil
}

func addJSONNumber(to zapcore.ObjectEncoder, name string, n json.Number) error {
	if i, err := n.Int64(); err == nil && !strings.ContainsAny(n.String(), ".eE") {
		to.AddInt64(name, i)
		return nil
	}
	if f, err := n.Float64(); err == nil {
		to.AddFloat64(name, f)
		return nil
	}
	return to.AddReflected(name, n)
}

// jsonObject adds the members of a JSON object.
type jsonObject jsontext.Value

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (v jsonObject) MarshalLogObject(to zapcore.ObjectEncoder) error {
	return eachJSONMember(jsontext.Value(v), func(name string, value jsontext.Value) error { return addJSON(to, name, value) })
}

// jsonArray appends the elements of a JSON array.
type jsonArray jsontext.Value

// MarshalLogArray implements [zapcore.ArrayMarshaler].
func (v jsonArray) MarshalLogArray(to zapcore.ArrayEncoder) error {
	elements := elementEncoder{array: to}
	return eachJSONMember(jsontext.Value(v), func(_ string, value jsontext.Value) error { return addJSON(elements, "", value) })
}

// eachJSONMember calls do for each member of an object, or each element of an array without a name.
func eachJSONMember(v jsontext.Value, do func(name string, value jsontext.Value) error) error {
	d := jsontext.NewDecoder(bytes.NewReader(v), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		name := ""
		if v.Kind() == '{' {
			token, err := d.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
		}
		value, err := d.ReadValue()
		if err != nil {
			return err
		}
		if err := do(name, value.Clone()); err != nil {
			return err
		}
	}
	return nil
}
