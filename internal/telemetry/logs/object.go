package logs

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap/zapcore"
)

// object is an [zapcore.ObjectEncoder] that hands on what is left of names and values.
type object struct {
	r       *Redactor
	to      zapcore.ObjectEncoder
	left    *budget
	depth   int
	private bool // within a namespace that is a secret's
	top     bool // its fields are the entry's
}

// admit judges the name of a value. Where it may not be added, or not as it is, whatever has to be said is said.
func (o *object) admit(key string) (name string, ok bool) {
	name, n, ok := o.enter(key)
	if ok && n != public {
		o.to.AddString(name, redacted)
		return name, false
	}
	return name, ok
}

// admitNumber lets numbers through that count secrets.
func (o *object) admitNumber(key string) (name string, ok bool) {
	name, n, ok := o.enter(key)
	if ok && n == private {
		o.to.AddString(name, redacted)
		return name, false
	}
	return name, ok
}

func (o *object) enter(key string) (name string, n naming, ok bool) {
	if o.top {
		if o.left.fields--; o.left.fields < 0 {
			o.left.cut++
			return "", public, false
		}
	} else if o.left.values--; o.left.values < 0 {
		if o.left.values == -1 {
			o.to.AddString("cut", tooMany)
		}
		return "", public, false
	}
	if n = nameOf(key); o.private {
		n = private
	}
	return o.r.Text(key), n, true
}

// text is what is written of a text.
func (o *object) text(s string) string { return o.left.text(o.r, s) }

func (b *budget) text(r *Redactor, s string) string {
	if b.bytes > 0 {
		s = r.Text(s)
	}
	return b.take(s)
}

func (b *budget) take(s string) string {
	if b.bytes -= len(s); b.bytes < 0 {
		b.bytes = 0
		return "[cut: " + strconv.Itoa(len(s)) + " bytes]"
	}
	return s
}

func (o *object) AddString(key, value string) {
	if o.left.brief && strings.HasSuffix(key, "Verbose") { // how zap calls what an error says of itself in many lines
		return
	}
	if name, ok := o.admit(key); ok {
		o.to.AddString(name, o.text(value))
	}
}

func (o *object) AddByteString(key string, value []byte) {
	if name, ok := o.admit(key); ok {
		o.to.AddString(name, o.text(string(value)))
	}
}

func (o *object) AddBinary(key string, value []byte) {
	name, ok := o.admit(key)
	switch {
	case !ok:
	case len(value) > maxText*3/4:
		o.to.AddString(name, fmt.Sprintf("[cut: %d bytes]", len(value)))
	case o.r.holds(string(value)):
		o.to.AddString(name, redacted)
	default:
		o.left.take(string(value))
		o.to.AddBinary(name, value)
	}
}

func (o *object) AddArray(key string, value zapcore.ArrayMarshaler) error {
	name, ok := o.admit(key)
	switch {
	case !ok:
		return nil
	case o.depth == maxDepth || value == nil:
		return o.to.AddReflected(name, beyond(value == nil))
	case o.r.spells(value):
		o.to.AddString(name, redacted)
		return nil
	}
	n := o.r.nest(o.left, o.depth+1)
	defer n.free()
	n.elements = value
	return o.to.AddArray(name, n)
}

func (o *object) AddObject(key string, value zapcore.ObjectMarshaler) error {
	name, ok := o.admit(key)
	switch {
	case !ok:
		return nil
	case o.depth == maxDepth || value == nil:
		return o.to.AddReflected(name, beyond(value == nil))
	}
	n := o.r.nest(o.left, o.depth+1)
	defer n.free()
	n.members = value
	return o.to.AddObject(name, n)
}

const tooMany = "[cut: more values than 1000]" // maxValues

// beyond is what is written for nothing, or for what is nested too deep.
func beyond(nothing bool) any {
	if nothing {
		return nil
	}
	return "[cut: nested deeper than 16]" // maxDepth
}

