//go:build linux

package jq_test

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/jq"
)

func hostile() []string {
	return []string{
		`[range(1e9)]`, `def f: f; f`, `def f: 1 + f; f`, `def f: [f]; f`, `"x" * 1e9`, `1e9 * "x"`, `reduce range(100) as $i ("x"; . + .)`, `reduce range(100) as $i (["x"]; . + .)`,
		`[limit(1e9; repeat(1))]`, `.[1e9] = 1`, `.[500000000] = 1`, `.[999999] = 1 | [limit(1000; repeat(.))] | map(.[999998] = 1)`, `null | nth(5e8) = 1`, `pick(nth(5e8))`, `setpath([5e8]; 1)`, `(5e8 as $i | .[$i]) |= 1`,
		`getpath([5e8]) = 1`, `reduce range(60) as $i (1; [.,.])`, `reduce range(60) as $i (1; [.,.]) | tojson`, `reduce range(60) as $i (1; [.,.]) | flatten`, `reduce range(60) as $i (1; [.,.]) | . == .`,
		`reduce range(60) as $i (1; [.,.]) | [.. | ..]`, `reduce range(60) as $i (1; [.,.]) | "\(.)"`, `reduce range(60) as $i (1; [.,.]) | @base64`, `reduce range(60) as $i (1; {a:.,b:.}) | . * .`,
		`reduce range(60) as $i (1; {a:.,b:.}) | del(.a.a)`, `reduce range(60) as $i (1; {a:.,b:.}) | .a |= empty`, `reduce range(60) as $i (1; [.,.]) | sort`, `reduce range(60) as $i (1; [.,.]) | unique`, `reduce range(60) as $i (1; [.,.]) | contains([[1]])`,
		`reduce range(60) as $i (1; [.,.]) | index([1])`, `reduce range(60) as $i (1; [.,.]) | min`, `reduce range(60) as $i (1; [.,.]) | [.] - [.]`, `reduce range(60) as $i (1; [.,.]) | group_by(.)`, `reduce range(60) as $i (1; [.,.]) | walk(.)`, `reduce range(60) as $i (1; [.,.]) | tostream`,
		`reduce range(60) as $i (1; [.,.]) | error`, `reduce range(60) as $i (1; [.,.]) | try error catch tojson`, `reduce range(60) as $i (1; [.,.]) | {(tojson): 1}`, `reduce range(60) as $i (1; [.,.]) | bsearch(1)`, `reduce range(60) as $i (1; [.,.]) | indices([[1]])`, `reduce range(60) as $i (1; [.,.]) | @html "\(.)"`,
		`reduce range(1e7) as $i (0; [.])`, `reduce range(1e7) as $i (0; [.]) | tojson`, `reduce range(1e6) as $i (0; [.]) | . == .`, `reduce range(1e6) as $i (0; [.]) | .. = 1`, `reduce range(1e6) as $i (0; [.]) | flatten`, `(reduce range(1e7) as $i (.; .[0])) = 1`, `(reduce range(1e6) as $i (.; .a)) |= 1`,
		`setpath([range(1e6) | "a"]; 1)`, `getpath([range(1e6) | "a"]) = 1`, `delpaths([[range(1e6) | "a"]])`, `def f: .[0] | f; f = 1`, `last(limit(1e6; recurse(.a))) = 1`,
		`("a" * 2000000) | explode | implode`, `("a" * 2000000) | [., .] | add`, `[range(1000000)] | map("x" * 4) | join("y" * 1000000)`, `("a" * 2000000) as $s | [range(1e6) | $s] | add`, `("a" * 2000000) as $s | [range(1e5) | $s] | join("")`,
		`("a" * 2000000) as $s | "\($s)\($s)\($s)\($s)\($s)\($s)\($s)\($s)"`, `("a" * 2000000) | split("")`, `("<" * 2000000) | @html | @html | @html`, `("a" * 1000000) | test("(a+)+$")`, `("a" * 2000000) | test("(a{1,1000}){1,1000}b")`, `("a" * 1000000) | test("(((((a{1,30}){1,30})?)?)?)b")`, `("a" * 1000000) | test("(((((a{1,30}){1,30])?)?)?)b")`,
		`("a" * 2000000) | [match("a"; "g")] | length`, `("a" * 2000000) | gsub("a"; "bb")`, `("a" * 100000) | gsub("";"x")`, `("ab" * 1000000) | [scan("(a)(b)")]`, `[range(1e6)] | map(tostring | test("x\(.)")) | length`, `("a" * 1000000) | indices("a" * 500000)`,
		`[range(300000)] | . - [range(300000; 600000)]`, `[range(100000)] | contains([range(100000)])`, `[range(2000000)] | sort_by(-.)`, `[range(1e6) | {a: -., b: [.]}] | sort`, `[range(1000)] | [combinations(5)]`, `[range(20)] | [combinations(20)]`, `[range(1000000)] | [., [1]] | transpose`,
		`[[range(1000000)]] + [range(1000) | []] | transpose`, `reduce range(60) as $i (99999999999999999999; . * .)`, `reduce range(1e9) as $i (99999999999999999999; . + .)`, `"9" * 2000000 | tonumber`, `"[" * 2000000 | fromjson`, `("[" * 9000 + "]" * 9000) | fromjson | tojson`, `("[{}" + ",{}" * 1000000 + "]") | fromjson | map(.)`,
		`jn(1e15; 1e16)`, `0 | strftime("%1024Y" * 100000)`, `"x" | strptime("%Y" * 1000000)`, `. as $x | [limit(1e8; repeat($x))]`, `[recurse(. + 1)]`, `recurse`, `def r: [r, r]; r`, `[range(1e8)] | length`, `last(range(1e10))`, `until(false; .)`, `[while(true; .)]`, `reduce repeat(1) as $x (0; . + 1)`, `first(empty | repeat(1))`,
		`[limit(5000000; range(1e9))] | .[] |= . + 1`, `reduce range(1000000) as $i ([]; . + [$i])`, `reduce range(1e6) as $i ({}; .[$i | tostring] = $i)`, `[range(1e6) | [range(100)]]`, `[range(3000000)] as $a | [$a[] | $a[] | $a[]]`, `[range(1e7)] | [.[] | tojson] | add`, `try ("x" * 1e9) catch ("y" * 1e9)`,
		`def f: try f catch f; f`, `[.[]?, (label $out | repeat(1))]`, `[range(1e9) | select(false)]`, `range(1e9) | empty`, `input_line_number`, `[splits("a")]`, `limit(1e9; repeat("x" * 1000))`, `repeat("x" * 1000000)`, `to_entries`, `[range(500000) | {k: tostring, key: tostring}] | from_entries | to_entries | from_entries | keys`, `[range(1e6)|tostring] | @csv`, `[paths(..)]`, `env`, `("%" * 2000000) | @uri | @uri`,
		`[range(1e6)] | tojson | @base64 | @base64 | @base64`, `[range(2e6)] | flatten(0) | reverse | add`, `("a" * 1000000) as $s | [range(1000)] | map($s | ascii_downcase)`, `[range(1e6)] | map({a: .}) | group_by(.a) | map(add)`, `[range(1e6) | [., .]] | unique_by(.[0]) | INDEX(.[0])`,
		`[range(100000)] | reduce .[] as $i (.; .[$i] += 1)`, `[range(1e6)] | del(.[range(0; 1e6; 2)])`, `[range(1e6)] | map(select(. % 2 == 0)) | to_entries`,
	}
}

