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

type says string

func (s says) String() string { return string(s) }

// shouts writes itself in every way.
type shouts struct{ text string }

func (s shouts) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString("text", s.text)
	to.AddByteString("bytes", []byte(s.text))
	to.AddBinary("binary", []byte(s.text))
	to.OpenNamespace("within")
	return errors.Join(to.AddReflected("any", map[string]string{s.text: s.text}), to.AddArray("list", s), errors.New("failed: "+s.text))
}

func (s shouts) MarshalLogArray(to zapcore.ArrayEncoder) error {
	to.AppendString(s.text)
	to.AppendByteString([]byte(s.text))
	return errors.Join(to.AppendReflected([]string{s.text}), to.AppendObject(zap.DictObject(zap.String("k", s.text))), to.AppendArray(zapcore.ArrayMarshalerFunc(
		func(to zapcore.ArrayEncoder) error { to.AppendString(s.text); return errors.New(s.text) })))
}

// rich is an error that says more than its message, as those with stacks do.
type rich struct{ text string }

func (r rich) Error() string { return "rich: " + r.text }
func (r rich) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, "rich, %c: %s\n\tat here.go:1", verb, r.text)
}

// many is what the multi-error packages have.
type many []error

func (m many) Error() string   { return fmt.Sprintf("%d errors", len(m)) }
func (m many) Errors() []error { return m }

type hidden struct {
	Text   string            `json:"text"`
	Bytes  []byte            `json:"bytes"`
	Fixed  [64]byte          `json:"fixed"`
	Names  map[string]string `json:"names"`
	Next   *hidden           `json:"next,omitempty"`
	Any    any               `json:"any"`
	Said   says              `json:"said"`
	Number int64             `json:"number"`
}

func hiding(s string) *hidden {
	h := &hidden{Text: s, Bytes: []byte("x " + s), Names: map[string]string{"a " + s: s}, Any: []any{s, 1.5, nil, true}, Said: says(s)}
	copy(h.Fixed[:], s)
	h.Next = &hidden{Text: "in here: " + s}
	return h
}

func numbers[T int | int32 | int16 | int8 | uint | uint32 | uint16](s string) []T {
	var all []T
	for _, c := range s {
		all = append(all, T(c))
	}
	return all
}

