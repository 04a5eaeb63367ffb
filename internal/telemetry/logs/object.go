package logs

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/redact"
)

// object is a [zapcore.ObjectEncoder] that redacts names and values and writes them to another one.
type object struct {
	r        *redaction
	to       zapcore.ObjectEncoder
	left     *budget
	depth    int
	isSecret bool // it is within a namespace with the name of a secret
	isEntry  bool // its members are the fields of the entry
}

// admit returns the redacted name of a value that may be written. Otherwise it writes what stands for the value.
func (o *object) admit(key string) (name string, ok bool) {
	return o.admitUnless(key, func(s redact.Secrecy) bool { return s != redact.Public })
}

// admitNumber is admit for values that may be the number of secrets.
func (o *object) admitNumber(key string) (name string, ok bool) {
	return o.admitUnless(key, func(s redact.Secrecy) bool { return s == redact.Secret })
}

func (o *object) admitUnless(key string, isHidden func(redact.Secrecy) bool) (name string, ok bool) {
	if o.isEntry {
		if o.left.fields--; o.left.fields < 0 {
			o.left.cut++
			return "", false
		}
	} else if o.left.values--; o.left.values < 0 {
		if o.left.values == -1 {
			o.to.AddString("cut", noteTooMany)
		}
		return "", false
	}
	name = o.r.Text(key)
	if isHidden(o.secrecy(key)) {
		o.to.AddString(name, redact.Placeholder)
		return "", false
	}
	return name, true
}

func (o *object) secrecy(key string) redact.Secrecy {
	if o.isSecret {
		return redact.Secret
	}
	return redact.NameSecrecy(key)
}

func (o *object) AddString(key, value string) {
	if o.left.isBrief && strings.HasSuffix(key, "Verbose") { // zap's name for the long form of an error
		return
	}
	if name, ok := o.admit(key); ok {
		o.to.AddString(name, o.left.redactText(o.r, value))
	}
}

func (o *object) AddByteString(key string, value []byte) {
	if name, ok := o.admit(key); ok {
		o.to.AddString(name, o.left.redactText(o.r, string(value)))
	}
}

func (o *object) AddBinary(key string, value []byte) {
	name, ok := o.admit(key)
	switch {
	case !ok:
	case len(value) > redact.MaxText*3/4:
		o.to.AddString(name, fmt.Sprintf("[cut: %d bytes]", len(value)))
	case o.r.Contains(string(value)):
		o.to.AddString(name, redact.Placeholder)
	default:
		o.left.bytes = max(0, o.left.bytes-len(value))
		o.to.AddBinary(name, value)
	}
}

func (o *object) AddArray(key string, value zapcore.ArrayMarshaler) error {
	name, ok := o.admit(key)
	switch {
	case !ok:
		return nil
	case value == nil:
		return o.to.AddReflected(name, nil)
	case o.depth == maxDepth:
		return o.to.AddReflected(name, noteTooDeep)
	case o.r.isSpelledSecret(value):
		o.to.AddString(name, redact.Placeholder)
		return nil
	}
	return o.to.AddArray(name, zapcore.ArrayMarshalerFunc(func(to zapcore.ArrayEncoder) (err error) {
		defer recoverError(&err)
		return value.MarshalLogArray(&array{object{r: o.r, to: elementEncoder{array: to}, left: o.left, depth: o.depth + 1}})
	}))
}

func (o *object) AddObject(key string, value zapcore.ObjectMarshaler) error {
	name, ok := o.admit(key)
	switch {
	case !ok:
		return nil
	case value == nil:
		return o.to.AddReflected(name, nil)
	case o.depth == maxDepth:
		return o.to.AddReflected(name, noteTooDeep)
	}
	return o.to.AddObject(name, zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) (err error) {
		defer recoverError(&err)
		return value.MarshalLogObject(&object{r: o.r, to: to, left: o.left, depth: o.depth + 1})
	}))
}

func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("PANIC=%v", p)
	}
}

func (o *object) OpenNamespace(key string) {
	if o.left.fields--; o.left.fields < 0 {
		o.left.cut++
		return
	}
	o.isSecret = o.secrecy(key) != redact.Public
	o.to.OpenNamespace(o.r.Text(key))
}

func (o *object) AddBool(key string, value bool) {
	if name, ok := o.admitNumber(key); ok {
		o.to.AddBool(name, value)
	}
}

func (o *object) AddTime(key string, value time.Time) {
	if name, ok := o.admitNumber(key); ok {
		o.to.AddTime(name, value)
	}
}

func (o *object) AddDuration(key string, value time.Duration) {
	if name, ok := o.admitNumber(key); ok {
		o.to.AddDuration(name, value)
	}
}

// addNumber calls write with the redacted name of a number, unless its digits are a secret.
func (o *object) addNumber(key string, value float64, digits func() string, write func(name string)) {
	name, ok := o.admitNumber(key)
	switch {
	case !ok:
	case o.r.IsSuspiciousNumber(value) && o.r.Contains(digits()):
		o.to.AddString(name, redact.Placeholder)
	default:
		write(name)
	}
}

func (o *object) AddInt64(key string, value int64) {
	o.addNumber(key, float64(value), func() string { return strconv.FormatInt(value, 10) }, func(name string) { o.to.AddInt64(name, value) })
}

func (o *object) AddUint64(key string, value uint64) {
	o.addNumber(key, float64(value), func() string { return strconv.FormatUint(value, 10) }, func(name string) { o.to.AddUint64(name, value) })
}

func (o *object) AddFloat64(key string, value float64) {
	o.addNumber(key, value, func() string { return formatFloat(value, 64) }, func(name string) { o.to.AddFloat64(name, value) })
}

func (o *object) AddFloat32(key string, value float32) {
	o.addNumber(key, float64(value), func() string { return formatFloat(float64(value), 32) }, func(name string) { o.to.AddFloat32(name, value) })
}

func (o *object) AddComplex128(key string, value complex128) {
	largest := max(math.Abs(real(value)), math.Abs(imag(value)))
	o.addNumber(key, largest, func() string { return formatComplex(value, 64) }, func(name string) { o.to.AddComplex128(name, value) })
}

func (o *object) AddComplex64(key string, value complex64) {
	c := complex128(value)
	largest := max(math.Abs(real(c)), math.Abs(imag(c)))
	o.addNumber(key, largest, func() string { return formatComplex(c, 32) }, func(name string) { o.to.AddComplex64(name, value) })
}

func formatFloat(value float64, bits int) string { return strconv.FormatFloat(value, 'f', -1, bits) }

func formatComplex(value complex128, bits int) string {
	return formatFloat(real(value), bits) + " / " + formatFloat(imag(value), bits)
}

func (o *object) AddInt(key string, value int)         { o.AddInt64(key, int64(value)) }
func (o *object) AddInt32(key string, value int32)     { o.AddInt64(key, int64(value)) }
func (o *object) AddInt16(key string, value int16)     { o.AddInt64(key, int64(value)) }
func (o *object) AddInt8(key string, value int8)       { o.AddInt64(key, int64(value)) }
func (o *object) AddUint(key string, value uint)       { o.AddUint64(key, uint64(value)) }
func (o *object) AddUint32(key string, value uint32)   { o.AddUint64(key, uint64(value)) }
func (o *object) AddUint16(key string, value uint16)   { o.AddUint64(key, uint64(value)) }
func (o *object) AddUint8(key string, value uint8)     { o.AddUint64(key, uint64(value)) }
func (o *object) AddUintptr(key string, value uintptr) { o.AddUint64(key, uint64(value)) }

var _ zapcore.ObjectEncoder = (*object)(nil)
