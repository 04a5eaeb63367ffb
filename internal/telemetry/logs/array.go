package logs

import (
	"fmt"
	"reflect"
	"strconv"
	"time"

	"go.uber.org/zap/zapcore"
)

// nest is a nested value on its way: an object or an array. One that panics says so and is closed properly.
type nest struct {
	members  zapcore.ObjectMarshaler
	elements zapcore.ArrayMarshaler
	object   object
	array    array
}

func (r *Redactor) nest(left *budget, depth int) *nest {
	n, _ := r.nests.Get().(*nest)
	n.object = object{r: r, left: left, depth: depth}
	n.array = array{r: r, left: left, depth: depth}
	return n
}

func (n *nest) free() {
	r := n.object.r
	*n = nest{}
	r.nests.Put(n)
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (n *nest) MarshalLogObject(to zapcore.ObjectEncoder) (err error) {
	defer recovered(&err)
	n.object.to = to
	return n.members.MarshalLogObject(&n.object)
}

// MarshalLogArray implements [zapcore.ArrayMarshaler].
func (n *nest) MarshalLogArray(to zapcore.ArrayEncoder) (err error) {
	defer recovered(&err)
	n.array.to = to
	return n.elements.MarshalLogArray(&n.array)
}

func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("PANIC=%v", p)
	}
}

// array is an [zapcore.ArrayEncoder] that hands on what is left of values.
type array struct {
	r     *Redactor
	to    zapcore.ArrayEncoder
	left  *budget
	depth int
}

// admit counts an element. Of those that are too many nothing is written, but for the first.
func (a *array) admit() bool {
	a.left.values--
	if a.left.values == -1 {
		a.to.AppendString(tooMany)
	}
	return a.left.values >= 0
}

func (a *array) AppendString(value string) {
	if a.admit() {
		a.to.AppendString(a.left.text(a.r, value))
	}
}

func (a *array) AppendByteString(value []byte) { a.AppendString(string(value)) }

func (a *array) AppendArray(value zapcore.ArrayMarshaler) error {
	switch {
	case !a.admit():
		return nil
	case a.depth == maxDepth || value == nil:
		return a.to.AppendReflected(beyond(value == nil))
	case a.r.spells(value):
		a.to.AppendString(redacted)
		return nil
	}
	n := a.r.nest(a.left, a.depth+1)
	defer n.free()
	n.elements = value
	return a.to.AppendArray(n)
}

func (a *array) AppendObject(value zapcore.ObjectMarshaler) error {
	switch {
	case !a.admit():
		return nil
	case a.depth == maxDepth || value == nil:
		return a.to.AppendReflected(beyond(value == nil))
	}
	n := a.r.nest(a.left, a.depth+1)
	defer n.free()
	n.members = value
	return a.to.AppendObject(n)
}

func (a *array) AppendReflected(value any) error {
	if !a.admit() {
		return nil
	}
	v, err := a.r.reflected(value, a.left)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case members:
		n := a.r.nest(a.left, a.depth+1)
		defer n.free()
		n.members = v
		return a.to.AppendObject(n)
	case elements:
		n := a.r.nest(a.left, a.depth+1)
		defer n.free()
		n.elements = v
		return a.to.AppendArray(n)
	case string:
		a.to.AppendString(a.left.text(a.r, v))
		return nil
	default:
		return a.to.AppendReflected(v)
	}
}

func (a *array) AppendBool(value bool) {
	if a.admit() {
		a.to.AppendBool(value)
	}
}

func (a *array) AppendTime(value time.Time) {
	if a.admit() {
		a.to.AppendTime(value)
	}
}

func (a *array) AppendDuration(value time.Duration) {
	if a.admit() {
		a.to.AppendDuration(value)
	}
}

func (a *array) AppendInt64(value int64) {
	switch {
	case !a.admit():
	case a.r.number(float64(value)) && a.r.holds(strconv.FormatInt(value, 10)):
		a.to.AppendString(redacted)
	default:
		a.to.AppendInt64(value)
	}
}

func (a *array) AppendUint64(value uint64) {
	switch {
	case !a.admit():
	case a.r.number(float64(value)) && a.r.holds(strconv.FormatUint(value, 10)):
		a.to.AppendString(redacted)
	default:
		a.to.AppendUint64(value)
	}
}

func (a *array) appendFloat(value float64, bits int) {
	switch {
	case !a.admit():
	case a.r.number(value) && a.r.holds(strconv.FormatFloat(value, 'f', -1, bits)):
		a.to.AppendString(redacted)
	case bits == 32:
		a.to.AppendFloat32(float32(value))
	default:
		a.to.AppendFloat64(value)
	}
}

func (a *array) appendComplex(value complex128, bits int) {
	switch {
	case !a.admit():
	case a.r.complex(value, bits):
		a.to.AppendString(redacted)
	case bits == 32:
		a.to.AppendComplex64(complex64(value))
	default:
		a.to.AppendComplex128(value)
	}
}

func (a *array) AppendComplex128(value complex128) { a.appendComplex(value, 64) }
func (a *array) AppendComplex64(value complex64)   { a.appendComplex(complex128(value), 32) }
func (a *array) AppendFloat64(value float64)       { a.appendFloat(value, 64) }
func (a *array) AppendFloat32(value float32)       { a.appendFloat(float64(value), 32) }
func (a *array) AppendInt(value int)               { a.AppendInt64(int64(value)) }
func (a *array) AppendInt32(value int32)           { a.AppendInt64(int64(value)) }
func (a *array) AppendInt16(value int16)           { a.AppendInt64(int64(value)) }
func (a *array) AppendInt8(value int8)             { a.AppendInt64(int64(value)) }
func (a *array) AppendUint(value uint)             { a.AppendUint64(uint64(value)) }
func (a *array) AppendUint32(value uint32)         { a.AppendUint64(uint64(value)) }
func (a *array) AppendUint16(value uint16)         { a.AppendUint64(uint64(value)) }
func (a *array) AppendUint8(value uint8)           { a.AppendUint64(uint64(value)) }
func (a *array) AppendUintptr(value uintptr)       { a.AppendUint64(uint64(value)) }

// spells reports whether a list of numbers is a secret, character by character.
func (r *Redactor) spells(list any) bool {
	v := reflect.ValueOf(list)
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Array) && r.spelled(v)
}

func (r *Redactor) spelled(v reflect.Value) bool {
	n := min(v.Len(), maxText)
	if n < shortestSecret {
		return false
	}
	text := make([]rune, 0, n)
	var bytes []byte
	switch v.Type().Elem().Kind() {
	case reflect.Uint8:
		for i := range n {
			bytes = append(bytes, byte(v.Index(i).Uint())) //nolint:gosec // it is one
		}
		return r.holds(string(bytes))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		for i := range n {
			text = append(text, rune(v.Index(i).Int())) //nolint:gosec // what is no character is nothing's part
		}
	case reflect.Uint, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		for i := range n {
			text = append(text, rune(v.Index(i).Uint())) //nolint:gosec // likewise
		}
	default:
		return false
	}
	return r.holds(string(text))
}

var _ zapcore.ArrayEncoder = (*array)(nil)
