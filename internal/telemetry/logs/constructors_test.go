package logs_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"slices"
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
	h := &hidden{Text: s, Bytes: []byte("x" + s), Names: map[string]string{"a" + s: s}, Any: []any{s, 1.5, nil, true}, Said: says(s)}
	copy(h.Fixed[:], s)
	h.Next = &hidden{Text: "in here: " + s}
	return h
}

func numbers[T any](s string, of func(rune) T) []T {
	var all []T
	for _, c := range s {
		all = append(all, of(c))
	}
	return all
}

// constructors make fields that hold a text, or of it what they can.
func constructors() map[string]func(s string) []zap.Field {
	number := func(s string) int64 {
		n, _ := strconv.ParseInt(s, 10, 64)
		return n
	}
	one := func(f func(s string) zap.Field) func(string) []zap.Field {
		return func(s string) []zap.Field { return []zap.Field{f(s)} }
	}
	return map[string]func(s string) []zap.Field{
		"Any": func(s string) []zap.Field {
			return []zap.Field{
				zap.Any("k", s), zap.Any("k", &s), zap.Any("k", []string{s}), zap.Any("k", []byte(s)), zap.Any("k", says(s)), zap.Any("k", errors.New(s)),
				zap.Any("k", []error{errors.New(s)}), zap.Any("k", hiding(s)), zap.Any("k", *hiding(s)), zap.Any("k", map[string]any{s: []any{s}}), zap.Any("k", shouts{s}),
				zap.Any("k", []zap.Field{zap.String("k", s)}), zap.Any("k", struct{ E error }{errors.New(s)}), zap.Any("k", []says{says(s)}), zap.Any("k", number(s)),
				zap.Any("k", []int64{number(s)}), zap.Any("k", map[says][]byte{says(s): []byte(s)}), zap.Any("k", zap.String("k", s)),
			}
		},
		"Array":       one(func(s string) zap.Field { return zap.Array("k", shouts{s}) }),
		"Binary":      one(func(s string) zap.Field { return zap.Binary("k", []byte("..."+s+"...")) }),
		"Bool":        one(func(string) zap.Field { return zap.Bool("k", true) }),
		"Boolp":       one(func(string) zap.Field { return zap.Boolp("k", new(bool)) }),
		"Bools":       one(func(string) zap.Field { return zap.Bools("k", []bool{true}) }),
		"ByteString":  one(func(s string) zap.Field { return zap.ByteString("k", []byte(s)) }),
		"ByteStrings": one(func(s string) zap.Field { return zap.ByteStrings("k", [][]byte{[]byte(s)}) }),
		"Complex128":  one(func(s string) zap.Field { return zap.Complex128("k", complex(0, float64(number(s)))) }),
		"Complex128p": one(func(s string) zap.Field { c := complex(float64(number(s)), 0); return zap.Complex128p("k", &c) }),
		"Complex128s": one(func(s string) zap.Field { return zap.Complex128s("k", []complex128{complex(float64(number(s)), 0)}) }),
		"Complex64":   one(func(s string) zap.Field { return zap.Complex64("k", complex(float32(number(s)), 0)) }),
		"Complex64p":  one(func(s string) zap.Field { c := complex(float32(number(s)), 0); return zap.Complex64p("k", &c) }),
		"Complex64s":  one(func(s string) zap.Field { return zap.Complex64s("k", []complex64{complex(float32(number(s)), 0)}) }),
		"Dict": one(func(s string) zap.Field {
			return zap.Dict("k", zap.String("k", s), zap.Namespace(s), zap.Dict("k", zap.Error(rich{s})))
		}),
		"Duration":  one(func(string) zap.Field { return zap.Duration("k", time.Second) }),
		"Durationp": one(func(string) zap.Field { return zap.Durationp("k", new(time.Duration)) }),
		"Durations": one(func(string) zap.Field { return zap.Durations("k", []time.Duration{1}) }),
		"Error": func(s string) []zap.Field {
			return []zap.Field{
				zap.Error(errors.New(s)), zap.Error(fmt.Errorf("call %q: %w", s, errors.New(s))), zap.Error(errors.Join(errors.New(s), errors.New(s))), zap.Error(rich{s}),
				zap.Error(many{errors.New(s), rich{s}, many{rich{s}}}), zap.Error(fmt.Errorf("%w", rich{s})),
			}
		},
		"Errors":     one(func(s string) zap.Field { return zap.Errors("k", []error{errors.New(s), nil, rich{s}, many{rich{s}}}) }),
		"Float32":    one(func(s string) zap.Field { return zap.Float32("k", float32(number(s))) }),
		"Float32p":   one(func(s string) zap.Field { f := float32(number(s)); return zap.Float32p("k", &f) }),
		"Float32s":   one(func(s string) zap.Field { return zap.Float32s("k", []float32{float32(number(s))}) }),
		"Float64":    one(func(s string) zap.Field { return zap.Float64("k", float64(number(s))) }),
		"Float64p":   one(func(s string) zap.Field { f := float64(number(s)); return zap.Float64p("k", &f) }),
		"Float64s":   one(func(s string) zap.Field { return zap.Float64s("k", []float64{float64(number(s))}) }),
		"Inline":     one(func(s string) zap.Field { return zap.Inline(shouts{s}) }),
		"Int":        one(func(s string) zap.Field { return zap.Int("k", int(number(s))) }),
		"Int16":      one(func(s string) zap.Field { return zap.Int16("k", int16(number(s))) }),
		"Int16p":     one(func(s string) zap.Field { n := int16(number(s)); return zap.Int16p("k", &n) }),
		"Int16s":     one(func(s string) zap.Field { return zap.Int16s("k", numbers(s, func(c rune) int16 { return int16(c) })) }),
		"Int32":      one(func(s string) zap.Field { return zap.Int32("k", int32(number(s))) }),
		"Int32p":     one(func(s string) zap.Field { n := int32(number(s)); return zap.Int32p("k", &n) }),
		"Int32s":     one(func(s string) zap.Field { return zap.Int32s("k", []rune(s)) }),
		"Int64":      one(func(s string) zap.Field { return zap.Int64("k", number(s)) }),
		"Int64p":     one(func(s string) zap.Field { n := number(s); return zap.Int64p("k", &n) }),
		"Int64s":     one(func(s string) zap.Field { return zap.Int64s("k", []int64{number(s)}) }),
		"Int8":       one(func(s string) zap.Field { return zap.Int8("k", int8(number(s))) }),
		"Int8p":      one(func(s string) zap.Field { n := int8(number(s)); return zap.Int8p("k", &n) }),
		"Int8s":      one(func(s string) zap.Field { return zap.Int8s("k", numbers(s, func(c rune) int8 { return int8(c) })) }),
		"Intp":       one(func(s string) zap.Field { n := int(number(s)); return zap.Intp("k", &n) }),
		"Ints":       one(func(s string) zap.Field { return zap.Ints("k", numbers(s, func(c rune) int { return int(c) })) }),
		"NamedError": one(func(s string) zap.Field { return zap.NamedError("k", rich{s}) }),
		"Namespace": func(s string) []zap.Field {
			return []zap.Field{zap.Namespace(s), zap.String("k", s), zap.Namespace("n"), zap.Any("k", hiding(s))}
		},
		"Object":       one(func(s string) zap.Field { return zap.Object("k", shouts{s}) }),
		"ObjectValues": one(func(s string) zap.Field { return zap.ObjectValues("k", []pointed{{s}}) }),
		"Objects":      one(func(s string) zap.Field { return zap.Objects("k", []shouts{{s}}) }),
		"Reflect": func(s string) []zap.Field {
			return []zap.Field{zap.Reflect("k", s), zap.Reflect("k", hiding(s)), zap.Reflect("k", []any{hiding(s), map[string]any{"a": []byte(s)}}), zap.Reflect("k", nil)}
		},
		"Skip":      one(func(string) zap.Field { return zap.Skip() }),
		"Stack":     one(func(string) zap.Field { return zap.Stack("k") }),
		"StackSkip": one(func(string) zap.Field { return zap.StackSkip("k", 1) }),
		"String": func(s string) []zap.Field {
			return []zap.Field{zap.String("k", s), zap.String(s, "v"), zap.String("k", "a "+s+" b")}
		},
		"Stringer":  one(func(s string) zap.Field { return zap.Stringer("k", says(s)) }),
		"Stringers": one(func(s string) zap.Field { return zap.Stringers("k", []says{says(s)}) }),
		"Stringp":   one(func(s string) zap.Field { return zap.Stringp("k", &s) }),
		"Strings":   one(func(s string) zap.Field { return zap.Strings("k", []string{"a", s}) }),
		"Time":      one(func(s string) zap.Field { return zap.Time("k", time.Now().In(time.FixedZone(s, 60))) }),
		"Timep":     one(func(s string) zap.Field { t := time.Now().In(time.FixedZone(s, 60)); return zap.Timep("k", &t) }),
		"Times":     one(func(s string) zap.Field { return zap.Times("k", []time.Time{time.Now().In(time.FixedZone(s, 60))}) }),
		"Uint":      one(func(s string) zap.Field { return zap.Uint("k", uint(number(s))) }),
		"Uint16":    one(func(s string) zap.Field { return zap.Uint16("k", uint16(number(s))) }),
		"Uint16p":   one(func(s string) zap.Field { n := uint16(number(s)); return zap.Uint16p("k", &n) }),
		"Uint16s": one(func(s string) zap.Field {
			return zap.Uint16s("k", numbers(s, func(c rune) uint16 { return uint16(c) }))
		}),
		"Uint32":  one(func(s string) zap.Field { return zap.Uint32("k", uint32(number(s))) }),
		"Uint32p": one(func(s string) zap.Field { n := uint32(number(s)); return zap.Uint32p("k", &n) }),
		"Uint32s": one(func(s string) zap.Field {
			return zap.Uint32s("k", numbers(s, func(c rune) uint32 { return uint32(c) }))
		}),
		"Uint64":   one(func(s string) zap.Field { return zap.Uint64("k", uint64(number(s))) }),
		"Uint64p":  one(func(s string) zap.Field { n := uint64(number(s)); return zap.Uint64p("k", &n) }),
		"Uint64s":  one(func(s string) zap.Field { return zap.Uint64s("k", []uint64{uint64(number(s))}) }),
		"Uint8":    one(func(s string) zap.Field { return zap.Uint8("k", uint8(number(s))) }),
		"Uint8p":   one(func(s string) zap.Field { n := uint8(number(s)); return zap.Uint8p("k", &n) }),
		"Uint8s":   one(func(s string) zap.Field { return zap.Uint8s("k", []uint8(s)) }),
		"Uintp":    one(func(s string) zap.Field { n := uint(number(s)); return zap.Uintp("k", &n) }),
		"Uintptr":  one(func(s string) zap.Field { return zap.Uintptr("k", uintptr(number(s))) }),
		"Uintptrp": one(func(s string) zap.Field { n := uintptr(number(s)); return zap.Uintptrp("k", &n) }),
		"Uintptrs": one(func(s string) zap.Field { return zap.Uintptrs("k", []uintptr{uintptr(number(s))}) }),
		"Uints":    one(func(s string) zap.Field { return zap.Uints("k", numbers(s, func(c rune) uint { return uint(c) })) }),
	}
}