// The process of any program ends soon after its time limit, and uses little more than its memory limit.
func TestHostilePrograms(t *testing.T) {
	const memory, slack = 64 << 20, 256 << 20 // the race detector takes most of slack
	for _, query := range hostile() {
		start := time.Now()
		p, err := jq.Compile(query)
		if err == nil {
			_, err = p.Run(t.Context(), json.RawMessage("null"), jq.Bounds{Time: 200 * time.Millisecond, Memory: memory, Bytes: 16 << 20})
		}
		require.Less(t, time.Since(start), 10*time.Second, query)
		if err != nil {
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, agent.CodeOf(err), "%s: %v", query, err)
			require.Less(t, len(err.Error()), 400)
		}
		var used syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used))
		require.Less(t, used.Maxrss<<10, int64(memory+slack), "%s: %v", query, err)
		if testing.Verbose() {
			t.Logf("%6d ms %5d MiB %s %v", time.Since(start).Milliseconds(), used.Maxrss>>10, query, err)
		}
	}
}

func FuzzProgram(f *testing.F) {
	for i, q := range hostile() {
		if i%8 == 0 { // TestHostilePrograms runs all
			f.Add(q, `[{"a":1,"b":"x"}]`)
		}
	}
	f.Fuzz(func(t *testing.T, query, doc string) {
		p, err := jq.Compile(query)
		if err != nil {
			require.Equal(t, agent.CodeInvalid, agent.CodeOf(err), "%v", err)
			return
		}
		if !json.Valid([]byte(doc)) {
			doc = "null"
		}
		start := time.Now()
		out, err := p.Run(t.Context(), json.RawMessage(doc), jq.Bounds{Time: 50 * time.Millisecond, Memory: 32 << 20, Outputs: 1000, Bytes: 1 << 20})
		require.Less(t, time.Since(start), 10*time.Second)
		if err != nil {
			require.Contains(t, []agent.Code{agent.CodeInvalid, agent.CodeOverflow}, agent.CodeOf(err), "%v", err)
		}
		for _, o := range out {
			require.True(t, json.Valid(o))
		}
	})
}
