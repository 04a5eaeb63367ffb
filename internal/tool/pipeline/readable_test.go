package pipeline_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/dataset"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

// TestUnreadableRowsAreFaults checks that a step fails if its rows could not be read back.
func TestUnreadableRowsAreFaults(t *testing.T) {
	const huge = `[{"g":"a","v":1},{"g":"b","h":2,"v":1.7e308},{"g":"b","h":2,"v":"1.7e308"}]`
	tests := []struct {
		name, data, step, field, says string
		maxBytes                      int64
	}{
		{
			name: "sum", data: huge, step: `{"step":"groupby","by":["g","h"],"agg":"sum","field":"v"}`, field: "pipeline[0].field",
			says: `the sum of field "v" in the group g "b", h 2 is beyond what a 64-bit float holds`,
		},
		{
			name: "sum of all", data: huge, step: `{"step":"groupby","by":[],"fields":["count()","sum(v) as s"]}`, field: "pipeline[0].fields[1]",
			says: `the sum of field "v" is beyond what a 64-bit float holds`,
		},
		{
			name: "average of strings", data: `[{"v":"1e350"}]`, step: `{"step":"groupby","by":[],"agg":"avg","field":"v"}`, field: "pipeline[0].field",
			says: `the avg of field "v" is beyond`,
		},
		{
			name: "an integer of jq", data: `[1]`, step: `{"step":"jq_transform","query":"1, {a:[\"9\" * 400 | tonumber | . + 1]}"}`, field: "pipeline[0].query",
			says: `makes row 1, which cannot be kept, a[0]: the number 1000`,
		},
		{
			name: "a number that jq has read", data: `[1]`, step: `{"step":"jq_transform","query":"\"1e999\" | fromjson"}`, field: "pipeline[0].query",
			says: `the number 1e999 is beyond what a 64-bit float holds`,
		},
		{
			name: "depth", data: `[1]`, step: `{"step":"jq_transform","query":"reduce range(501) as $i (0; [.]) | {a: .}"}`, field: "pipeline[0].query",
			says: `is nested deeper than 500`,
		},
		{
			name: "names", data: `[1]`, step: `{"step":"jq_transform","query":"{(\"/w==\"|@base64d):1,(\"/g==\"|@base64d):2}"}`, field: "pipeline[0].query",
			says: `a name that is not UTF-8`,
		},
		{
			name: "commas", data: `[1]`, step: `{"step":"jq_transform","query":"range(10)"}`, field: "pipeline[0]", maxBytes: 20,
			says: `the result is larger than 20 bytes as JSON`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := call(t, pipeline.Config{Datasets: datasets{"acme/cas://x": tt.data}, MaxBytes: tt.maxBytes},
				fmt.Sprintf(`{"session_id":"s","input_ref":"cas://x","pipeline":[%s]}`, tt.step))
			require.NotNil(t, res.Failure)
			require.Equal(t, tt.field, res.Failure.Field, res.Failure.Message)
			require.Contains(t, res.Failure.Message, tt.says)
			require.Less(t, len(res.Failure.Message), 500)
		})
	}
	exactly := call(t, pipeline.Config{Datasets: datasets{"acme/cas://x": `[1]`}, MaxBytes: 21},
		`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"jq_transform","query":"range(10)"}]}`)
	require.Equal(t, `[0,1,2,3,4,5,6,7,8,9]`, rows(t, exactly))
	deepest := `[` + nested(500) + `,2]`
	require.Equal(t, deepest, rows(t, over(t, deepest, `{"step":"jq_transform","query":"."}`)))
}

// TestResultsCanBeReadAgain runs random pipelines on random rows, and checks that all stored rows can be read back.
func TestResultsCanBeReadAgain(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(11, 5))
	made := 0
	for range 1000 {
		left, right := anyRows(r), anyRows(r)
		var steps []string
		for range 1 + r.IntN(4) {
			steps = append(steps, anyStep(r))
		}
		cfg := pipeline.Config{Blobs: newStore(), Datasets: datasets{"acme/cas://x": left, "acme/cas://y": right}, MaxBytes: 60_000}
		args := fmt.Sprintf(`{"session_id":"s","input_ref":"cas://x","pipeline":[%s]}`, strings.Join(steps, ","))
		res, err := pipeline.New(cfg).Tools()[0].Call(t.Context(), agent.Invocation{Tenant: "acme"}, agent.ToolCall{ID: "call_1", Args: json.RawMessage(args)})
		require.NoError(t, err, args)
		tooltest.CheckResult(t, res)
		if res.Failure != nil {
			continue
		}
		made++
		stored := cfg.Blobs.(*store).get(res.Dataset)
		again, err := dataset.ReadJSON(strings.NewReader(stored), dataset.Limits{Rows: pipeline.DefaultMaxRows, Bytes: cfg.MaxBytes})
		require.NoError(t, err, "%s\n%s\n%s", args, left, right)
		require.Len(t, again, res.Dataset.RowCount, args)
	}
	require.Greater(t, made, 250, "many pipelines should work")
}