func (o *object) AddReflected(key string, value any) error {
	name, ok := o.admit(key)
	if !ok {
		return nil
	}
	v, err := o.r.reflected(value, o.left)
	if err != nil {
		return err
	}
	switch v := v.(type) {
	case members:
		n := o.r.nest(o.left, o.depth+1)
		defer n.free()
		n.members = v
		return o.to.AddObject(name, n)
	case elements:
		n := o.r.nest(o.left, o.depth+1)
		defer n.free()
		n.elements = v
		return o.to.AddArray(name, n)
	case string:
		o.to.AddString(name, o.text(v))
		return nil
	default:
		return o.to.AddReflected(name, v)
	}
}

func (o *object) OpenNamespace(key string) {
	if o.left.fields--; o.left.fields < 0 {
		o.left.cut++
		return
	}
	o.private = o.private || nameOf(key) != public
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

func (o *object) AddInt64(key string, value int64) {
	name, ok := o.admitNumber(key)
	switch {
	case !ok:
	case o.r.number(float64(value)) && o.r.holds(strconv.FormatInt(value, 10)):
		o.to.AddString(name, redacted)
	default:
		o.to.AddInt64(name, value)
	}
}

func (o *object) AddUint64(key string, value uint64) {
	name, ok := o.admitNumber(key)
	switch {
	case !ok:
	case o.r.number(float64(value)) && o.r.holds(strconv.FormatUint(value, 10)):
		o.to.AddString(name, redacted)
	default:
		o.to.AddUint64(name, value)
	}
}

func (o *object) addFloat(key string, value float64, bits int) {
	name, ok := o.admitNumber(key)
	switch {
	case !ok:
	case o.r.number(value) && o.r.holds(strconv.FormatFloat(value, 'f', -1, bits)):
		o.to.AddString(name, redacted)
	case bits == 32:
		o.to.AddFloat32(name, float32(value))
	default:
		o.to.AddFloat64(name, value)
	}
}

func (o *object) addComplex(key string, value complex128, bits int) {
	name, ok := o.admitNumber(key)
	switch {
	case !ok:
	case o.r.complex(value, bits):
		o.to.AddString(name, redacted)
	case bits == 32:
		o.to.AddComplex64(name, complex64(value))
	default:
		o.to.AddComplex128(name, value)
	}
}

func (o *object) AddComplex128(key string, value complex128) { o.addComplex(key, value, 64) }
func (o *object) AddComplex64(key string, value complex64)   { o.addComplex(key, complex128(value), 32) }
func (o *object) AddFloat64(key string, value float64)       { o.addFloat(key, value, 64) }
func (o *object) AddFloat32(key string, value float32)       { o.addFloat(key, float64(value), 32) }
func (o *object) AddInt(key string, value int)               { o.AddInt64(key, int64(value)) }
func (o *object) AddInt32(key string, value int32)           { o.AddInt64(key, int64(value)) }
func (o *object) AddInt16(key string, value int16)           { o.AddInt64(key, int64(value)) }
func (o *object) AddInt8(key string, value int8)             { o.AddInt64(key, int64(value)) }
func (o *object) AddUint(key string, value uint)             { o.AddUint64(key, uint64(value)) }
func (o *object) AddUint32(key string, value uint32)         { o.AddUint64(key, uint64(value)) }
func (o *object) AddUint16(key string, value uint16)         { o.AddUint64(key, uint64(value)) }
func (o *object) AddUint8(key string, value uint8)           { o.AddUint64(key, uint64(value)) }
func (o *object) AddUintptr(key string, value uintptr)       { o.AddUint64(key, uint64(value)) }

// holds reports whether there is anything in a text to take out.
func (r *Redactor) holds(text string) bool { return r.redact(text) != text }

// number reports whether a number has enough digits to be more than a number: those of a card, or of a known secret.
func (r *Redactor) number(value float64) bool {
	if value < 0 {
		value = -value
	}
	return value >= 1e11 && len(r.personal) > 0 || value >= 1e5 && r.known.Load().numbers
}

func (r *Redactor) complex(value complex128, bits int) bool {
	for _, part := range []float64{real(value), imag(value)} {
		if r.number(part) && r.holds(strconv.FormatFloat(part, 'f', -1, bits)) {
			return true
		}
	}
	return false
}

var _ zapcore.ObjectEncoder = (*object)(nil)
