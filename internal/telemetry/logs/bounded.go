package logs

import (
	"fmt"
	"strconv"
	"strings"

	"go.uber.org/zap/zapcore"
)

// Bounds of one entry, including the fields of its logger.
const (
	maxFields = 100
	maxValues = 1_000     // members and elements below the fields
	maxEntry  = 256 << 10 // bytes of text
	maxDepth  = 16

	noteTooMany = "[cut: more values than 1000]"
	noteTooDeep = "[cut: nested deeper than 16]"
)

// nesting bounds the objects and arrays of one field, so that a value which leads back to itself ends.
type nesting struct {
	depth int
	left  *int // objects and arrays that may follow; nil before the first
}

// enter returns the nesting within an object or array, or a note that stands in its place.
func (n nesting) enter() (inner nesting, note string) {
	if n.left == nil {
		left := maxValues
		n.left = &left
	}
	switch *n.left--; {
	case n.depth == maxDepth:
		return n, noteTooDeep
	case *n.left < 0:
		return n, noteTooMany
	}
	return nesting{n.depth + 1, n.left}, ""
}

func (n nesting) object(v zapcore.ObjectMarshaler) zapcore.ObjectMarshaler {
	return zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) (err error) {
		defer recoverError(&err)
		return v.MarshalLogObject(boundedObject{to, n})
	})
}

func (n nesting) array(v zapcore.ArrayMarshaler) zapcore.ArrayMarshaler {
	return zapcore.ArrayMarshalerFunc(func(to zapcore.ArrayEncoder) (err error) {
		defer recoverError(&err)
		return v.MarshalLogArray(boundedArray{to, n})
	})
}

// boundedObject is an encoder of an object whose values are bounded and may panic.
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

// complexText returns a complex number with a space before the i, so that personal data of digits is found in it.
func complexText(value complex128) string {
	return strings.Replace(strconv.FormatComplex(value, 'f', -1, 128), "i", " i", 1)
}

// boundedArray is boundedObject for the elements of an array.
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

func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("PANIC=%v", p)
	}
}
