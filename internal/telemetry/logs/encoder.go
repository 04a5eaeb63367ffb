package logs

import (
	"fmt"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/redact"
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

// budget is what an entry may still write.
type budget struct {
	fields, values, bytes int
	cut                   int  // fields that were left out
	isBrief               bool // errors are written without their stack traces
}

func newBudget() budget { return budget{fields: maxFields, values: maxValues, bytes: maxEntry} }

// redactText redacts a text and takes its length off the budget.
func (b *budget) redactText(r *redaction, s string) string {
	if b.bytes > 0 {
		s = r.Text(s)
	}
	if b.bytes -= len(s); b.bytes < 0 {
		b.bytes = 0
		return fmt.Sprintf("[cut: %d bytes]", len(s))
	}
	return s
}

// redaction is a redactor with the buffers of its encoders.
type redaction struct {
	*redact.Redactor

	entries sync.Pool // of *entryFields
}

func newRedaction(r *redact.Redactor) *redaction {
	return &redaction{Redactor: r, entries: sync.Pool{New: func() any { return &entryFields{} }}}
}

// encoder redacts whatever it is given on its way to the inner encoder.
type encoder struct {
	*object

	inner zapcore.Encoder
	left  budget
}

func newEncoder(inner zapcore.Encoder, r *redaction, left budget, isSecret bool) *encoder {
	e := &encoder{inner: inner, left: left}
	e.object = &object{r: r, to: inner, left: &e.left, isSecret: isSecret, isEntry: true}
	return e
}

// Clone implements [zapcore.Encoder].
func (e *encoder) Clone() zapcore.Encoder {
	return newEncoder(e.inner.Clone(), e.r, e.left, e.isSecret)
}

// EncodeEntry implements [zapcore.Encoder]. It passes all fields to the inner encoder as one inline field, so that they are redacted
// whatever encoder that makes for the entry.
func (e *encoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (out *buffer.Buffer, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("encode entry: panic: %s", e.r.Text(fmt.Sprint(p)))
		}
	}()
	for _, text := range []*string{&entry.Message, &entry.LoggerName, &entry.Stack, &entry.Caller.File, &entry.Caller.Function} {
		*text = e.r.Text(*text)
	}
	if e.left.isBrief {
		entry.Stack = ""
	}
	if len(fields) == 0 && e.left.cut == 0 {
		return e.inner.EncodeEntry(entry, nil)
	}
	f, _ := e.r.entries.Get().(*entryFields)
	defer func() {
		*f = entryFields{}
		e.r.entries.Put(f)
	}()
	f.left, f.fields = e.left, fields
	f.object = object{r: e.r, left: &f.left, isSecret: e.isSecret, isEntry: true}
	f.inline[0] = zap.Inline(f)
	return e.inner.EncodeEntry(entry, f.inline[:])
}

// entryFields is the fields of one entry as one inline field.
type entryFields struct {
	object object
	left   budget
	fields []zapcore.Field
	inline [1]zapcore.Field
}

// MarshalLogObject implements [zapcore.ObjectMarshaler].
func (f *entryFields) MarshalLogObject(to zapcore.ObjectEncoder) error {
	f.object.to = to
	for i := range f.fields {
		addField(&f.object, &f.fields[i])
	}
	if f.left.cut > 0 {
		to.AddInt("fields_cut", f.left.cut)
	}
	return nil
}

// addField adds a field, or a note about its panic.
func addField(to zapcore.ObjectEncoder, f *zapcore.Field) {
	defer func() {
		if p := recover(); p != nil {
			to.AddString(f.Key+"Error", fmt.Sprintf("PANIC=%v", p))
		}
	}()
	f.AddTo(to)
}

// recoveringCore is a core whose With survives fields that panic.
type recoveringCore struct{ zapcore.Core }

// With implements [zapcore.Core].
func (c recoveringCore) With(fields []zapcore.Field) zapcore.Core {
	add := func(to zapcore.ObjectEncoder) error {
		for i := range fields {
			addField(to, &fields[i])
		}
		return nil
	}
	return recoveringCore{c.Core.With([]zapcore.Field{zap.Inline(zapcore.ObjectMarshalerFunc(add))})}
}
