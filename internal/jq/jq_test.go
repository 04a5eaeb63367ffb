package jq_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/jq"
)

func run(t *testing.T, query, doc string, b jq.Bounds) (string, error) {
	t.Helper()
	p, err := jq.Compile(query)
	if err != nil {
		return "", err
	}
	out, err := p.Run(t.Context(), json.RawMessage(doc), b)
	return lines(out), err
}

func lines(out []json.RawMessage) string {
	all := make([]string, len(out))
	for i, o := range out {
		all[i] = string(o)
	}
	return strings.Join(all, "\n")
}

// A program has the same outputs as in gojq, whether it gets its rows one by one or together.
func TestSameOutputsAsGojq(t *testing.T) {
	t.Parallel()
	docs := []string{
		`[{"a":1,"b":"x-1 y-22","c":[3,1,2],"d":{"e":null,"f":[{"g":1.50}]}},{"a":3,"b":"","c":[]},{"a":2,"b":"Äö x-3","c":[1,1],"d":{"e":"2024-02-29"}}]`,
		`{"items":[{"id":1,"n":"b"},{"id":2,"n":"a"}],"total":12345678901234567890,"x":0.1}`, `null`, `"text, more"`, `[[1,2],[3,[4,[5]]]]`, ` [] `,
	}
	for _, query := range []string{
		`.`, `.[]`, `.[]?`, `.[] | .a?`, `.[] | select(.a? > 1)`, `map(.a?)`, `map(.a?, 1)`, `[.[] | .a?]`, `[.[]]`, `[.[]?]`, `[.[] | .a?] | length`, `first(.[] | .a?)`,
		`def f: .a?; .[] | f`, `def f: .a?; [.[] | f]`, `def map(f): "mine"; map(1)`, `.[] as $x | $x`, `.[] | empty`, `map(empty)`, `.[] | label $f | 1, break $f, 2`,
		`.[] | (.b? // "") | tostring | [match("(?<w>[a-z])-(\\d+)"; "g")]`, `try sort_by(.b) catch .`, `tojson | fromjson`, `env, $ENV`, `.[] |= 1`,
	} {
		for _, doc := range docs {
			want, wantErr := runGojq(t, query, doc)
			got, err := run(t, query, doc, jq.Bounds{})
			if wantErr != nil {
				require.Error(t, err, "%s of %s", query, doc)
				require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%s of %s: %v", query, doc, err)
				continue
			}
			require.NoError(t, err, "%s of %s", query, doc)
			require.Equal(t, want, got, "%s of %s", query, doc)
		}
	}
}

// runGojq runs a program on gojq.
func runGojq(t *testing.T, query, doc string) (string, error) {
	t.Helper()
	q, err := gojq.Parse(query)
	if err != nil {
		return "", err
	}
	code, err := gojq.Compile(q)
	if err != nil {
		return "", err
	}
	dec := json.NewDecoder(strings.NewReader(doc))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	var out []string
	for outputs := code.Run(v); ; {
		v, ok := outputs.Next()
		if !ok {
			return strings.Join(out, "\n"), nil
		}
		if err, isError := v.(error); isError {
			return "", err
		}
		text, err := gojq.Marshal(v)
		require.NoError(t, err)
		out = append(out, string(text))
	}
}

func TestNumbersKeepDigits(t *testing.T) {
	t.Parallel()
	got, err := run(t, `.[] | ., . + 1`, `[12345678901234567890, 1.50, 1e2, -0, 9007199254740993]`, jq.Bounds{})
	require.NoError(t, err)
	require.Equal(t, "12345678901234567890\n12345678901234567891\n1.50\n2.5\n1e2\n101\n-0\n1\n9007199254740993\n9007199254740994", got)
}

func TestCompileBad(t *testing.T) {
	t.Parallel()
	for query, message := range map[string]string{
		"":                                     "is empty",
		" \n":                                  "is empty",
		".a |\n  | .b":                         `line 2, column 3: unexpected token "|"`,
		".a[":                                  "line 1, column 4: unexpected EOF",
		`"abc`:                                 "unterminated string literal",
		"$__loc__":                             "variable not defined: $__loc__",
		"input":                                "input(s)/0 is not allowed",
		"[inputs]":                             "input(s)/0 is not allowed",
		"debug":                                "function not defined: debug/0",
		"stderr":                               "function not defined: stderr/0",
		"input_filename":                       "function not defined: input_filename/0",
		`import "a" as a; .`:                   "cannot load module: \"a\"",
		`include "a"; .`:                       "cannot load module: \"a\"",
		"nosuch(1; 2)":                         "function not defined: nosuch/2",
		"$x":                                   "variable not defined: $x",
		"break $x":                             "label not defined: $x",
		strings.Repeat(" ", jq.MaxQuery) + ".": "has 10001 bytes, at most 10000",
	} {
		_, err := jq.Compile(query)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), query)
		require.ErrorContains(t, err, "query: ", query)
		require.ErrorContains(t, err, message, query)
	}
}

