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

// Within the bounds a program answers as on gojq without guards.
func TestAnswersAsGojq(t *testing.T) {
	t.Parallel()
	docs := []string{
		`[{"a":1,"b":"x-1 y-22","c":[3,1,2],"d":{"e":null,"f":[{"g":1.50}]}},{"a":3,"b":"","c":[]},{"a":2,"b":"Äö x-3","c":[1,1],"d":{"e":"2024-02-29"}}]`,
		`{"items":[{"id":1,"n":"b"},{"id":2,"n":"a"}],"total":12345678901234567890,"x":0.1}`, `null`, `"text, more"`, `[[1,2],[3,[4,[5]]]]`,
	}
	for _, query := range []string{
		`.`, `.[]`, `.[]?`, `.[] | .a?`, `.[] | select(.a? > 1)`, `map(.a?)`, `[.[] | .a?]`, `[.[]?]`, `.items?`, `.items[]?.id`, `..`, `[..]`, `first(.[]?)`,
		`[.[]? | .a?, .b?]`, `map(select(type == "object") | {a, n: (.c | length)})`, `[.[]? | objects | .b |= . + "!"]`, `map_values(.)?`,
		`(.[]? | objects | .a) |= . * 2`, `.[0]?.a = 5`, `try (.[0].z[2] = 1) catch "no"`, `.. |= (numbers // .)`, `(.. | numbers?) |= . + 1`,
		`[.[]? | objects | .a] | add`, `sort_by(.a?)?`, `try sort_by(.b) catch .`, `try group_by(.c) catch .`, `try unique_by(.a) catch .`, `try (map(.a)|sort) catch .`,
		`try (map(.c)|unique) catch .`, `min_by(.a?)?`, `max_by(.a?)?`, `[.[]? | objects | .c | min, max]`, `to_entries?`, `with_entries(.)?`,
		`[.[]? | objects | .b | [match("(?<w>[a-z])-(\\d+)"; "g")]]`, `[.[]? | objects | .b | gsub("x"; "é")]`, `[.[]? | objects | .b | gsub(""; "-")]`,
		`[.[]? | objects | .b | capture("(?<l>[a-z]+)-(?<n>\\d+)")?]`, `[.[]? | objects | .b | [scan("[a-z]-")]]`, `[.[]? | objects | .b | split("-")]`,
		`[.[]? | objects | .b | sub("(?<x>[a-z])"; "<\(.x)>")]`, `[.[]? | objects | .b | test("X"; "i")]`, `[.[]? | objects | .b | [splits("[ -]")]]`,
		`[.[]? | objects | .b | ascii_downcase, ascii_upcase, explode, length, utf8bytelength]`, `[.[]? | strings | @base64, (@base64 | @base64d)]`,
		`@json, @text`, `@json "v=\(.)"`, `"\(1 + 2) and \("x" * 3)"`, `[.[]? | objects | [.a, .b] | @csv, @tsv, @sh, @html, @uri]`,
		`tojson`, `tojson | fromjson`, `[.[]? | tostring]`, `[paths]`, `[leaf_paths?]`, `[path(..)]`, `[getpath(["a"], [0, "c"])?]`, `try setpath([0, "q"]; 1) catch .`, `[setpath((["a"], ["b"]); (1, 2))?]`, `[setpath(([0], [1]); (7, 8))?]`,
		`try del(.[0]) catch .`, `del(..|.a?)`, `try del(.[0,2]) catch .`, `try delpaths([[0],[1]]) catch .`, `try pick(.[1].a) catch .`, `flatten?`, `flatten(1)?`, `try transpose catch .`,
		`(1,2) + (10,20)`, `(1,2) - (10,20)`, `(1,2) * (10,20)`, `[1,2,1] - [1]`, `{"a":{"b":1}} * {"a":{"c":2}}`, `"x" * 0, "ab" * 2`, `"a,b" / ","`, `5 % 3, 7 / 2, -(1)`,
		`(1,2) < (1,3), [1] == [1], {"a":1} != {"a":1}, "a" <= "b", null >= false, [2] > [1,5]`, `1 as $x | [$x, $x + 1]`, `. as [$a, {b: $c}] ?// $a | $a`,
		`reduce range(5) as $i (0; . + $i)`, `[foreach range(5) as $i (0; . + $i; [$i, .])]`, `[limit(3; repeat(1))]`, `[range(0; 10; 3)]`, `until(true; .)`, `[while(false; .)]`,
		`label $f | 1, break $f, 2`, `try error("x") catch .`, `try error({"a":1}) catch .a`, `.a? // "none"`, `if . then 1 elif false then 2 else 3 end`, `[recurse(if type == "array" then .[] else empty end)]`,
		`def f(x): x * 2; def g($y): $y + 1; [f(3), g(4)]`, `def sort: "mine"; sort`, `def map(f): "mine"; map(1)`, `def f: def g: 3; g; f`, `[.[]?] | length`, `try join(",") catch .`, `[1,null,"a",true] | join("-")`,
		`[3,1,2] | index(1), rindex(2), indices(1), contains([1]), inside([1,2,3,4])`, `"abcabc" | index("c"), indices("bc"), ltrimstr("a"), startswith("ab")`, `[1,2,3] | .[1:], .[:-1], .[-1], .[[2]]`,
		`[1,[2]] | tostream`, `fromstream([1,[2]] | tostream)`, `[1,2] | combinations(2)`, `[[1,2],[3,4]] | [combinations]`, `walk(if type == "number" then . + 1 else . end)`, `[1,2] | IN(1,2), any, all`, `INDEX(.[]?; .a?)`,
		`"2024-03-01T10:00:00Z" | fromdate, (fromdate | todate), strptime("%Y-%m-%dT%H:%M:%SZ")`, `0 | strftime("%A, %B %d, %Y"), gmtime, (gmtime | mktime)`, `"12" | tonumber`, `["a","b"] | implode? // "no"`, `[65,66] | implode`,
		`.a += 1`, `.a? -= 1`, `.x *= 2`, `.x //= 3`, `.x /= 2`, `.x %= 2`, `[.[]? | numbers] | map(. += 1)`, `.["items"]?`, `."items"?`, `.["it" + "ems"]?`, `.[("items", "x")]?`, `{a: 1, "b": 2, ("c" + "d"): 3, @base64 "x": 4, "e\(1)": 5}`, `{(.[]? | strings): 1}`,
		`$__prog_args`, `ltrimstr(1)`, `abs?`, `[1,2] | bsearch(2), bsearch(3)`, `[splits("a")]?`, `input_line_number`, `getpath(["a","b"])?`, `isvalid(.a)?`, `have_literal_numbers?`, `tojson | test("a(b")`, `error`, `.[] as $x | $x`, `halt_error?`,
		`[.[]? | .a? // empty] | sort | reverse`, `nth(1)?`, `[nth(1; .[]?)]`, `[skip(1; .[]?)]`, `isempty(.[]?)`, `add(.[]?.a?)?`, `infinite, -infinite, nan | tostring`, `[.[]?] | first, last`, `last(.[]?)`, `getpath([])`, `to_entries? | from_entries`, `ascii?`, `limit(0; 1)`, `trim?, ltrim?`, `toboolean?`, `@text "a\(1)b"`, `1e1000, 100000000000000000000 + 1`,
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

// runGojq runs a program on gojq without guards.
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
		if err, bad := v.(error); bad {
			return "", err
		}
		text, err := gojq.Marshal(v)
		require.NoError(t, err)
		out = append(out, string(text))
	}
}

