package logs

import (
	"fmt"

	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
)

// Bounds of one entry, what its logger holds already included.
const (
	maxFields = 100
	maxValues = 1_000     // members and elements at all depths below them
	maxEntry  = 256 << 10 // bytes of text
	maxDepth  = 16
)

// budget is what an entry may still have.
type budget struct {
	fields, values, bytes int
	cut                   int  // fields that were left out
	brief                 bool // errors are told without where they were made
}

// encoder puts a redactor before another encoder.
type encoder struct {
	*object

	inner zapcore.Encoder
	left  budget
}

// NewEncoder wraps an encoder: what it is given has gone through the redactor.
func NewEncoder(inner zapcore.Encoder, r *Redactor) zapcore.Encoder {
	return newEncoder(inner, r, budget{fields: maxFields, values: maxValues, bytes: maxEntry}, false)
}

func newEncoder(inner zapcore.Encoder, r *Redactor, left budget, private bool) *encoder {
	e := &encoder{inner: inner, left: left}
	e.object = &object{r: r, to: inner, left: &e.left, private: private, top: true}
	return e
}

// Clone implements [zapcore.Encoder].
func (e *encoder) Clone() zapcore.Encoder {
	return newEncoder(e.inner.Clone(), e.r, e.left, e.private)
}

// EncodeEntry implements [zapcore.Encoder]. The fields are handed on as one that adds them by itself: so they go through the redactor
// into the encoder that the inner one makes for the entry, whichever it is.
func (e *encoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (out *buffer.Buffer, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("encode entry: panic: %s", e.r.Text(fmt.Sprint(p)))
		}
	}()
	entry.Message = e.r.Text(entry.Message)
	entry.LoggerName = e.r.Text(entry.LoggerName)
	if entry.Stack = e.r.Text(entry.Stack); e.left.brief {
		entry.Stack = ""
	}
	entry.Caller.File = e.r.Text(entry.Caller.File)
	entry.Caller.Function = e.r.Text(entry.Caller.Function)
	if len(fields) == 0 && e.left.cut == 0 {
		return e.inner.EncodeEntry(entry, nil)
	}
	l, _ := e.r.lines.Get().(*line)
	defer l.free(e.r)
	l.left = e.left
	l.fields = fields
	l.object = object{r: e.r, left: &l.left, private: e.private, top: true}
	l.one[0] = zap.Inline(l)
	return e.inner.EncodeEntry(entry, l.one[:])
}

// line is one entry on its way.
type line struct {
	object object
	left   budget
	fields []zapcore.Field
	one    [1]zapcore.Field
}

func (l *line) free(r *Redactor) {
	*l = line{}
	r.lines.Put(l)
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (l *line) MarshalLogObject(to zapcore.ObjectEncoder) error {
	l.object.to = to
	for i := range l.fields {
		addTo(&l.object, &l.fields[i])
	}
	if l.left.cut > 0 {
		to.AddInt("fields_cut", l.left.cut)
	}
	return nil
}

// addTo adds a field; one that panics says so instead.
func addTo(to zapcore.ObjectEncoder, f *zapcore.Field) {
	defer func() {
		if p := recover(); p != nil {
			to.AddString(f.Key+"Error", fmt.Sprintf("PANIC=%v", p))
		}
	}()
	f.AddTo(to)
}

// core is a core whose fields cannot end the process, neither those of an entry nor those that a logger is given for all of its entries.
type core struct{ zapcore.Core }

// With implements [zapcore.Core].
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.Core.With([]zapcore.Field{zap.Inline(held(fields))})}
}

// held are the fields of a logger.
type held []zapcore.Field

func (h held) MarshalLogObject(to zapcore.ObjectEncoder) error {
	for i := range h {
		addTo(to, &h[i])
	}
	return nil
}