func TestRunBad(t *testing.T) {
	t.Parallel()
	for query, message := range map[string]string{
		`.[] | .a + 1`:              "query: row 1: failed: cannot add: string",
		`map(.a | error)`:           "query: row 0: failed: ",
		`[.[] | error({"why":.a})]`: `query: row 0: failed: {"why":1}`,
		`.a.b`:                      "query: failed: expected an object but got: array",
		`.[0].a | test("(")`:        "cannot be applied to: number",
		`.[1].a | test("(")`:        "invalid regular expression",
		`.[1].a | test("a"; "q")`:   `unsupported regular expression flag: "q"`,
		`error(null)`:               "query: failed",
	} {
		_, err := run(t, query, `[{"a":1},{"a":"x"}]`, jq.Bounds{})
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%s: %v", query, err)
		require.ErrorContains(t, err, message, query)
	}
	_, err := run(t, `.[]`, `7`, jq.Bounds{})
	require.EqualError(t, err, "query: failed: cannot iterate over: number (7)")
}

func TestBounds(t *testing.T) {
	t.Parallel()
	_, err := run(t, `range(10)`, `null`, jq.Bounds{Outputs: 9})
	require.EqualError(t, err, "query: has more than 9 outputs")
	out, err := run(t, `range(3)`, `null`, jq.Bounds{Outputs: 3, Bytes: 3})
	require.NoError(t, err)
	require.Equal(t, "0\n1\n2", out)
	_, err = run(t, `range(3)`, `null`, jq.Bounds{Bytes: 2})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	bounds, ones := jq.Bounds{Memory: 24 << 20, Time: time.Minute}, strings.Repeat("1,", 1_500_000)
	_, err = run(t, `length`, "["+ones+"1]", bounds)
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	require.ErrorContains(t, err, "begin the program with .[] |")
	out, err = run(t, `.[] | select(. > 1)`, "["+ones+"2]", bounds)
	require.NoError(t, err)
	require.Equal(t, "2", out)
}

func TestTimeIsRounded(t *testing.T) {
	t.Parallel()
	_, err := run(t, `def f: f; f`, `null`, jq.Bounds{Time: 1001250 * time.Microsecond})
	require.EqualError(t, err, "query: takes longer than 1s; filter the rows first, or do less with each")
	_, err = run(t, `def f: f; f`, `null`, jq.Bounds{Time: 20 * time.Millisecond})
	require.ErrorContains(t, err, "takes longer than 20ms;")
}

// The end of the context ends a running program and a waiting one.
func TestContext(t *testing.T) {
	t.Parallel()
	p, err := jq.Compile(`def f: f; f`)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = p.Run(ctx, json.RawMessage("1"), jq.Bounds{Time: time.Minute})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	_, err = p.Run(ctx, json.RawMessage("1"), jq.Bounds{Time: time.Minute})
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestRunRows(t *testing.T) {
	t.Parallel()
	rows := []json.RawMessage{json.RawMessage(`{"a":1}`), json.RawMessage(`{"a":2}`)}
	for query, want := range map[string]string{
		`.[] | .a`: "1\n2", `map(.a)`: "[1,2]", `[.[].a]`: "[1,2]", `map(.a) | add`: "3", `length`: "2", `.[1]`: `{"a":2}`, `def f: .a; .[] | f`: "1\n2", `def f: .a; [.[] | f]`: "[1,2]",
	} {
		p, err := jq.Compile(query)
		require.NoError(t, err, query)
		out, err := p.RunRows(t.Context(), rows, jq.Bounds{})
		require.NoError(t, err, query)
		require.Equal(t, want, lines(out), query)
	}
	p, err := jq.Compile(`map(.a)`)
	require.NoError(t, err)
	out, err := p.RunRows(t.Context(), nil, jq.Bounds{})
	require.NoError(t, err)
	require.Equal(t, "[]", lines(out))
}
