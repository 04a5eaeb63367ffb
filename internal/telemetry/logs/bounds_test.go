package logs_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// A long text is cut with a note. No part of a secret at the cut is left.
func TestLongTexts(t *testing.T) {
	t.Parallel()
	r := redactor(t, knownSecret)
	require.Equal(t, strings.Repeat("a", 16<<10), r.Text(strings.Repeat("a", 16<<10)))
	require.Equal(t, strings.Repeat("a", 16<<10)+"… [cut: 4 of 16388 bytes]", r.Text(strings.Repeat("a", 16<<10+4)))
	require.True(t, strings.HasSuffix(r.Text(strings.Repeat("é", 9_000)+"x"), "é… [cut: 1617 of 18001 bytes]"))
	require.NotContains(t, r.Text(strings.Repeat("aé", 9_000)), "\ufffd")
	for kind, p := range plantedSecrets() {
		for _, before := range []int{len(p[0]), len(p[0]) / 2, 8, 6, 1, 0, -1} {
			text := strings.Repeat("word ", 4_000)[:max(0, 16<<10-before-1)] + " " + p[0] + " " + strings.Repeat("word ", 20_000)
			out := r.Text(text)
			require.NotContains(t, out, p[1], kind)
			require.Less(t, len(out), 16<<10+100)
			require.Greater(t, len(out), 16<<10-len(p[0])-16)
			if cut := strings.LastIndex(out, "… [cut"); before == len(p[0])/2 && p[0] == p[1] && kind != "email in a URL" {
				require.NotEqual(t, p[0][:before], out[max(0, cut-before):cut], kind)
			}
		}
	}
	out := r.Text(strings.Repeat(". ", 8<<10)[:16<<10-len(knownSecret)+1] + knownSecret + "BEHIND")
	require.True(t, strings.HasSuffix(out, ". .… [cut: 7 of 16391 bytes]"), out[len(out)-60:])
	// Texts that contain many beginnings of secrets do not take much longer.
	start := time.Now()
	for _, text := range []string{"sk-", "eyJ-", "basic+", "bearer ", "a://b:c/", "password", "token: is ", "-----BEGIN ", "1:", "%3D", "tokens=1 ", `\`, "%25", "&#", "Kn0wn/", "a@"} {
		r.Text(strings.Repeat(text, 24<<10/len(text)))
	}
	require.Less(t, time.Since(start), 30*time.Second)
	// Only the beginning of a very long text is read.
	require.Less(t, len(r.Text(strings.Repeat("password=", 200_000))), 17<<10)
}

func TestBoundsOfAnEntry(t *testing.T) {
	t.Parallel()
	var fields []zap.Field
	for i := range 150 {
		fields = append(fields, zap.String(fmt.Sprintf("f%d", i), strings.Repeat("x", 20_000)))
	}
	m := logEntry(t, func(l *zap.Logger) { l.Info("m", fields...) })
	require.Len(t, m, 4+100+1)
	require.InDelta(t, 50, m["fields_cut"], 0)
	require.Regexp(t, `^\[cut: \d+ bytes\]$`, m["f99"])

	text := logText(t, "json", "info", func(l *zap.Logger) { l.With(fields[:90]...).With(zap.Int("one", 1)).Info("m", fields[90:]...) })
	require.Contains(t, text, `"fields_cut":51`)
	require.Less(t, len(text), 300<<10)
	m = logEntry(t, func(l *zap.Logger) { l.With(fields...).Info("m") })
	require.InDelta(t, 50, m["fields_cut"], 0)
	m = logEntry(t, func(l *zap.Logger) { l.With(fields[0]).With(fields[1]).Info("m", fields[2]) })
	require.NotContains(t, m, "fields_cut")

	m = logEntry(t, func(l *zap.Logger) { l.Info("m", zap.Ints("many", make([]int, 100_000)), zap.Int("next", 1)) })
	require.Len(t, m["many"], 1001)
	require.Equal(t, "[cut: more values than 1000]", m["many"].([]any)[1000])
	many := logEntry(t, func(l *zap.Logger) { l.Info("m", zap.Any("many", make([]*int, 100_000))) })["many"]
	require.Len(t, many, 1001)
	require.Equal(t, "[cut: more values than 1000]", many.([]any)[1000])
	m = logEntry(t, func(l *zap.Logger) {
		l.Info("m", zap.Any("long", map[string]string{"a": strings.Repeat("y", 20_000)}), zap.Binary("b", make([]byte, 100_000)))
	})
	require.Equal(t, map[string]any{"a": strings.Repeat("y", 16<<10) + "… [cut: 3616 of 20000 bytes]"}, m["long"])
	require.Equal(t, strings.Repeat("A", 16<<10)+"… [cut: 116952 of 133336 bytes]", m["b"])
	secretInside := append(append(make([]byte, 8<<10), email...), make([]byte, 100_000)...)
	require.Equal(t, "[redacted]", logEntry(t, func(l *zap.Logger) { l.Info("m", zap.Binary("b", secretInside)) })["b"])
	m = logEntry(t, func(l *zap.Logger) {
		l.Info("m", zap.Reflect("long", slices.Repeat([]string{strings.Repeat("y", 20_000)}, 100)))
	})
	require.Contains(t, m["long"].([]any)[14], "… [cut: 3616 of 20000 bytes]")
	require.Equal(t, "[cut: 20000 bytes]", m["long"].([]any)[99])
}

type cycle struct {
	Name string `json:"name"`
	Next *cycle `json:"next"`
}

func (c *cycle) MarshalLogObject(to zapcore.ObjectEncoder) error {
	return errors.Join(to.AddObject("a", c), to.AddObject("b", c), to.AddArray("c", c))
}

func (c *cycle) MarshalLogArray(to zapcore.ArrayEncoder) error {
	return errors.Join(to.AppendObject(c), to.AppendArray(c))
}

type cyclicError struct{}

func (r cyclicError) Error() string   { return "cyclic" }
func (r cyclicError) Errors() []error { return []error{r, r} }

// Values that contain themselves are written up to the bounds.
func TestCycles(t *testing.T) {
	t.Parallel()
	type plain struct {
		Next any `json:"next"`
	}
	p := &plain{}
	p.Next = p
	m := map[string]any{}
	m["m"] = m
	s := make([]any, 1)
	s[0] = s
	deep := `"x"`
	for range 40 {
		deep = `{"a":` + deep + `}`
	}
	for name, f := range map[string]zap.Field{
		"pointer": zap.Any("k", p), "map": zap.Any("k", m), "slice": zap.Reflect("k", s), "object": zap.Object("k", &cycle{}), "array": zap.Array("k", &cycle{}),
		"error": zap.Error(cyclicError{}), "errors": zap.Errors("k", []error{cyclicError{}}), "deep": zap.Any("k", json.RawMessage(`{"password":`+deep+`}`)),
		"deeper": zap.Any("k", json.RawMessage(strings.ReplaceAll(deep, "a", `\n`))),
	} {
		out := logEntry(t, func(l *zap.Logger) { l.Info("m", f, zap.Int("after", 1)) })
		require.Equal(t, "m", out["msg"], name)
		require.InDelta(t, 1, out["after"], 0, name)
	}
	require.Contains(t, logText(t, "json", "info", func(l *zap.Logger) { l.Info("m", zap.Object("k", &cycle{})) }), "[cut: nested deeper than 16]")
	require.Contains(t, logText(t, "json", "info", func(l *zap.Logger) { l.Info("m", zap.Array("k", &cycle{})) }), "[cut: nested deeper than 16]")
	require.Contains(t, logEntry(t, func(l *zap.Logger) { l.Info("m", zap.Any("k", p)) })["kError"], "encountered a cycle")
	require.Contains(t, logText(t, "json", "info", func(l *zap.Logger) { l.Info("m", zap.Any("k", json.RawMessage(deep))) }), "[cut: nested deeper than 16]")
}

type panicking struct{}

func (panicking) String() string                               { panic("boom " + email) }
func (panicking) Error() string                                { panic("boom " + email) }
func (panicking) MarshalLogObject(zapcore.ObjectEncoder) error { panic("boom " + email) }
func (panicking) MarshalLogArray(zapcore.ArrayEncoder) error   { panic("boom " + email) }

type panickingJSON struct{}

func (panickingJSON) MarshalJSON() ([]byte, error) { panic("boom " + email) }

type failingJSON struct{}

func (failingJSON) MarshalJSON() ([]byte, error) { return nil, errors.New("no JSON for " + email) }

// If a value panics, only its field is affected, also in the fields of a logger. The panic is redacted.
func TestPanics(t *testing.T) {
	t.Parallel()
	var nothing *pointerMarshaler
	for name, f := range map[string]zap.Field{
		"stringer": zap.Stringer("k", panicking{}), "error": zap.NamedError("k", panicking{}), "object": zap.Object("k", panicking{}), "array": zap.Array("k", panicking{}), "inline": zap.Inline(panicking{}),
		"any": zap.Any("k", panickingJSON{}), "within": zap.Any("k", []any{1, panickingJSON{}}), "fault": zap.Any("k", failingJSON{}), "stringers": zap.Stringers("k", []panicking{{}}),
		"errors": zap.Errors("k", []error{panicking{}}), "dict": zap.Dict("k", zap.Int("i", 1), zap.Object("k", panicking{})), "unknown": {Key: "k"}, "nil": zap.Object("k", nothing),
		"wrong": {Key: "k", Type: zapcore.StringerType}, "list": zap.Array("k", zapcore.ArrayMarshalerFunc(func(to zapcore.ArrayEncoder) error { return to.AppendObject(panicking{}) })),
		"nothing": zap.Any("k", func() {}),
	} {
		for how, log := range map[string]func(l *zap.Logger){
			"entry":  func(l *zap.Logger) { l.Info("m", zap.Int("before", 1), f, zap.Int("after", 1)) },
			"logger": func(l *zap.Logger) { l.With(zap.Int("before", 1), f, zap.Int("after", 1)).Info("m") },
			"lazy":   func(l *zap.Logger) { l.WithLazy(zap.Int("before", 1), f).Info("m", zap.Int("after", 1)) },
		} {
			m := logEntry(t, log)
			require.InDelta(t, 1, m["before"], 0, "%s, %s", name, how)
			require.InDelta(t, 1, m["after"], 0, "%s, %s", name, how)
			text, err := json.Marshal(m)
			require.NoError(t, err)
			require.NotContains(t, string(text), email, "%s, %s", name, how)
			require.Regexp(t, `PANIC=|no JSON for \[REDACTED_EMAIL\]|unsupported type|unknown field|nil`, string(text), "%s, %s", name, how)
		}
	}
}

// One redactor is used by several goroutines.
func TestConcurrentLogging(t *testing.T) {
	t.Parallel()
	r := redactor(t, knownSecret)
	text := logText(t, "json", "info", func(l *zap.Logger) {
		done := make(chan struct{})
		for range 8 {
			go func() {
				for range 50 {
					l.With(zap.Any("h", nestedSecret(knownSecret))).Info(knownSecret, zap.Any("k", repeated{email}))
					r.Text("a s3cret-of-one")
				}
				done <- struct{}{}
			}()
		}
		for range 8 {
			<-done
		}
	})
	require.Equal(t, 400, strings.Count(text, "\n"))
	requireNoSecret(t, text, knownSecret, "known")
	requireNoSecret(t, text, email, "email")
}
