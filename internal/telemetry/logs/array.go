package logs

import (
	"reflect"
	"time"
	"unicode/utf8"

	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/redact"
)

// array is a [zapcore.ArrayEncoder] that redacts elements as an object redacts members. Its elements have no names.
type array struct{ object }

func (a *array) AppendString(value string)                        { a.AddString("", value) }
func (a *array) AppendByteString(value []byte)                    { a.AddByteString("", value) }
func (a *array) AppendArray(value zapcore.ArrayMarshaler) error   { return a.AddArray("", value) }
func (a *array) AppendObject(value zapcore.ObjectMarshaler) error { return a.AddObject("", value) }
func (a *array) AppendReflected(value any) error                  { return a.AddReflected("", value) }
func (a *array) AppendBool(value bool)                            { a.AddBool("", value) }
func (a *array) AppendTime(value time.Time)                       { a.AddTime("", value) }
func (a *array) AppendDuration(value time.Duration)               { a.AddDuration("", value) }
func (a *array) AppendComplex128(value complex128)                { a.AddComplex128("", value) }
func (a *array) AppendComplex64(value complex64)                  { a.AddComplex64("", value) }
func (a *array) AppendFloat64(value float64)                      { a.AddFloat64("", value) }
func (a *array) AppendFloat32(value float32)                      { a.AddFloat32("", value) }
func (a *array) AppendInt64(value int64)                          { a.AddInt64("", value) }
func (a *array) AppendInt(value int)                              { a.AddInt64("", int64(value)) }
func (a *array) AppendInt32(value int32)                          { a.AddInt64("", int64(value)) }
func (a *array) AppendInt16(value int16)                          { a.AddInt64("", int64(value)) }
func (a *array) AppendInt8(value int8)                            { a.AddInt64("", int64(value)) }
func (a *array) AppendUint64(value uint64)                        { a.AddUint64("", value) }
func (a *array) AppendUint(value uint)                            { a.AddUint64("", uint64(value)) }
func (a *array) AppendUint32(value uint32)                        { a.AddUint64("", uint64(value)) }
func (a *array) AppendUint16(value uint16)                        { a.AddUint64("", uint64(value)) }
func (a *array) AppendUint8(value uint8)                          { a.AddUint64("", uint64(value)) }
func (a *array) AppendUintptr(value uintptr)                      { a.AddUint64("", uint64(value)) }

// elementEncoder writes members as the elements of an array, without their names. It has the methods that object calls.
type elementEncoder struct {
	zapcore.ObjectEncoder // nil

	array zapcore.ArrayEncoder
}

func (e elementEncoder) AddString(_, value string) { e.array.AppendString(value) }
func (e elementEncoder) AddArray(_ string, value zapcore.ArrayMarshaler) error {
	return e.array.AppendArray(value)
}

func (e elementEncoder) AddObject(_ string, value zapcore.ObjectMarshaler) error {
	return e.array.AppendObject(value)
}

func (e elementEncoder) AddReflected(_ string, value any) error {
	return e.array.AppendReflected(value)
}
func (e elementEncoder) AddBool(_ string, value bool)              { e.array.AppendBool(value) }
func (e elementEncoder) AddTime(_ string, value time.Time)         { e.array.AppendTime(value) }
func (e elementEncoder) AddDuration(_ string, value time.Duration) { e.array.AppendDuration(value) }
func (e elementEncoder) AddComplex128(_ string, value complex128)  { e.array.AppendComplex128(value) }

func (e elementEncoder) AddComplex64(_ string, value complex64) { e.array.AppendComplex64(value) }
func (e elementEncoder) AddFloat64(_ string, value float64)     { e.array.AppendFloat64(value) }
func (e elementEncoder) AddFloat32(_ string, value float32)     { e.array.AppendFloat32(value) }
func (e elementEncoder) AddInt64(_ string, value int64)         { e.array.AppendInt64(value) }
func (e elementEncoder) AddUint64(_ string, value uint64)       { e.array.AppendUint64(value) }

// isSpelledSecret reports whether a list of numbers is a secret, one character each.
func (r *redaction) isSpelledSecret(list any) bool {
	v := reflect.ValueOf(list)
	return (v.Kind() == reflect.Slice || v.Kind() == reflect.Array) && r.spellsSecret(v)
}

func (r *redaction) spellsSecret(v reflect.Value) bool {
	n := min(v.Len(), redact.MaxText)
	kind := v.Type().Elem().Kind()
	if n < redact.ShortestSecret || kind < reflect.Int || kind > reflect.Uintptr {
		return false
	}
	text := make([]byte, 0, n)
	for i := range n {
		switch e := v.Index(i); {
		case kind == reflect.Uint8:
			text = append(text, byte(e.Uint())) //nolint:gosec // it is one
		case e.CanInt():
			text = utf8.AppendRune(text, rune(e.Int())) //nolint:gosec // a number that is no character is in no secret
		default:
			text = utf8.AppendRune(text, rune(e.Uint())) //nolint:gosec // likewise
		}
	}
	return r.Contains(string(text))
}

var (
	_ zapcore.ArrayEncoder  = (*array)(nil)
	_ zapcore.ObjectEncoder = elementEncoder{}
)
