package logs

import (
	"fmt"
	"strconv"
	"strings"

	"go.uber.org/zap/zapcore"
)

// Bounds of one entry with the fields of its logger.
const (
	maxFields = 100
	maxValues = 1_000     // members and elements within fields
	maxEntry  = 256 << 10 // bytes of text
	maxDepth  = 16

	noteTooMany = "[cut: more values than 1000]"
	noteTooDeep = "[cut: nested deeper than 16]"
)

// nesting bounds the objects and arrays within one field, so that a value that contains itself ends.
type nesting struct {
	depth     int
	remaining *int // objects and arrays that may follow in the field; nil before the first
}

// enter returns the nesting within an object or array, or a note that replaces the object or array.
func (n nesting) enter() (inner nesting, note string) {
	if n.remaining == nil {
		n.remaining = new(maxValues)
	}
	*n.remaining--
	switch {
	case n.depth == maxDepth:
		return n, noteTooDeep
	case *n.remaining < 0:
		return n, noteTooMany
	}
	return nesting{n.depth + 1, n.remaining}, ""
}

// object returns an object whose values are bounded.
func (n nesting) object(v zapcore.ObjectMarshaler) zapcore.ObjectMarshaler {
	return zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) (err error) {
		defer recoverError(&err)
		return v.MarshalLogObject(boundedObject{to, n})
	})
}

// array returns an array whose elements are bounded.
func (n nesting) array(v zapcore.ArrayMarshaler) zapcore.ArrayMarshaler {
	return zapcore.ArrayMarshalerFunc(func(to zapcore.ArrayEncoder) (err error) {
		defer recoverError(&err)
		return v.MarshalLogArray(boundedArray{to, n})
	})
}

// boundedObject encodes an object. It bounds the values, and a value that panics becomes an error.
type boundedObject struct {
	zapcore.ObjectEncoder
	nesting
}

// AddObject implements [zapcore.ObjectEncoder].
func (o boundedObject) AddObject(key string, value zapcore.ObjectMarshaler) error {
	inner, note := o.enter()
	if note != "" {
		o.AddString(key, note)
		return nil
	}
	return o.ObjectEncoder.AddObject(key, inner.object(value))
}

// AddArray implements [zapcore.ObjectEncoder].
func (o boundedObject) AddArray(key string, value zapcore.ArrayMarshaler) error {
	inner, note := o.enter()
	if note != "" {
		o.AddString(key, note)
		return nil
	}
	return o.ObjectEncoder.AddArray(key, inner.array(value))
}

// AddReflected implements [zapcore.ObjectEncoder].
func (o boundedObject) AddReflected(key string, value any) (err error) {
	defer recoverError(&err)
	return o.ObjectEncoder.AddReflected(key, value)
}

// AddComplex128 implements [zapcore.ObjectEncoder].
func (o boundedObject) AddComplex128(key string, value complex128) {
	o.AddString(key, complexText(value))
}

// AddComplex64 implements [zapcore.ObjectEncoder].
func (o boundedObject) AddComplex64(key string, value complex64) {
	o.AddString(key, complexText(complex128(value)))
}

// complexText returns a complex number with a space before the i, so that redaction finds personal data in its digits.
func complexText(value complex128) string {
	return strings.Replace(strconv.FormatComplex(value, 'f', -1, 128), "i", " i", 1)
}

// boundedArray encodes an array like boundedObject.
type boundedArray struct {
	zapcore.ArrayEncoder
	nesting
}

// AppendObject implements [zapcore.ArrayEncoder].
func (a boundedArray) AppendObject(value zapcore.ObjectMarshaler) error {
	inner, note := a.enter()
	if note != "" {
		a.AppendString(note)
		return nil
	}
	return a.ArrayEncoder.AppendObject(inner.object(value))
}

// AppendArray implements [zapcore.ArrayEncoder].
func (a boundedArray) AppendArray(value zapcore.ArrayMarshaler) error {
	inner, note := a.enter()
	if note != "" {
		a.AppendString(note)
		return nil
	}
	return a.ArrayEncoder.AppendArray(inner.array(value))
}

// AppendReflected implements [zapcore.ArrayEncoder].
func (a boundedArray) AppendReflected(value any) (err error) {
	defer recoverError(&err)
	return a.ArrayEncoder.AppendReflected(value)
}

// AppendComplex128 implements [zapcore.ArrayEncoder].
func (a boundedArray) AppendComplex128(value complex128) { a.AppendString(complexText(value)) }

// AppendComplex64 implements [zapcore.ArrayEncoder].
func (a boundedArray) AppendComplex64(value complex64) {
	a.AppendString(complexText(complex128(value)))
}

// recoverError makes an error of a panic.
func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("PANIC=%v", p)
	}
}