// values are of every type for which zap.Any chooses a constructor, and hold a text or of it what they can.
func values(s string) []any {
	n, _ := strconv.ParseInt(s, 10, 64)
	return []any{
		s, &s,
		[]string{"a", s},
		[]byte("..." + s + "..."),
		[][]byte{[]byte(s)},
		says(s),
		[]says{says(s)},
		shouts{s},
		nil, true,
		[]bool{true},
		errors.New(s),
		[]error{errors.New(s), nil, rich{s}, many{rich{s}}},
		[]zap.Field{zap.String("k", s)},
		zap.String("k", s),
		struct{ E error }{errors.New(s)},
		hiding(s), *hiding(s),
		map[string]any{s: []any{s}},
		map[says][]byte{says(s): []byte(s)},
		[]any{hiding(s), map[string]any{"a": []byte(s)}},
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

// constructors make fields that hold a text, by the constructors that zap.Any does not choose as well.
func constructors() map[string]func(s string) []zap.Field {
	one := func(f func(s string) zap.Field) func(string) []zap.Field {
		return func(s string) []zap.Field { return []zap.Field{f(s)} }
	}
	return map[string]func(s string) []zap.Field{
		"Any": func(s string) (fields []zap.Field) {
			for _, v := range values(s) {
				fields = append(fields, zap.Any("k", v))
			}
			return fields
		},
		"Array":      one(func(s string) zap.Field { return zap.Array("k", shouts{s}) }),
		"ByteString": one(func(s string) zap.Field { return zap.ByteString("k", []byte(s)) }),
		"Dict": one(func(s string) zap.Field {
			return zap.Dict("k", zap.String("k", s), zap.Namespace(s), zap.Dict("k", zap.Error(rich{s})))
		}),
		"Error": func(s string) []zap.Field {
			return []zap.Field{
				zap.Error(errors.New(s)), zap.Error(fmt.Errorf("call %q: %w", s, errors.New(s))), zap.Error(errors.Join(errors.New(s), errors.New(s))), zap.Error(rich{s}),
				zap.Error(many{errors.New(s), rich{s}, many{rich{s}}}), zap.Error(fmt.Errorf("%w", rich{s})), zap.NamedError("k", rich{s}),
			}
		},
		"Inline": one(func(s string) zap.Field { return zap.Inline(shouts{s}) }),
		"Namespace": func(s string) []zap.Field {
			return []zap.Field{zap.Namespace(s), zap.String("k", s), zap.Namespace("n"), zap.Any("k", hiding(s))}
		},
		"ObjectValues": one(func(s string) zap.Field { return zap.ObjectValues("k", []pointed{{s}}) }),
		"Objects":      one(func(s string) zap.Field { return zap.Objects("k", []shouts{{s}}) }),
		"Reflect": func(s string) []zap.Field {
			return []zap.Field{zap.Reflect("k", s), zap.Reflect("k", hiding(s)), zap.Reflect("k", []any{hiding(s), map[string]any{"a": []byte(s)}}), zap.Reflect("k", nil)}
		},
		"Skip":  one(func(string) zap.Field { return zap.Skip() }),
		"Stack": one(func(string) zap.Field { return zap.Stack("k") }),
		"String": func(s string) []zap.Field {
			return []zap.Field{zap.String("k", s), zap.String(s, "v"), zap.String("k", "a "+s+" b")}
		},
	}
}

type pointed struct{ text string }

func (p *pointed) MarshalLogObject(to zapcore.ObjectEncoder) error {
	return shouts{p.text}.MarshalLogObject(to)
}

// clean checks that nothing of a secret is in what was written, in any way of writing it that these tests use.
func clean(t *testing.T, text, secret, what string) {
	t.Helper()
	var digits []string
	for _, b := range []byte(secret) {
		digits = append(digits, strconv.Itoa(int(b)))
	}
	quoted := strings.Trim(strconv.Quote(secret), `"`)
	for how, form := range map[string]string{
		"as it is": secret, "quoted": quoted, "quoted twice": strings.Trim(strconv.Quote(quoted), `"`), "numbers": strings.Join(digits, ","),
		"spaced numbers": strings.Join(digits, ", "), "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "in base64": base64.StdEncoding.EncodeToString([]byte("..." + secret + "..."))[4:],
	} {
		require.NotContains(t, text, form, "%s, %s", what, how)
	}
}

// Every secret, by every constructor, in both formats, as a field of an entry, of a logger and of one that is made when it is needed.
func TestEveryConstructor(t *testing.T) {
	t.Parallel()
	secrets := planted()
	secrets["known number"] = [2]string{"98765432109", "98765432109"}
	for name, of := range constructors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for what, p := range secrets {
				for _, f := range of(p[0]) {
					for _, format := range []string{"json", "console"} {
						text := written(t, format, "debug", func(l *zap.Logger) {
							l.Info("entry", f)
							l.With(f).Info("logger")
							l.WithLazy(f, zap.Int("i", 1)).With(zap.Namespace("n"), f).Info("lazy", f)
							l.Info("nested", zap.Dict("a", zap.Dict("b", f, f)))
						})
						clean(t, text, p[1], what)
						require.Equal(t, 4, strings.Count(text, "entry")+strings.Count(text, `logger`)+strings.Count(text, `lazy`)+strings.Count(text, "nested"), "%s", text)
					}
				}
			}
		})
	}
}

// Under the name of a secret nothing is told, whatever it is.
func TestEveryConstructorUnderAName(t *testing.T) {
	t.Parallel()
	for name, of := range constructors() {
		for _, f := range of("swordfishes") {
			f.Key = "password"
			text := written(t, "json", "debug", func(l *zap.Logger) { l.Info("m", zap.Int("before", 1), f, zap.String("password", "halibuts")) })
			if name != "Inline" && name != "Dict" { // an inline one has no name
				require.NotContains(t, text, "swordfishes", name)
			}
			require.NotContains(t, text, "halibuts", name)
			if name != "Skip" && name != "Inline" && name != "Namespace" {
				require.Contains(t, text, `"password":"[redacted]"`, name)
			}
		}
	}
}

// In the places that are no fields, too.
func TestEverywhereElse(t *testing.T) {
	t.Parallel()
	for what, p := range planted() {
		for _, format := range []string{"json", "console"} {
			text := written(t, format, "debug", func(l *zap.Logger) {
				l.Info(p[0])
				l.Named(p[0]).Info("named")
				l.Sugar().Infow("sugar", "k", p[0], p[0], "v", "e", errors.New(p[0]))
				l.Sugar().Infof("formatted: %s, %v, %q", p[0], hiding(p[0]).Text, says(p[0]))
				l.Sugar().Infoln("line", p[0])
				l.Sugar().With("k", p[0]).Infow("odd", p[0]) //nolint:loggercheck // on purpose
				zap.NewStdLog(l).Print(p[0])
				for _, ce := range []*zapcore.CheckedEntry{l.Check(zap.ErrorLevel, "m")} {
					ce.Stack = "main.f(" + p[0] + ")\n\tmain.go:12"
					ce.Caller = zapcore.EntryCaller{Defined: true, File: "/src/" + p[0] + "/a.go", Function: p[0]}
					ce.Write()
				}
			})
			clean(t, text, p[1], what)
		}
	}
}