func TestNumbersAreKept(t *testing.T) {
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
		"env":                                  "function env/0 is not available",
		"$ENV.PATH":                            "$ENV is not available",
		"$__loc__":                             "$__loc__ is not available",
		"input":                                "function input/0 is not available",
		"[inputs]":                             "function inputs/0 is not available",
		"debug":                                "function debug/0 is not available",
		"stderr":                               "function stderr/0 is not available",
		"input_filename":                       "function input_filename/0 is not available",
		"halt":                                 "function halt/0 is not available",
		`"x" | halt_error`:                     "function halt_error/0 is not available",
		"builtins":                             "function builtins/0 is not available",
		"jn(1e15; 1e16)":                       "function jn/2 is not available",
		`import "a" as a; .`:                   "modules are not available",
		`include "a"; .`:                       "modules are not available",
		`"m" | modulemeta`:                     "function modulemeta/0 is not available",
		`_multiply("x"; 1e9)`:                  "a name that begins with _ is not available: _multiply",
		`_s_add`:                               "a name that begins with _ is not available",
		`def _g_index(x): x; 1`:                "a name that begins with _ is not available",
		"nosuch(1; 2)":                         "function nosuch/2 is not available",
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
		`.[0].a | test("(")`:        "cannot be matched",
		`.[1].a | test("(")`:        "invalid regular expression",
		`.[1].a | test("a"; "q")`:   `unsupported flag of a regular expression: "q"`,
		`.[1].a | test("a" * 2001)`: "a regular expression has 2001 bytes, at most 2000",
		`error(null)`:               "query: failed",

		// A value that holds itself: small in memory, endless as text.
		`reduce range(50) as $i (1; [.,.]) | error`: "failed with an error that is no text",
	} {
		_, err := run(t, query, `[{"a":1},{"a":"x"}]`, jq.Bounds{})
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%s: %v", query, err)
		require.ErrorContains(t, err, message, query)
	}
	_, err := run(t, `.[]`, `7`, jq.Bounds{})
	require.EqualError(t, err, "query: cannot iterate over a value of type number")
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
	_, err = run(t, `length`, "["+strings.Repeat("1,", 100_000)+"1]", jq.Bounds{Memory: 1 << 20})
	require.Equal(t, agent.CodeOverflow, agent.CodeOf(err))
	require.ErrorContains(t, err, "begin the program with .[] |")
	out, err = run(t, `.[] | select(. > 1)`, "["+strings.Repeat("1,", 100_000)+"2]", jq.Bounds{Memory: 1 << 20})
	require.NoError(t, err)
	require.Equal(t, "2", out)
}

// Two names that are not UTF-8 would be written as the same one.
func TestNamesAreText(t *testing.T) {
	t.Parallel()
	_, err := run(t, `{("/w==" | @base64d): 1, ("/g==" | @base64d): 2}`, `null`, jq.Bounds{})
	require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	require.EqualError(t, err, "query: makes an object with a name that is not UTF-8")
	out, err := run(t, `"/w==" | @base64d`, `null`, jq.Bounds{})
	require.NoError(t, err)
	require.Equal(t, `"\ufffd"`, out)
}

func TestTimeIsRounded(t *testing.T) {
	t.Parallel()
	_, err := run(t, `def f: f; f`, `null`, jq.Bounds{Time: 1001250 * time.Microsecond})
	require.EqualError(t, err, "query: takes longer than 1s; filter the rows first, or do less with each")
	_, err = run(t, `def f: f; f`, `null`, jq.Bounds{Time: 20 * time.Millisecond})
	require.ErrorContains(t, err, "takes longer than 20ms;")
}

// An ended context ends a program, and the wait for its turn.
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