// anyRows returns random objects whose fields collide with the names that steps add, and whose values are at the bounds of datasets.
func anyRows(r *rand.Rand) string {
	names := []string{"a", "b", "k", "a.b", "a_1", "a_match", "b_right", "a_right", "sum_a", "count", `\u0061_2`, `é`}
	values := []string{
		`1`, `-0`, `"1e399"`, `1.7e308`, `"2"`, `1e-320`, `0.10`, `null`, `true`, `"x-1 y"`, `"\u00e9\"\\\n"`, `""`, `"2026-01-31"`, `{"b":1,"c":{"b":"x"}}`, `[3, {"b":2}]`,
		`{"b": "2024-02-29T10:00:00+01:00"}`, `9007199254740993`, nested(499), `{"b":` + nested(498) + `}`, strings.Repeat("9", 308), `"\ufffd"`,
	}
	list := make([]string, r.IntN(8))
	for i := range list {
		var members []string
		for _, j := range r.Perm(len(names))[:r.IntN(7)] {
			members = append(members, `"`+names[j]+`" : `+values[r.IntN(len(values))])
		}
		list[i] = `{` + strings.Join(members, " , ") + `}`
	}
	return `[` + strings.Join(list, ",") + `]`
}

// anyStep returns a random step.
func anyStep(r *rand.Rand) string {
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	field := func() string { return pick("a", "a", "b", "k", "a.b", "a.c.b", "b.0", "sum_a", "count", "a_right") }
	switch r.IntN(9) {
	case 0:
		return fmt.Sprintf(`{"step":"table_select","fields":[%q,%q,%q]}`, field()+" as a", field()+" as b", field()+pick(" as a.b", " as k", " as sum_a", ` as a"b`))
	case 1:
		return fmt.Sprintf(`{"step":"groupby","by":[%s],"agg":%q,"fields":[%q,%q]}`, pick(``, `"k"`, `"a","b"`, `"a.b as b"`), pick("sum", "avg", "min", "max"), field(),
			pick("count()", "count(a) as n", "max(b) as a_1"))
	case 2:
		return fmt.Sprintf(`{"step":"join","right":"cas://y","on":%q,"how":%q}`, pick("a", "k", "a=b", "a.b=a", "k,b"), pick("inner", "left"))
	case 3:
		return fmt.Sprintf(`{"step":"regex_extract","field":%q,"pattern":%q}`, field(), pick(`(.)-?(\d*)`, `(?P<a>.)(?P<b>.?)`, `\w+`, `(?P<a_2>.)(.)?`, `(?P<count>é)`))
	case 4:
		return fmt.Sprintf(`{"step":"parse_date","field":%q%s}`, field(), pick(``, `,"format":"%s"`, `,"format":"%Y-%m-%d"`))
	case 5:
		return fmt.Sprintf(`{"step":"jq_transform","query":%q}`, pick(`.`, `.[]`, `map(.a?)`, `.[] | {a: [.a], k: .b}`, `map(. + {n: (99999999999999999999 * 99999999999999999999)})`,
			`[.]`, `.[] | to_entries`, `.[] | with_entries(.key |= "x")`, `.[] | .b |= [[.]]`, `add`, `map({(.k? | tostring | @base64d?): 1})`, `.[0] | .a = ("9" * 400 | tonumber | . + 1)`))
	case 6:
		return fmt.Sprintf(`{"step":"table_sort","field":%q}`, field())
	case 7:
		return fmt.Sprintf(`{"step":"table_filter","condition":{"or":[{"field":%q,"op":"exists"},{"field":"k","op":"exists","value":false}]}}`, field())
	default:
		return `{"step":"top_k","k":4}`
	}
}
