package logs_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type stringer string

func (s stringer) String() string { return string(s) }

// repeated writes its text in every way that zap has.
type repeated struct{ text string }

func (s repeated) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString("text", s.text)
	to.AddByteString("bytes", []byte(s.text))
	to.AddBinary("binary", []byte(s.text))
	to.OpenNamespace("within")
	return errors.Join(to.AddReflected("any", map[string]string{s.text: s.text}), to.AddArray("list", s), errors.New("failed: "+s.text))
}

func (s repeated) MarshalLogArray(to zapcore.ArrayEncoder) error {
	to.AppendString(s.text)
	to.AppendByteString([]byte(s.text))
	return errors.Join(to.AppendReflected([]string{s.text}), to.AppendObject(zap.DictObject(zap.String("k", s.text))), to.AppendArray(zapcore.ArrayMarshalerFunc(
		func(to zapcore.ArrayEncoder) error { to.AppendString(s.text); return errors.New(s.text) })))
}

// verboseError is an error with a long form, like errors with stack traces.
type verboseError struct{ text string }

func (r verboseError) Error() string { return "long form: " + r.text }
func (r verboseError) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, "long form, %c: %s\n\tat here.go:1", verb, r.text)
}

// multiError is an error like those of multi-error packages.
type multiError []error

func (m multiError) Error() string   { return fmt.Sprintf("%d errors", len(m)) }
func (m multiError) Errors() []error { return m }

type nested struct {
	Text   string            `json:"text"`
	Bytes  []byte            `json:"bytes"`
	Fixed  [64]byte          `json:"fixed"`
	Names  map[string]string `json:"names"`
	Next   *nested           `json:"next,omitempty"`
	Any    any               `json:"any"`
	Said   stringer          `json:"said"`
	Number int64             `json:"number"`
}

// nestedSecret returns a struct with a text in every field.
func nestedSecret(s string) *nested {
	h := &nested{Text: s, Bytes: []byte("x " + s), Names: map[string]string{"a " + s: s}, Any: []any{s, 1.5, nil, true}, Said: stringer(s)}
	copy(h.Fixed[:], s)
	h.Next = &nested{Text: "in here: " + s}
	return h
}

func numbers[T int | int32 | int16 | int8 | uint | uint32 | uint16](s string) []T {
	var all []T
	for _, c := range s {
		all = append(all, T(c))
	}
	return all
}

// values returns a value of each type for which zap.Any has a constructor. They contain s as far as their type allows.
func values(s string) []any {
	n, _ := strconv.ParseInt(s, 10, 64)
	return []any{
		s, &s,
		[]string{"a", s},
		[]byte("..." + s + "..."),
		[][]byte{[]byte(s)},
		stringer(s),
		[]stringer{stringer(s)},
		repeated{s},
		nil, true,
		[]bool{true},
		errors.New(s),
		[]error{errors.New(s), nil, verboseError{s}, multiError{verboseError{s}}},
		[]zap.Field{zap.String("k", s)},
		zap.String("k", s),
		struct{ E error }{errors.New(s)},
		nestedSecret(s), *nestedSecret(s),
		map[string]any{s: []any{s}},
		map[stringer][]byte{stringer(s): []byte(s)},
		[]any{nestedSecret(s), map[string]any{"a": []byte(s)}},
		n, &n, int(n), int32(n), int16(n), int8(n), uint64(n), uint(n), uint32(n), uint16(n), uint8(n), uintptr(n),
		float64(n), float32(n), complex(0, float64(n)), complex(float32(n), 0),
		[]float64{float64(n)},
		[]float32{float32(n)},
		[]complex128{complex(float64(n), 0)},
		[]complex64{complex(float32(n), 0)},
		[]int64{n},
		[]uint64{uint64(n)},
		[]uintptr{uintptr(n)},
		numbers[int](s), numbers[int32](s), numbers[int16](s), numbers[int8](s), numbers[uint](s), numbers[uint32](s), numbers[uint16](s), []uint8(s),
		time.Now().In(time.FixedZone(s, 60)),
		[]time.Time{time.Now().In(time.FixedZone(s, 60))},
		time.Second,
		[]time.Duration{1},
	}
}

