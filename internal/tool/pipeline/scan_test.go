package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
)

// FuzzPath checks that a path without dots finds the value of the member of that name.
func FuzzPath(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":{"c":[1,2,{"d":"}"}]},"e":null}`, ` { "a" : "x\"}" , "\u0062" : [ ] } `, `{"":"\\"}`, `{"a`, `{"a":1,}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSpace(text)
		isObject := len(text) > 0 && text[0] == '{' && jsontext.Value(text).IsValid()
		var m dataset.Member
		for c := dataset.MembersOf(text); c.Next(&m); {
			p := newPath(m.Name())
			v, ok := p.find(text)
			if isObject && p.tail == nil {
				require.True(t, ok)
				require.Equal(t, string(text[m.From:m.To]), string(v))
			}
		}
	})
}

// FuzzNumber checks that exactly the numbers of JSON are numbers, and that the fast parser returns the same as the exact one.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-0", "1.50", "-12e+3", "01", "1.", ".5", "1e", "--1", "123456789012345", "1234567890123456", "0.00000000000001", "-", "", "1 ", "+1", "NaN"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxNumber {
			return
		}
		v := value{kind: kindString, text: []byte(s)}
		isNumber := v.isNumeric()
		starts := s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9')
		require.Equal(t, starts && json.Valid([]byte(s)) && strings.TrimSpace(s) == s, isNumber)
		if v.toNumber(); !v.isExact {
			return
		}
		want, _, err := apd.NewFromString(s)
		require.NoError(t, err)
		float, err := want.Float64()
		require.NoError(t, err)
		require.InDelta(t, float, v.float, 0)
		shortest, _, err := apd.NewFromString(strconv.FormatFloat(v.float, 'g', -1, 64))
		require.NoError(t, err)
		require.Zero(t, want.Cmp(shortest), "the float is exactly the number")
	})
}

// someValues returns values of all kinds that are easily confused.
func someValues() []json.RawMessage {
	var out []json.RawMessage
	for _, s := range []string{
		`0`, `-0`, `0.0`, `1`, `1.0`, `-1`, `1e0`, `10e-1`, `2`, `10`, `9007199254740992`, `9007199254740993`, `9007199254740992.5`, `-9007199254740993`, `1e308`, `-1e308`, `1e-308`,
		`0.1`, `0.10000000000000001`, `1.0000000000000000000`, `100`, `1E2`, `-0e5`, `1e-320`, `1.00001e-320`, `1e-36`,
		`0.000000000000000000000000000000000001`, `0.0000000000000000000000000001`, `123456789012345`, `1234567890123456`, `123456789.012345`, `"x"`, `""`, `"12345678"`, `"123456789"`, `"\u0000"`, `"é"`, `"1e99999"`, `true`, `false`, `[]`, `{}`,
		`[1]`, `null`, `"longer than eight"`, `"longer than nine"`,
	} {
		out = append(out, json.RawMessage(s))
	}
	return out
}

// TestKeysAreEqualAsValuesAre checks that two values have the same key exactly if they are equal and of the same kind.
func TestKeysAreEqualAsValuesAre(t *testing.T) {
	for _, x := range someValues() {
		for _, y := range someValues() {
			a, b := valueOf(x), valueOf(y)
			want := a.kind == b.kind && equalValues(a, b)
			require.Equal(t, want, string(a.appendKey(nil)) == string(b.appendKey(nil)), "%s %s", x, y)
		}
	}
}

// TestProgramSize checks that the size of a pattern is bounded before it is compiled.
func TestProgramSize(t *testing.T) {
	for _, s := range []string{`a`, `[a-z]{1000}`, `(?:(?:a{10}){10}){10}`, `(?i)[^x]{0,500}é+`, `\pL{1000}`, `(a|b|c)*?d`} {
		p, err := compilePattern("pattern", s)
		require.NoError(t, err, s)
		require.Positive(t, p.size)
	}
	for _, s := range []string{`(?:abcdefghijklmnopqrstuvwxyz){1000}`, strings.Repeat("a", 1<<20), strings.Repeat("(", 5000), `a{1001}`, `(`} {
		_, err := compilePattern("pattern", s)
		require.Error(t, err)
		require.Less(t, len(err.Error()), 300)
	}
}

// endingContext ends after a number of calls of Err.
type endingContext struct {
	context.Context

	remaining int // calls
}

func (c *endingContext) Err() error {
	if c.remaining--; c.remaining < 0 {
		return context.Canceled
	}
	return nil
}

func TestSortEndsWithItsContext(t *testing.T) {
	rows := make([]row, 20*checkEvery)
	for i := range rows {
		rows[i] = fmt.Appendf(nil, `{"n":%d}`, i*7919%len(rows))
	}
	s := &tableSort{keys: []*path{newPath("n")}, order: 1}
	_, err := s.run(&endingContext{t.Context(), 2 * len(rows)}, nil, rows)
	require.NoError(t, err)
	ctx := &endingContext{t.Context(), 30} // reading the rows takes 20 calls
	_, err = s.run(ctx, nil, rows)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
	require.GreaterOrEqual(t, ctx.remaining, -2, "the comparisons do not check the context again")
}