type pointed struct{ text string }

func (p *pointed) MarshalLogObject(to zapcore.ObjectEncoder) error {
	return shouts{p.text}.MarshalLogObject(to)
}

// declared lists what zap declares that makes fields.
func declared(t *testing.T) []string {
	pkg, err := build.Import("go.uber.org/zap", ".", build.FindOnly)
	require.NoError(t, err)
	files, err := parser.ParseDir(token.NewFileSet(), pkg.Dir, nil, parser.SkipObjectResolution) //nolint:staticcheck // no build tags in zap's own package
	require.NoError(t, err)
	require.Contains(t, files, "zap")
	var names []string
	for file, f := range files["zap"].Files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() || fn.Type.Results == nil {
				continue
			}
			switch result := fn.Type.Results.List[0].Type.(type) {
			case *ast.Ident:
				if result.Name == "Field" {
					names = append(names, fn.Name.Name)
				}
			case *ast.SelectorExpr:
				if result.Sel.Name == "Field" {
					names = append(names, fn.Name.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// Whatever zap makes a field with, now or in a later version, is tried here.
func TestEveryConstructorIsTried(t *testing.T) {
	t.Parallel()
	names := declared(t)
	require.Greater(t, len(names), 70)
	require.Equal(t, names, slices.Sorted(maps.Keys(constructors())))
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
