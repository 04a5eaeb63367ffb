package logs

import (
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"
	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"

	"github.com/turnstone-run/turnstone/internal/redact"
)

// encoder encodes entries without secrets. The embedded encoder writes the fields of the logger and of the entry as JSON. The names and values of this
// JSON are redacted and then written by the encoder of the line.
type encoder struct {
	zapcore.Encoder

	line zapcore.Encoder
	settings
}

// settings apply to all entries of a log.
type settings struct {
	redactor  *redact.Redactor
	isConsole bool // write spaces between members and elements
	isBrief   bool // leave out the stack traces of errors
}

// Clone implements [zapcore.Encoder].
func (e *encoder) Clone() zapcore.Encoder {
	clone := *e
	clone.Encoder = e.Encoder.Clone()
	return &clone
}

// EncodeEntry implements [zapcore.Encoder].
func (e *encoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (out *buffer.Buffer, err error) {
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("encode entry: panic: %s", e.redactor.Text(fmt.Sprint(p)))
		}
	}()
	for _, text := range []*string{&entry.Message, &entry.LoggerName, &entry.Stack, &entry.Caller.File, &entry.Caller.Function} {
		*text = e.redactor.Text(*text)
	}
	if e.isBrief {
		entry.Stack = ""
	}
	raw, err := e.Encoder.EncodeEntry(zapcore.Entry{}, []zapcore.Field{inline(fields)})
	if err != nil {
		return nil, err
	}
	defer raw.Free()
	if raw.Len() == len("{}") {
		return e.line.EncodeEntry(entry, nil)
	}
	r := redaction{settings: e.settings, values: maxValues, bytes: maxEntry}
	return e.line.EncodeEntry(entry, []zapcore.Field{zap.Inline(zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
		return r.addFields(to, raw.Bytes())
	}))})
}

// inline returns one field that adds all fields, bounded.
func inline(fields []zapcore.Field) zapcore.Field {
	return zap.Inline(zapcore.ObjectMarshalerFunc(func(to zapcore.ObjectEncoder) error {
		for i := range fields {
			addField(boundedObject{ObjectEncoder: to}, &fields[i])
		}
		return nil
	}))
}

// addField adds a field. If the field panics, it adds the panic instead.
func addField(to zapcore.ObjectEncoder, f *zapcore.Field) {
	defer func() {
		if p := recover(); p != nil {
			to.AddString(f.Key+"Error", fmt.Sprintf("PANIC=%v", p))
		}
	}()
	f.AddTo(to)
}

// recoveringCore is a core whose With recovers panics of fields.
type recoveringCore struct{ zapcore.Core }

// With implements [zapcore.Core].
func (c recoveringCore) With(fields []zapcore.Field) zapcore.Core {
	return recoveringCore{c.Core.With([]zapcore.Field{inline(fields)})}
}

// rawEncoder writes JSON values unchanged.
type rawEncoder struct{ io.Writer }

// Encode implements [zapcore.ReflectedEncoder].
func (w rawEncoder) Encode(value any) error {
	text, _ := value.(jsontext.Value)
	_, err := w.Write(text)
	return err
}