// constructors returns functions that make fields with a text, one for each constructor of zap.
func constructors() map[string]func(s string) []zap.Field {
	single := func(f func(s string) zap.Field) func(string) []zap.Field {
		return func(s string) []zap.Field { return []zap.Field{f(s)} }
	}
	return map[string]func(s string) []zap.Field{
		"Any": func(s string) (fields []zap.Field) {
			for _, v := range values(s) {
				fields = append(fields, zap.Any("k", v))
			}
			return fields
		},
		"Array":      single(func(s string) zap.Field { return zap.Array("k", repeated{s}) }),
		"ByteString": single(func(s string) zap.Field { return zap.ByteString("k", []byte(s)) }),
		"Dict": single(func(s string) zap.Field {
			return zap.Dict("k", zap.String("k", s), zap.Namespace(s), zap.Dict("k", zap.Error(verboseError{s})))
		}),
		"Error": func(s string) []zap.Field {
			return []zap.Field{
				zap.Error(errors.New(s)), zap.Error(fmt.Errorf("call %q: %w", s, errors.New(s))), zap.Error(errors.Join(errors.New(s), errors.New(s))), zap.Error(verboseError{s}),
				zap.Error(multiError{errors.New(s), verboseError{s}, multiError{verboseError{s}}}), zap.Error(fmt.Errorf("%w", verboseError{s})), zap.NamedError("k", verboseError{s}),
			}
		},
		"Inline": single(func(s string) zap.Field { return zap.Inline(repeated{s}) }),
		"Namespace": func(s string) []zap.Field {
			return []zap.Field{zap.Namespace(s), zap.String("k", s), zap.Namespace("n"), zap.Any("k", nestedSecret(s))}
		},
		"ObjectValues": single(func(s string) zap.Field { return zap.ObjectValues("k", []pointerMarshaler{{s}}) }),
		"Objects":      single(func(s string) zap.Field { return zap.Objects("k", []repeated{{s}}) }),
		"Reflect": func(s string) []zap.Field {
			return []zap.Field{zap.Reflect("k", s), zap.Reflect("k", nestedSecret(s)), zap.Reflect("k", []any{nestedSecret(s), map[string]any{"a": []byte(s)}}), zap.Reflect("k", nil)}
		},
		"Skip":  single(func(string) zap.Field { return zap.Skip() }),
		"Stack": single(func(string) zap.Field { return zap.Stack("k") }),
		"String": func(s string) []zap.Field {
			return []zap.Field{zap.String("k", s), zap.String(s, "v"), zap.String("k", "a "+s+" b")}
		},
	}
}

type pointerMarshaler struct{ text string }

func (p *pointerMarshaler) MarshalLogObject(to zapcore.ObjectEncoder) error {
	return repeated{p.text}.MarshalLogObject(to)
}

// requireNoSecret checks that a text does not contain a secret in any encoding.
func requireNoSecret(t *testing.T, text, secret, kind string) {
	t.Helper()
	var digits []string
	for _, b := range []byte(secret) {
		digits = append(digits, strconv.Itoa(int(b)))
	}
	quoted := strings.Trim(strconv.Quote(secret), `"`)
	for encoding, form := range map[string]string{
		"plain": secret, "quoted": quoted, "quoted twice": strings.Trim(strconv.Quote(quoted), `"`), "numbers": strings.Join(digits, ","),
		"spaced numbers": strings.Join(digits, ", "), "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "in base64": base64.StdEncoding.EncodeToString([]byte("..." + secret + "..."))[4:],
	} {
		require.NotContains(t, text, form, "%s, %s", kind, encoding)
	}
}

// Every secret is redacted with every constructor, in both formats, in fields of entries, of loggers and of lazy loggers.
func TestEveryConstructor(t *testing.T) {
	t.Parallel()
	secrets := plantedSecrets()
	secrets["known number"] = [2]string{"98765432109", "98765432109"}
	for name, newFields := range constructors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for kind, p := range secrets {
				for _, f := range newFields(p[0]) {
					for _, format := range []string{"json", "console"} {
						text := logText(t, format, "debug", func(l *zap.Logger) {
							l.Info("entry", f)
							l.With(f).Info("logger")
							l.WithLazy(f, zap.Int("i", 1)).With(zap.Namespace("n"), f).Info("lazy", f)
							l.Info("nested", zap.Dict("a", zap.Dict("b", f, f)))
						})
						requireNoSecret(t, text, p[1], kind)
						require.Equal(t, 4, strings.Count(text, "entry")+strings.Count(text, `logger`)+strings.Count(text, `lazy`)+strings.Count(text, "nested"), "%s", text)
					}
				}
			}
		})
	}
}

// A value under a secret name is redacted with every constructor.
func TestEveryConstructorWithASecretName(t *testing.T) {
	t.Parallel()
	for name, newFields := range constructors() {
		for _, f := range newFields("swordfishes") {
			f.Key = "password"
			text := logText(t, "json", "debug", func(l *zap.Logger) { l.Info("m", zap.Int("before", 1), f, zap.String("password", "halibuts")) })
			if name != "Inline" && name != "Dict" { // these have members with other names
				require.NotContains(t, text, "swordfishes", name)
			}
			require.NotContains(t, text, "halibuts", name)
			if name != "Skip" && name != "Inline" && name != "Namespace" {
				require.Contains(t, text, `"password":"[redacted]"`, name)
			}
		}
	}
}

// Secrets are redacted outside of fields too.
func TestSecretsOutsideFields(t *testing.T) {
	t.Parallel()
	for kind, p := range plantedSecrets() {
		for _, format := range []string{"json", "console"} {
			text := logText(t, format, "debug", func(l *zap.Logger) {
				l.Info(p[0])
				l.Named(p[0]).Info("named")
				l.Sugar().Infow("sugar", "k", p[0], p[0], "v", "e", errors.New(p[0]))
				l.Sugar().Infof("formatted: %s, %v, %q", p[0], nestedSecret(p[0]).Text, stringer(p[0]))
				l.Sugar().Infoln("line", p[0])
				l.Sugar().With("k", p[0]).Infow("odd", p[0]) //nolint:loggercheck // on purpose
				zap.NewStdLog(l).Print(p[0])
				for _, ce := range []*zapcore.CheckedEntry{l.Check(zap.ErrorLevel, "m")} {
					ce.Stack = "main.f(" + p[0] + ")\n\tmain.go:12"
					ce.Caller = zapcore.EntryCaller{Defined: true, File: "/src/" + p[0] + "/a.go", Function: p[0]}
					ce.Write()
				}
			})
			requireNoSecret(t, text, p[1], kind)
		}
	}
}
