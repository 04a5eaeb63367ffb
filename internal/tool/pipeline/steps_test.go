package pipeline_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

func TestRowsOfDocuments(t *testing.T) {
	tests := []struct{ name, doc, want string }{
		{"array", ` [ {"b":1, "a":2} ] `, `[{"b":1,"a":2}]`},
		{"byte order mark", "\ufeff[1]", `[1]`},
		{"empty array", `[]`, `[]`},
		{"well-known name", `{"tags":[{"x":1}],"items":[{"a":1}]}`, `[{"a":1}]`},
		{"first well-known name", `{"data":[{"a":2}],"items":[{"a":1}]}`, `[{"a":1}]`},
		{"well-known and empty", `{"results":[],"count":0}`, `[]`},
		{"one array of objects", `{"airlines":[{"a":1}],"tags":["x"]}`, `[{"a":1}]`},
		{"wrapped", `{"status":"ok","data":{"page":1,"items":[{"a":1}]}}`, `[{"a":1}]`},
		{"one object", `{"id":1,"tags":["x"]}`, `[{"id":1,"tags":["x"]}]`},
		{"wrapped object", `{"data":{"id":1}}`, `[{"id":1}]`},
		{"digits and escapes stay", `[{"n":12345678901234567890.10,"s":"\u00e9<&>"}]`, `[{"n":12345678901234567890.10,"s":"\u00e9<&>"}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, rows(t, over(t, tt.doc, ``)))
		})
	}
}

func TestFilter(t *testing.T) {
	const data = `[{"id":1,"price":100,"name":"Delta","tags":["a","b"],"seat":{"class":"eco"},"x.y":1},
		{"id":2,"price":"250.50","name":"United","tags":[],"seat":{"class":"first"},"stops":null},
		{"id":3,"price":9007199254740993,"name":"delta","stops":0},
		{"id":4,"name":null,"legs":[{"from":"NYC"}]}]`
	tests := []struct{ condition, want string }{
		{`{"field":"price","op":"<","value":300}`, "1 2"},
		{`{"field":"price","op":"<=","value":"100.0"}`, "1"},
		{`{"field":"price","op":">","value":9007199254740992}`, "3"},
		{`{"field":"price","op":"=","value":9007199254740992}`, ""},
		{`{"field":"price","op":"=","value":1e2}`, "1"},
		{`{"field":"price","op":"==","value":250.5}`, "2"},
		{`{"field":"price","op":"!=","value":100}`, "2 3 4"},
		{`{"field":"price","op":">=","value":0.0}`, "1 2 3"},
		{`{"field":"price","op":"in","value":[100,"x",250.5]}`, "1 2"},
		{`{"field":"name","op":"contains","value":"elta"}`, "1 3"},
		{`{"field":"tags","op":"contains","value":"b"}`, "1"},
		{`{"field":"name","op":"matches","value":"(?i)^delta$"}`, "1 3"},
		{`{"field":"name","op":"=","value":null}`, "4"},
		{`{"field":"name","op":">","value":"E"}`, "2 3"},
		{`{"field":"stops","op":"exists"}`, "3"},
		{`{"field":"stops","op":"exists","value":false}`, "1 2 4"},
		{`{"field":"nowhere","op":"exists","value":true}`, ""},
		{`{"field":"seat.class","op":"=","value":"eco"}`, "1"},
		{`{"field":"x.y","op":"=","value":1}`, "1"},
		{`{"field":"legs.0.from","op":"=","value":"NYC"}`, "4"},
		{`{"and":[{"field":"price","op":">","value":50},{"field":"name","op":"contains","value":"elta"}]}`, "1 3"},
		{`{"or":[{"field":"id","op":"=","value":2},{"and":[{"field":"id","op":">","value":2},{"not":{"field":"price","op":"exists"}}]}]}`, "2 4"},
		{`{"not":{"or":[{"field":"id","op":"=","value":2},{"field":"id","op":"=","value":1}]}}`, "3 4"},
	}
	for _, tt := range tests {
		t.Run(tt.condition, func(t *testing.T) {
			require.Equal(t, tt.want, ids(t, over(t, data, `{"step":"table_filter","condition":`+tt.condition+`}`)))
		})
	}
}

// TestFilterOnSparseFields checks that a field that only some rows have is no fault, in any order of the parts of a condition.
func TestFilterOnSparseFields(t *testing.T) {
	const data = `[{"id":1,"t":"b","x":5},{"id":2,"t":"a"},{"id":3,"t":"b","x":"n/a"},{"id":4,"t":"a","x":"?"}]`
	const isA, isB, small, big = `{"field":"t","op":"=","value":"a"}`, `{"field":"t","op":"=","value":"b"}`,
		`{"field":"x","op":"<=","value":1}`, `{"field":"x","op":">","value":1}`
	const none, some = `{"field":"nowhere","op":"exists","value":false}`, `{"field":"nowhere.at","op":">","value":1}`
	for _, tt := range []struct{ op, one, other, want string }{
		{"and", isA, big, ""},
		{"and", isB, big, "1"},
		{"or", isA, big, "1 2 4"},
		{"or", isB, big, "1 3"},
		{"or", isB, small, "1 3"},
		{"and", isA, `{"not":` + big + `}`, "2 4"},
		{"and", isA, `{"field":"x","op":"in","value":[5]}`, ""},
		{"or", none, some, "1 2 3 4"}, // the condition tests whether the field exists
		{"and", isA, `{"or":[` + some + `,` + none + `]}`, "2 4"},
	} {
		for _, parts := range []string{tt.one + `,` + tt.other, tt.other + `,` + tt.one} {
			t.Run(parts, func(t *testing.T) {
				require.Equal(t, tt.want, ids(t, over(t, data, `{"step":"table_filter","condition":{"`+tt.op+`":[`+parts+`]}}`)))
			})
		}
	}
}

// ids returns the values of the field id.
func ids(t *testing.T, res agent.ToolResult) string {
	t.Helper()
	var list []struct{ ID json.Number }
	require.NoError(t, json.Unmarshal([]byte(rows(t, res)), &list))
	var out []string
	for _, r := range list {
		out = append(out, r.ID.String())
	}
	return strings.Join(out, " ")
}

func TestSort(t *testing.T) {
	tests := []struct{ name, data, step, want string }{
		{"numbers", `[{"id":1,"p":10},{"id":2,"p":9},{"id":3,"p":-1.5},{"id":4,"p":1e1}]`, `"field":"p"`, "3 2 1 4"},
		{"descending is stable too", `[{"id":1,"p":1},{"id":2,"p":2},{"id":3,"p":1},{"id":4,"p":2}]`, `"field":"p","order":"desc"`, "2 4 1 3"},
		{"beyond float64", `[{"id":1,"p":9007199254740993},{"id":2,"p":9007199254740992},{"id":3,"p":0.10000000000000000001},{"id":4,"p":0.1}]`, `"field":"p"`, "4 3 2 1"},
		{"exponents beyond reason", `[{"id":1,"p":"1e99999"},{"id":2,"p":"-1e99999"},{"id":3,"p":"1e-99999"},{"id":4,"p":1}]`, `"field":"p"`, "2 3 4 1"},
		{"numbers as strings", `[{"id":1,"p":"1000"},{"id":2,"p":"299.5"},{"id":3,"p":30}]`, `"field":"p"`, "3 2 1"},
		{"strings", `[{"id":1,"p":"b"},{"id":2,"p":"B"},{"id":3,"p":"a"}]`, `"field":"p"`, "2 3 1"},
		{"null and missing last", `[{"id":1,"p":null},{"id":2},{"id":3,"p":2},{"id":4,"p":1}]`, `"field":"p"`, "4 3 1 2"},
		{"null and missing last, descending", `[{"id":1,"p":null},{"id":2},{"id":3,"p":2},{"id":4,"p":1}]`, `"field":"p","order":"desc"`, "3 4 1 2"},
		{"mixed", `[{"id":1,"p":{}},{"id":2,"p":true},{"id":3,"p":"x"},{"id":4,"p":7},{"id":5,"p":false},{"id":6,"p":[]}]`, `"field":"p"`, "4 3 5 2 1 6"},
		{"two keys", `[{"id":1,"a":2,"b":1},{"id":2,"a":1,"b":2},{"id":3,"a":1,"b":1}]`, `"fields":["a","b"]`, "3 2 1"},
		{"path", `[{"id":1,"a":{"b":2}},{"id":2,"a":{"b":1}}]`, `"field":"a.b"`, "2 1"},
		{"no rows", `[]`, `"field":"p"`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, ids(t, over(t, tt.data, `{"step":"table_sort",`+tt.step+`}`)))
		})
	}
}

// TestSortOfManyEqualRowsIsStable sorts many rows, because an unstable sort may keep the order of a few.
func TestSortOfManyEqualRowsIsStable(t *testing.T) {
	var data, want []string
	for i := range 500 {
		data = append(data, fmt.Sprintf(`{"id":%d,"p":%d}`, i, i%2))
	}
	for first := range 2 {
		for i := first; i < 500; i += 2 {
			want = append(want, strconv.Itoa(i))
		}
	}
	require.Equal(t, strings.Join(want, " "), ids(t, over(t, "["+strings.Join(data, ",")+"]", `{"step":"table_sort","field":"p"}`)))
}

func TestSelectAndTopK(t *testing.T) {
	const data = `[{"id":1,"p":{"total":1.50,"c":"USD"},"legs":["x","y"]},{"id":2}]`
	require.JSONEq(t, `[{"p.total":1.50,"legs.1":"y","id":1},{"p.total":null,"legs.1":null,"id":2}]`,
		rows(t, over(t, data, `{"step":"table_select","fields":["p.total","legs.1","id"]}`)))
	require.Equal(t, `[{"id":2}]`, rows(t, over(t, data, `{"step":"table_sort","field":"id","order":"desc"},{"step":"top_k","k":1}`)))
	require.Equal(t, "1 2", ids(t, over(t, data, `{"step":"top_k","k":1e30}`)))
	require.Equal(t, "1 2", ids(t, over(t, data, `{"step":"top_k","k":2.0}`)))
	require.Equal(t, `[{"total":1.50,"id":1,"again":1},{"total":null,"id":2,"again":2}]`,
		rows(t, over(t, data, `{"step":"table_select","fields":["p.total as total","id","id as again"]}`)))
}

// TestFaultsOfRows checks that a step fails if its arguments do not fit any row.
func TestFaultsOfRows(t *testing.T) {
	tests := []struct{ name, data, step, field, says string }{
		{"sort by no field", `[{"price":1,"id":2}]`, `{"step":"table_sort","field":"prise"}`, "pipeline[0].field", `no row has a field "prise"; the first row has id, price`},
		{"sort by no second field", `[{"price":1}]`, `{"step":"table_sort","fields":["price","x"]}`, "pipeline[0].fields[1]", `"x"`},
		{"filter on no field", `[{"price":1}]`, `{"step":"table_filter","condition":{"not":{"field":"x","op":"=","value":1}}}`, "pipeline[0].condition.not.field", `"x"`},
		{"select no field", `[{"price":1}]`, `{"step":"table_select","fields":["price","x"]}`, "pipeline[0].fields[1]", `"x"`},
		{"filter with another type", `[{"price":1},{"price":null}]`, `{"step":"table_filter","condition":{"field":"price","op":"<","value":"cheap"}}`, "pipeline[0].condition.value", `"cheap" cannot be compared with 1, which is the "price" of row 0`},
		{"filter with a number", `[{"n":null},{"n":"x"},{"n":[1]}]`, `{"step":"table_filter","condition":{"field":"n","op":">","value":9}}`, "pipeline[0].condition.value", `9 cannot be compared with "x", which is the "n" of row 1`},
		{"filter on no field that no row reached", `[{"t":"a"}]`, `{"step":"table_filter","condition":{"and":[{"field":"t","op":"=","value":"b"},{"field":"x","op":">","value":1}]}}`, "pipeline[0].condition.and[1].field", `no row has a field "x"; the first row has t`},
		{"the other way round", `[{"t":"a"}]`, `{"step":"table_filter","condition":{"and":[{"field":"x","op":">","value":1},{"field":"t","op":"=","value":"b"}]}}`, "pipeline[0].condition.and[0].field", `no row has a field "x"; the first row has t`},
		{"sort by no position", `[{"a":[1,2]}]`, `{"step":"table_sort","field":"a.+1"}`, "pipeline[0].field", `no row has a field "a.+1"`},
		{"select no position", `[{"a":[1,2]}]`, `{"step":"table_select","fields":["a.0","a.01"]}`, "pipeline[0].fields[1]", `no row has a field "a.01"`},
		{"nor this one", `[{"a":[1,2]}]`, `{"step":"table_select","fields":["a.-0"]}`, "pipeline[0].fields[0]", `no row has a field "a.-0"`},
		{"rows that are no objects", `[1,2]`, `{"step":"table_sort","field":"x"}`, "pipeline[0]", "a number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := over(t, tt.data, tt.step)
			require.NotNil(t, res.Failure)
			require.Equal(t, tt.field, res.Failure.Field)
			require.Contains(t, res.Failure.Message, tt.says)
		})
	}
	require.Equal(t, "1", ids(t, over(t, `[{"id":1,"p":1},{"id":2,"p":"n/a"}]`, `{"step":"table_filter","condition":{"field":"p","op":"<","value":5}}`)),
		"some dirt in a column is left out, not a fault")
}

func TestPreviewIsSmall(t *testing.T) {
	big := strings.Repeat("x", 100)
	res := over(t, fmt.Sprintf(`[{"a":%q},{"a":%q},{"a":%q},{"a":1},{"a":1},{"a":1}]`, big, big, big), ``)
	tooltest.CheckResult(t, res)
	var preview struct {
		RowCount int               `json:"row_count"`
		Sample   []json.RawMessage `json:"sample"`
	}
	require.NoError(t, json.Unmarshal(res.Preview, &preview))
	require.Equal(t, 6, preview.RowCount)
	require.Len(t, preview.Sample, 2)
}

// FuzzArguments checks that a call with any arguments returns a well-formed result, and that nothing panics.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{
		`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"table_sort","field":"a","order":"desc"},{"step":"top_k","k":1}]}`,
		`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"table_select","fields":["b.c","a"]},{"step":"table_filter","condition":{"field":"a","op":"<","value":2}}]}`,
		`{"session_id":"s","pipeline":[{"step":"http_request","url":"a.com","method":"POST","params":{"a":[1,null,"x"]}}]}`,
		`{"session_id":"s","pipeline":[{"step":"http_request","url":"a.com","method":null}]}`,
		`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"groupby","by":["a"],"agg":"sum","fields":["b.c","avg(a) as m","count()"]}]}`,
		`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"groupby","by":[],"agg":"max","field":"a"}]}`,
		`{"session_id":"s","pipeline":[{"step":"join","left":"cas://x","right":"cas://x","on":"a=b.c,a","how":"left"}]}`,
		`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"jq_transform","query":".[] | {a, n: (.b|length)}"}]}`,
		`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"regex_extract","pattern":"(?P<n>x)|(\\d+)","field":"b.c"}]}`,
		`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"parse_date","field":"d","format":"%Y-%m-%d %z"}]}`,
		`{"pipeline":[[]]}`, `null`, `{"session_id":"s","pipeline":[null]}`,
	} {
		f.Add(s)
	}
	tool := pipeline.New(pipeline.Config{Datasets: datasets{"/cas://x": `[{"a":1,"b":{"c":"x"},"d":"2026-01-02"},{"a":"2"},{"a":null}]`}}).Tools()[0]
	f.Fuzz(func(t *testing.T, args string) {
		res, err := tool.Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(args)})
		if err != nil {
			require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err)) // the dataset cas://down
			return
		}
		tooltest.CheckResult(t, res)
		require.LessOrEqual(t, len(tool.(agent.Summarizer).Summarize(json.RawMessage(args))), 100)
		tool.(agent.EffectFree).EffectFree(json.RawMessage(args))
	})
}

// FuzzCondition checks that each row meets either a condition or its negation.
func FuzzCondition(f *testing.F) {
	for _, s := range []string{
		`{"field":"a","op":"<","value":2}`, `{"and":[{"field":"a","op":"in","value":[1,"2"]},{"not":{"field":"b.c","op":"matches","value":"^x"}}]}`,
		`{"or":[{"field":"a","op":"exists","value":false},{"field":"a","op":"contains","value":"2"}]}`, `{"field":"a","op":"=","value":1e99}`,
	} {
		f.Add(s)
	}
	const data = `[{"a":1,"b":{"c":"x"}},{"a":"2"},{"a":null},{"a":[1,2]},{"a":-0.5e3}]`
	tool := pipeline.New(pipeline.Config{Datasets: datasets{"/cas://x": data}}).Tools()[0]
	filter := func(t *testing.T, condition string) (int, bool) {
		res, err := tool.Call(t.Context(), agent.Invocation{}, agent.ToolCall{Args: json.RawMessage(
			`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"table_filter","condition":` + condition + `}]}`)})
		require.NoError(t, err)
		var list []json.RawMessage
		_ = json.Unmarshal(res.Data, &list)
		return len(list), res.Failure == nil
	}
	f.Fuzz(func(t *testing.T, condition string) {
		if !json.Valid([]byte(condition)) {
			return
		}
		kept, ok := filter(t, condition)
		dropped, okToo := filter(t, `{"not":`+condition+`}`)
		if ok && okToo {
			require.Equal(t, 5, kept+dropped, condition)
		}
	})
}
