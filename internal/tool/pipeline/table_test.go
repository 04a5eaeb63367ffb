package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
)

func TestGroupBy(t *testing.T) {
	const sales = `[{"c":"a","n":1,"r":10.10,"d":"2026-02-01","t":{"x":1}},{"c":"b","n":2,"r":"20.20","d":"2026-01-01","t":{"x":2}},
		{"c":"a","n":1.0,"r":0.20,"d":null,"t":{"x":1}},{"c":null,"n":1,"r":null},{"n":1e0,"r":5}]`
	tests := []struct{ name, data, step, want string }{
		{"sum", sales, `"by":["c"],"agg":"sum","field":"r"`, `[{"c":"a","sum_r":10.30},{"c":"b","sum_r":20.20},{"c":null,"sum_r":5}]`},
		{"count of rows", sales, `"by":["c"],"agg":"count"`, `[{"c":"a","count":2},{"c":"b","count":1},{"c":null,"count":2}]`},
		{"count of values", sales, `"by":["c"],"agg":"count","field":"r"`, `[{"c":"a","count_r":2},{"c":"b","count_r":1},{"c":null,"count_r":1}]`},
		{"avg", sales, `"by":["c"],"agg":"avg","field":"r"`, `[{"c":"a","avg_r":5.15},{"c":"b","avg_r":20.2},{"c":null,"avg_r":5}]`},
		{"min of dates", sales, `"by":[],"agg":"min","field":"d"`, `[{"min_d":"2026-01-01"}]`},
		{"max of dates", sales, `"by":[],"agg":"max","field":"d"`, `[{"max_d":"2026-02-01"}]`},
		{"max keeps what was written", sales, `"by":[],"agg":"max","field":"r"`, `[{"max_r":"20.20"}]`},
		{"min of mixed kinds", `[{"a":"x"},{"a":true},{"a":"2"},{"a":7}]`, `"by":[],"agg":"min","field":"a"`, `[{"min_a":7}]`},
		{"max of mixed kinds", `[{"a":"x"},{"a":true},{"a":"2"},{"a":7}]`, `"by":[],"agg":"max","field":"a"`, `[{"max_a":true}]`},
		{"the first of equal ones", `[{"a":1.0},{"a":1}]`, `"by":[],"agg":"max","field":"a"`, `[{"max_a":1.0}]`},
		{"one number, many ways to write it", sales, `"by":["n"],"agg":"count"`, `[{"n":1,"count":4},{"n":2,"count":1}]`},
		{
			"numbers beyond 15 digits", `[{"n":12345678901234567890},{"n":1.2345678901234567890e19},{"n":12345678901234567891}]`, `"by":["n"],"agg":"count"`,
			`[{"n":12345678901234567890,"count":2},{"n":12345678901234567891,"count":1}]`,
		},
		{
			"a number is no string", `[{"n":1},{"n":"1"},{"n":true},{"n":"true"},{"n":null},{"n":"n;"}]`, `"by":["n"],"agg":"count"`,
			`[{"n":1,"count":1},{"n":"1","count":1},{"n":true,"count":1},{"n":"true","count":1},{"n":null,"count":1},{"n":"n;","count":1}]`,
		},
		{"strings, however escaped", `[{"n":"\u0061"},{"n":"a"}]`, `"by":["n"],"agg":"count"`, `[{"n":"\u0061","count":2}]`},
		{
			"keys do not run together", `[{"a":"x","b":"y\u0000\u0000\u0000\u0000sz"},{"a":"x\u0000\u0000\u0000\u0000sy","b":"z"}]`, `"by":["a","b"],"agg":"count"`,
			`[{"a":"x","b":"y\u0000\u0000\u0000\u0000sz","count":1},{"a":"x\u0000\u0000\u0000\u0000sy","b":"z","count":1}]`,
		},
		{
			"several keys", sales, `"by":["c","n"],"agg":"count"`,
			`[{"c":"a","n":1,"count":2},{"c":"b","n":2,"count":1},{"c":null,"n":1,"count":2}]`,
		},
		{
			"several fields", sales, `"by":["c"],"agg":"max","fields":["n","d"]`,
			`[{"c":"a","max_n":1,"max_d":"2026-02-01"},{"c":"b","max_n":2,"max_d":"2026-01-01"},{"c":null,"max_n":1,"max_d":null}]`,
		},
		{
			"several aggregates", sales, `"by":["c as k"],"fields":["sum(r) as total","count()","count(*) as rows","avg( n )"]`,
			`[{"k":"a","total":10.30,"count":2,"rows":2,"avg_n":1},{"k":"b","total":20.20,"count":1,"rows":1,"avg_n":2},{"k":null,"total":5,"count":2,"rows":2,"avg_n":1}]`,
		},
		{"an aggregate beside the given one", sales, `"by":[],"agg":"sum","fields":["n","r as money","min(n)"]`, `[{"sum_n":6.0,"money":35.50,"min_n":1}]`},
		{"a field with brackets", `[{"price(net)":2}]`, `"by":[],"agg":"sum","field":"price(net)"`, `[{"sum_price(net)":2}]`},
		{"paths", sales, `"by":["t.x"],"agg":"sum","field":"t.x"`, `[{"t.x":1,"sum_t.x":2},{"t.x":2,"sum_t.x":2},{"t.x":null,"sum_t.x":null}]`},
		{"objects as keys", `[{"k":{"a": 1}},{"k":{"a":1}}]`, `"by":["k"],"agg":"count"`, `[{"k":{"a": 1},"count":2}]`},
		{"no rows, all together", `[]`, `"by":[],"fields":["count()","sum(a)"]`, `[{"count":0,"sum_a":null}]`},
		{"no rows", `[]`, `"by":["a"],"agg":"count"`, `[]`},
		{
			"sums are exact", `[{"a":0.1},{"a":0.2},{"a":9007199254740993},{"a":-0.3},{"a":123456789012345.6}]`, `"by":[],"agg":"sum","field":"a"`,
			`[{"sum_a":9130656043753338.6}]`,
		},
		{
			"sums beyond 64 bits", `[{"a":9223372036854775807},{"a":9223372036854775807},{"a":0.00000000000001},{"a":999999999999999}]`, `"by":[],"agg":"sum","field":"a"`,
			`[{"sum_a":18447744073709551613.00000000000001}]`,
		},
		{"sums of the large and the small", `[{"a":1e300},{"a":1},{"a":-1e300}]`, `"by":[],"agg":"sum","field":"a"`, `[{"sum_a":1}]`},
		{"an average without an end", `[{"a":1},{"a":0},{"a":0}]`, `"by":[],"agg":"avg","field":"a"`, `[{"avg_a":0.3333333333333333}]`},
		{
			"an average of large numbers", `[{"a":12345678901234567890},{"a":12345678901234567891},{"a":12345678901234567891}]`, `"by":[],"agg":"avg","field":"a"`,
			`[{"avg_a":12345678901234567891}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := strings.ReplaceAll(tt.want, `": `, `":`)
			require.Equal(t, want, rows(t, over(t, tt.data, `{"step":"groupby",`+tt.step+`}`)))
		})
	}
}

// TestSumsOfManyAreExact compares the sum of many decimals with the same sum in integers.
func TestSumsOfManyAreExact(t *testing.T) {
	var data strings.Builder
	cents := 0
	for i := range 20_000 {
		n := i * 7919 % 100_003
		cents += n
		fmt.Fprintf(&data, `,{"a":%d.%02d}`, n/100, n%100)
	}
	require.Equal(t, fmt.Sprintf(`[{"sum_a":%d.%02d}]`, cents/100, cents%100),
		rows(t, over(t, "["+data.String()[1:]+"]", `{"step":"groupby","by":[],"agg":"sum","field":"a"}`)))
}

// joined runs a join of the dataset left, given as input_ref, and the dataset right.
func joined(t *testing.T, left, right, step string) agent.ToolResult {
	t.Helper()
	return call(t, pipeline.Config{Datasets: datasets{"acme/cas://l": left, "acme/artifact://r": right}, MaxRows: 1000},
		`{"session_id":"s","input_ref":"cas://l","pipeline":[{"step":"join","right":"artifact://r",`+step+`}]}`)
}

func TestJoin(t *testing.T) {
	const (
		flights  = `[{"id":1,"carrier":"DL","name":"early"},{"id":2,"carrier":"UA","name":"noon"},{"id":3,"carrier":null},{"id":4},{"id":5,"carrier":"DL"}]`
		carriers = `[{"carrier":"UA","name":"United"},{"carrier":"DL","name":"Delta","hub":"ATL"},{"carrier":null,"name":"none"},{"carrier":"DL","name":"Song"}]`
	)
	tests := []struct{ name, left, right, step, want string }{
		{"inner", flights, carriers, `"on":"carrier"`, `[{"id":1,"carrier":"DL","name":"early","name_right":"Delta","hub":"ATL"},
			{"id":1,"carrier":"DL","name":"early","name_right":"Song"},{"id":2,"carrier":"UA","name":"noon","name_right":"United"},
			{"id":5,"carrier":"DL","name_right":"Delta","hub":"ATL"},{"id":5,"carrier":"DL","name_right":"Song"}]`},
		{
			"left", flights, `[{"carrier":"UA","name":"United","hub":"ORD"}]`, `"on":"carrier","how":"left"`,
			`[{"id":1,"carrier":"DL","name":"early","name_right":null,"hub":null},{"id":2,"carrier":"UA","name":"noon","name_right":"United","hub":"ORD"},
			{"id":3,"carrier":null,"name_right":null,"hub":null},{"id":4,"name_right":null,"hub":null},{"id":5,"carrier":"DL","name_right":null,"hub":null}]`,
		},
		{"two names", `[{"a":1,"x":1}]`, `[{"b":1,"a":7}]`, `"on":"a=b","how":"inner"`, `[{"a":1,"x":1,"b":1,"a_right":7}]`},
		{"two names, as SQL writes them", `[{"a":1}]`, `[{"b":1}]`, `"on":" a == b "`, `[{"a":1,"b":1}]`},
		{"two keys", `[{"a":1,"b":1},{"a":1,"b":2}]`, `[{"a":1,"b":2,"c":3}]`, `"on":"a,b"`, `[{"a":1,"b":2,"c":3}]`},
		{"paths", `[{"a":{"x":1}}]`, `[{"id":1,"v":2}]`, `"on":"a.x=id"`, `[{"a":{"x":1},"id":1,"v":2}]`},
		{"numbers as strings on one side", `[{"id":"1"},{"id":"2.0"}]`, `[{"id":1,"v":1},{"id":2,"v":2}]`, `"on":"id"`, `[{"id":"1","v":1},{"id":"2.0","v":2}]`},
		{"strings stay strings", `[{"id":"1"},{"id":"01"}]`, `[{"id":"1.0","v":1},{"id":"01","v":2}]`, `"on":"id"`, `[{"id":"01","v":2}]`},
		{"numbers as strings on both sides", `[{"id":"1"},{"id":"2"}]`, `[{"id":"1.0","v":1},{"id":"2","v":2}]`, `"on":"id"`, `[{"id":"2","v":2}]`},
		{"a text among numbers", `[{"id":"1"},{"id":"x"}]`, `[{"id":1,"v":1},{"id":"x","v":2}]`, `"on":"id"`, `[{"id":"x","v":2}]`},
		{"a suffix that is taken", `[{"id":1,"n":1,"n_right":2}]`, `[{"id":1,"n":3}]`, `"on":"id"`, `[{"id":1,"n":1,"n_right":2,"n_right_right":3}]`},
		{"a suffix that is taken on the right", `[{"id":1,"n":1}]`, `[{"id":1,"n":3,"n_right":4}]`, `"on":"id"`, `[{"id":1,"n":1,"n_right_right":3,"n_right":4}]`},
		{"escaped names", `[{"\u0069d":1,"\"":1}]`, `[{"id":1,"\u0022":3}]`, `"on":"id"`, `[{"\u0069d":1,"\"":1,"\"_right":3}]`},
		{"an empty left row", `[{},{"id":1}]`, `[{"id":1,"v":1}]`, `"on":"id","how":"left"`, `[{"v":null},{"id":1,"v":1}]`},
		{"nothing but the key", `[{"id":1},{"id":2}]`, `[{"id":1}]`, `"on":"id"`, `[{"id":1}]`},
		{"no left rows", `[]`, carriers, `"on":"carrier"`, `[]`},
		{"no right rows", flights, `[]`, `"on":"carrier"`, `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := rows(t, joined(t, tt.left, tt.right, tt.step))
			require.Equal(t, strings.ReplaceAll(strings.ReplaceAll(tt.want, "\n", ""), "\t", ""), got)
		})
	}
}

// TestJoinIsTwoLoops compares joins of random rows with those of two nested loops.
func TestJoinIsTwoLoops(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	side := func(field string) (rows, keys []string) {
		for i := range 1 + r.IntN(12) {
			key := []string{`1`, `1.0`, `2`, `null`, ``, `3e0`, `3`}[r.IntN(7)]
			member := ""
			if key != "" {
				member = `"k":` + key + `,`
			}
			rows, keys = append(rows, fmt.Sprintf(`{%s%q:%d}`, member, field, i)), append(keys, key)
		}
		rows, keys = append(rows, fmt.Sprintf(`{"k":9,%q:9}`, field)), append(keys, "9") // some row has the key
		return rows, keys
	}
	number := map[string]float64{`1`: 1, `1.0`: 1, `2`: 2, `3e0`: 3, `3`: 3, `9`: 9}
	for range 200 {
		left, leftKeys := side("l")
		right, rightKeys := side("r")
		var inner, outer []string
		for i, l := range left {
			matched := false
			for j, rt := range right {
				if a := number[leftKeys[i]]; a != 0 && a == number[rightKeys[j]] {
					_, value, _ := strings.Cut(rt, `"r":`)
					inner = append(inner, strings.TrimSuffix(l, "}")+`,"r":`+value)
					outer = append(outer, inner[len(inner)-1])
					matched = true
				}
			}
			if !matched {
				outer = append(outer, strings.TrimSuffix(l, "}")+`,"r":null}`)
			}
		}
		a, b := "["+strings.Join(left, ",")+"]", "["+strings.Join(right, ",")+"]"
		require.Equal(t, "["+strings.Join(inner, ",")+"]", rows(t, joined(t, a, b, `"on":"k"`)), a+b)
		require.Equal(t, "["+strings.Join(outer, ",")+"]", rows(t, joined(t, a, b, `"on":"k","how":"left"`)), a+b)
	}
}

// TestJoinOfTwoReferences joins two references in the first step, as docs/reference/requirements.md does.
func TestJoinOfTwoReferences(t *testing.T) {
	cfg := pipeline.Config{Datasets: datasets{"acme/cas://a": `[{"id":1,"a":1}]`, "acme/cas://b": `{"rows":[{"id":1,"b":2}]}`}}
	res := call(t, cfg, `{"session_id":"s","pipeline":[{"step":"join","left":"cas://a","right":"cas://b","on":"id"},{"step":"top_k","k":1}]}`)
	require.Equal(t, `[{"id":1,"a":1,"b":2}]`, rows(t, res))
}

func TestJoinIsBounded(t *testing.T) {
	same := "[" + strings.TrimSuffix(strings.Repeat(`{"k":1},`, 100), ",") + "]"
	res := joined(t, same, same, `"on":"k"`)
	require.Equal(t, "overflow", res.Failure.Type)
	require.Contains(t, res.Failure.Message, "more than 1000 rows")

	var wide []string
	for i := range 1001 {
		wide = append(wide, `"f`+strconv.Itoa(i)+`":1`)
	}
	res = joined(t, `[{"k":1}]`, `[{"k":1,`+strings.Join(wide, ",")+`}]`, `"on":"k"`)
	require.Equal(t, "overflow", res.Failure.Type)
	require.Contains(t, res.Failure.Message, "more than 1000 different fields")
}

func TestRegexExtract(t *testing.T) {
	tests := []struct{ name, data, step, want string }{
		{
			"the seed's", `[{"phone":"555-123-4567","id":1}]`, `"pattern":"(\\d{3})-(\\d{3})-(\\d{4})","field":"phone"`,
			`[{"phone":"555-123-4567","id":1,"phone_1":"555","phone_2":"123","phone_3":"4567"}]`,
		},
		{"names", `[{"p":"555-1234"}]`, `"pattern":"(?P<area>\\d+)-(?<line>\\d+)","field":"p"`, `[{"p":"555-1234","area":"555","line":"1234"}]`},
		{"a name among numbers", `[{"p":"a-b"}]`, `"pattern":"(.)-(?P<last>.)","field":"p"`, `[{"p":"a-b","p_1":"a","last":"b"}]`},
		{"no groups", `[{"p":"x12y"},{"p":"none"}]`, `"pattern":"\\d+","field":"p"`, `[{"p":"x12y","p_match":"12"},{"p":"none","p_match":null}]`},
		{"no match, null, missing", `[{"p":"?"},{"p":null},{"q":1}]`, `"pattern":"(?P<n>\\d)","field":"p"`, `[{"p":"?","n":null},{"p":null,"n":null},{"q":1,"n":null}]`},
		{"a group that took no part", `[{"p":"b"}]`, `"pattern":"(?:(?P<a>a)|(?P<b>b))","field":"p"`, `[{"p":"b","a":null,"b":"b"}]`},
		{"an empty match", `[{"p":"b"}]`, `"pattern":"(?P<a>a*)","field":"p"`, `[{"p":"b","a":""}]`},
		{"numbers and booleans", `[{"p":12.50},{"p":true}]`, `"pattern":"^(?P<head>..)","field":"p"`, `[{"p":12.50,"head":"12"},{"p":true,"head":"tr"}]`},
		{"escapes", `[{"p":"a\"\u00e9\n<b>"}]`, `"pattern":"(?s)(?P<x>\".*)","field":"p"`, `[{"p":"a\"\u00e9\n<b>","x":"\"é\n<b>"}]`},
		{"a field that is there is replaced", `[{"x":1, "p":"a" ,"y":2}]`, `"pattern":"(?P<p>.)(?P<x>.?)","field":"p"`, `[{"x":"","p":"a","y":2}]`},
		{"a path", `[{"a":{"b":"7"}}]`, `"pattern":"\\d","field":"a.b"`, `[{"a":{"b":"7"},"a.b_match":"7"}]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, rows(t, over(t, tt.data, `{"step":"regex_extract",`+tt.step+`}`)))
		})
	}
}

func TestParseDate(t *testing.T) {
	tests := []struct{ value, format, want string }{
		{`"2026-03-01"`, `%Y-%m-%d`, `"2026-03-01T00:00:00Z"`},
		{`"01/03/2026 14:05"`, `%d/%m/%Y %H:%M`, `"2026-03-01T14:05:00Z"`},
		{`"2026-03-01 14:05:06.789"`, `%Y-%m-%d %H:%M:%S.%f`, `"2026-03-01T14:05:06.789Z"`},
		{`"2026-03-01 14:05:06 +0200"`, `%Y-%m-%d %H:%M:%S %z`, `"2026-03-01T12:05:06Z"`},
		{`"2026-03-01 14:05 UTC"`, `%Y-%m-%d %H:%M %Z`, `"2026-03-01T14:05:00Z"`},
		{`"1.3.26 4:05:06.12+02:00"`, `%d.%m.%y %H:%M:%S.%f%z`, `"2026-03-01T02:05:06.12Z"`},
		{`"2024-02-29"`, `%Y-%m-%d`, `"2024-02-29T00:00:00Z"`},
		{`"Mar 1, 2026 2:05 PM"`, `%b %d, %Y %I:%M %p`, `"2026-03-01T14:05:00Z"`},
		{`"+01:00 01/02/2024"`, `%z %d/%m/%Y`, `"2024-01-31T23:00:00Z"`},
		{`"+010001/02/2024"`, `%z%d/%m/%Y`, `"2024-01-31T23:00:00Z"`},
		{`"+01 2/3/1960 (UTC) 7"`, `%z %d/%m/%Y (%Z) %H`, `"1960-03-02T06:00:00Z"`},
		{`"2060-06-01 10:60"`, `%Y-%m-%d %H:60`, `"2060-06-01T10:00:00Z"`},
		{`1767225660`, `%s`, `"2026-01-01T00:01:00Z"`},
		{`1767225600`, `%s`, `"2026-01-01T00:00:00Z"`},
		{`" 2026-03-01\u0020"`, `%Y-%m-%d`, `"2026-03-01T00:00:00Z"`},
		{`null`, `%Y`, `null`},
		{`"2026-03-01T14:05:06+02:00"`, ``, `"2026-03-01T12:05:06Z"`},
		{`"2026-03-01T14:05:06.5"`, ``, `"2026-03-01T14:05:06.5Z"`},
		{`"2026-03-01 14:05"`, ``, `"2026-03-01T14:05:00Z"`},
		{`"2026-03-01"`, ``, `"2026-03-01T00:00:00Z"`},
		{`"20260301"`, ``, `"2026-03-01T00:00:00Z"`},
	}
	for _, tt := range tests {
		t.Run(tt.value+tt.format, func(t *testing.T) {
			format := ""
			if tt.format != "" {
				format = `,"format":` + strconv.Quote(tt.format)
			}
			got := rows(t, over(t, `[{"a":1, "d":`+tt.value+`,"z":[2]},{"a":2}]`, `{"step":"parse_date","field":"d"`+format+`}`))
			require.Equal(t, `[{"a":1,"d":`+tt.want+`,"z":[2]},{"a":2}]`, got)
		})
	}
	require.JSONEq(t, `[{"legs":[{"at":"2026-03-01T00:00:00Z"}]}]`,
		rows(t, over(t, `[{"legs":[{"at":"1.3.2026"}]}]`, `{"step":"parse_date","field":"legs.0.at","format":"%d.%m.%Y"}`)))
}

// What is wrong in a cell is told with the step, its index, the row and the field.
func TestFaultsOfCells(t *testing.T) {
	tests := []struct{ name, data, step, field, says string }{
		{"sum of a text", `[{"a":1},{"a":"n/a"}]`, `{"step":"groupby","by":[],"agg":"sum","field":"a"}`, "pipeline[1].field", `row 1, field "a": "n/a" is no number`},
		{"avg of a boolean", `[{"a":true}]`, `{"step":"groupby","by":[],"fields":["avg(a)"]}`, "pipeline[1].fields[0]", `row 0, field "a": true is no number`},
		{"sum beyond reason", `[{"a":"1e99999"}]`, `{"step":"groupby","by":[],"agg":"sum","field":"a"}`, "pipeline[1].field", "too large or too small"},
		{"max of objects", `[{"a":{}}]`, `{"step":"groupby","by":[],"agg":"max","field":"a"}`, "pipeline[1].field", "is an object"},
		{"group by nothing there", `[{"a":1}]`, `{"step":"groupby","by":["a","x"],"agg":"count"}`, "pipeline[1].by[1]", `no row has a field "x"; the first row has a`},
		{"sum of nothing there", `[{"a":1}]`, `{"step":"groupby","by":["a"],"agg":"sum","fields":["a","x"]}`, "pipeline[1].fields[1]", `"x"`},
		{"group of scalars", `[{"a":1},3]`, `{"step":"groupby","by":["a"],"agg":"count"}`, "pipeline[1]", "row 1 is a number"},
		{"match in an object", `[{"a":"x"},{"a":[]}]`, `{"step":"regex_extract","field":"a","pattern":"x"}`, "pipeline[1].field", `row 1, field "a": is an array, not a text`},
		{"match in nothing there", `[{"a":"x"}]`, `{"step":"regex_extract","field":"b","pattern":"x"}`, "pipeline[1].field", `no row has a field "b"`},
		{"date that is none", `[{"d":"2026-01-01"},{"d":"soon"}]`, `{"step":"parse_date","field":"d","format":"%Y-%m-%d"}`, "pipeline[1].field", `row 1, field "d": "soon" does not fit %Y-%m-%d`},
		{"date that is not ISO", `[{"d":"1.2.2026"}]`, `{"step":"parse_date","field":"d"}`, "pipeline[1].field", `row 0, field "d": "1.2.2026" is no ISO 8601 date`},
		{"date with more behind", `[{"d":"2026-01-01x"}]`, `{"step":"parse_date","field":"d","format":"%Y-%m-%d"}`, "pipeline[1].field", `row 0`},
		{"day that is none", `[{"d":"2026-02-30"}]`, `{"step":"parse_date","field":"d","format":"%Y-%m-%d"}`, "pipeline[1].field", `row 0`},
		{"day that is none, with names", `[{"d":"3 PM, Apr 31 26 +02:00"}]`, `{"step":"parse_date","field":"d","format":"%I %p, %b %d %y %z"}`, "pipeline[1].field", `no such day`},
		{"day that is none behind a zone", `[{"d":"+0100 31/02/2024"}]`, `{"step":"parse_date","field":"d","format":"%z %d/%m/%Y"}`, "pipeline[1].field", `there is no such day`},
		{"day that is none behind a zone with a colon", `[{"d":"12h +01:00 30.2.24"}]`, `{"step":"parse_date","field":"d","format":"%Hh %z %d.%m.%y"}`, "pipeline[1].field", `there is no such day`},
		{"day that is none run together with a zone", `[{"d":"+010031/02/2024"}]`, `{"step":"parse_date","field":"d","format":"%z%d/%m/%Y"}`, "pipeline[1].field", `there is no such day`},
		{"leap second", `[{"d":"2026-06-30 23:59:60"}]`, `{"step":"parse_date","field":"d","format":"%Y-%m-%d %H:%M:%S"}`, "pipeline[1].field", `"2026-06-30 23:59:60" has the second 60, a leap second`},
		{"leap second within a month", `[{"d":"20260615235960Z"}]`, `{"step":"parse_date","field":"d","format":"%Y%m%d%H%M%S%z"}`, "pipeline[1].field", `has the second 60`},
		{"leap second, alone", `[{"d":"23:59:60"}]`, `{"step":"parse_date","field":"d","format":"%H:%M:%S"}`, "pipeline[1].field", `has the second 60`},
		{"leap second of ISO 8601", `[{"d":"2016-12-31T23:59:60Z"}]`, `{"step":"parse_date","field":"d"}`, "pipeline[1].field", `has the second 60`},
		{"no function", `[{"v":1}]`, `{"step":"groupby","by":[],"fields":["count()","median(v)"]}`, "pipeline[1].fields[1]", `unknown function "median": want count, sum, avg, min, max`},
		{"a function in capitals", `[{"v":1}]`, `{"step":"groupby","by":[],"field":"SUM(v) as s"}`, "pipeline[1].field", `unknown function "SUM": want count, sum, avg, min, max`},
		{"a field and no function", `[{"v":1}]`, `{"step":"groupby","by":[],"field":"v"}`, "pipeline[1].agg", `is required`},
		{"day that is none, run together", `[{"d":"20250229"}]`, `{"step":"parse_date","field":"d","format":"%Y%m%d"}`, "pipeline[1].field", `no such day`},
		{"time zone without an offset", `[{"d":"2026-02-03 PST"}]`, `{"step":"parse_date","field":"d","format":"%Y-%m-%d %Z"}`, "pipeline[1].field", `time zone PST`},
		{"year beyond RFC 3339", `[{"d":999999999999}]`, `{"step":"parse_date","field":"d","format":"%s"}`, "pipeline[1].field", `the year`},
		{"date of an object", `[{"d":{}}]`, `{"step":"parse_date","field":"d","format":"%Y"}`, "pipeline[1].field", `row 0, field "d": is an object, not a date`},
		{"date of a long text", `[{"d":"` + strings.Repeat("é", 500) + `"}]`, `{"step":"parse_date","field":"d"}`, "pipeline[1].field", `1000 bytes`},
		{"date of nothing there", `[{"d":1}]`, `{"step":"parse_date","field":"x"}`, "pipeline[1].field", `"x"`},
		{"key on neither side", `[{"a":1}]`, `{"step":"join","right":"cas://x","on":"k=a"}`, "pipeline[1].on", `no row of the left side has a field "k"; the first row has a`},
		{"key not on the right", `[{"a":1}]`, `{"step":"join","right":"cas://x","on":"a=k"}`, "pipeline[1].on", `no row of the right side has a field "k"`},
		{"join of scalars", `[{"a":1},2]`, `{"step":"join","right":"cas://x","on":"a"}`, "pipeline[1].left", `row 1 is a number`},
		{"join with nothing stored", `[{"a":1}]`, `{"step":"join","right":"cas://y","on":"a"}`, "pipeline[1].right", `cas://y`},
		{"filter over scalars", `[{"a":1},"x"]`, `{"step":"table_filter","condition":{"field":"a","op":"exists"}}`, "pipeline[1]", `row 1 is a string`},
		{"a text too long for a pattern", `[{"a":"` + strings.Repeat("x", 100_000) + `"}]`, `{"step":"regex_extract","field":"a","pattern":"(?:xy?){1000}"}`, "pipeline[1].field", "too long for this pattern"},
		{"the same in a filter", `[{"a":"` + strings.Repeat("x", 100_000) + `"}]`, `{"step":"table_filter","condition":{"field":"a","op":"matches","value":"(?:xy?){1000}"}}`, "pipeline[1].condition.field", "too long for this pattern"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := over(t, tt.data, `{"step":"top_k","k":1000},`+tt.step)
			require.NotNil(t, res.Failure)
			require.Equal(t, tt.field, res.Failure.Field, res.Failure.Message)
			require.Contains(t, res.Failure.Message, tt.says)
			require.NotEmpty(t, res.Failure.Step)
			require.LessOrEqual(t, len(res.Failure.Message), 500)
		})
	}
}

func TestJQ(t *testing.T) {
	const document = `{"total":2,"tags":["x"],"items":[{"id":1,"price":50.10},{"id":12345678901234567890,"price":100}]}`
	top := `{"step":"top_k","k":9},`
	tests := []struct{ name, data, steps, want string }{
		{"the seed's", document, `{"step":"jq_transform","query":".items[] | select(.price < 100)"}`, `[{"id":1,"price":50.10}]`},
		{"the document", document, `{"step":"jq_transform","query":"{total, n: (.items|length)}"}`, `[{"n":2,"total":2}]`},
		{"a document whose rows nobody could name", `{"b":[{"x":1}],"a":[{"x":2}]}`, `{"step":"jq_transform","query":".a + .b"}`, `[{"x":2},{"x":1}]`},
		{"rows of an array", `[{"a":1},{"a":2}]`, `{"step":"jq_transform","query":".[] | .a"}`, `[1,2]`},
		{"rows of a later step", document, top + `{"step":"jq_transform","query":".[] | .id"}`, `[1,12345678901234567890]`},
		{"an array is its elements", document, top + `{"step":"jq_transform","query":"map({id})"}`, `[{"id":1},{"id":12345678901234567890}]`},
		{"nothing", document, `{"step":"jq_transform","query":"empty"}`, `[]`},
		{"an empty array", document, `{"step":"jq_transform","query":"[]"}`, `[]`},
		{"several arrays", document, `{"step":"jq_transform","query":"[1],[2]"}`, `[[1],[2]]`},
		{"scalars may be counted off", document, `{"step":"jq_transform","query":".items[].id"},{"step":"top_k","k":1}`, `[1]`},
		{
			"and shaped again", document, `{"step":"jq_transform","query":".items[].id"},{"step":"jq_transform","query":"map({id: .})"},{"step":"table_sort","field":"id","order":"desc"}`,
			`[{"id":12345678901234567890},{"id":1}]`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, rows(t, over(t, tt.data, tt.steps)))
		})
	}
}

func TestFaultsOfJQ(t *testing.T) {
	tests := []struct {
		name, data, query string
		typ               agent.Code
		field, says       string
	}{
		{"no program", `[]`, `.[`, agent.CodeInvalid, "pipeline[0].query", ""},
		{"no bound", `[]`, `"x" * 1e9`, agent.CodeOverflow, "pipeline[0].query", ""},
		{"rows that are an array", `[{"a":1}]`, `.items[]`, agent.CodeInvalid, "pipeline[0].query", "begin with .[]"},
		{"a document that is no JSON", `{"a":[{}],"b":[{}]`, `.a`, agent.CodeInvalid, "input_ref", "malformed"},
		{"a document with a name twice", `{"a":[{}],"b":[{"x":1,"x":2}]}`, `.a`, agent.CodeInvalid, "input_ref", ""},
		{"two documents", `{"a":1},{"b":1}`, `.a`, agent.CodeInvalid, "input_ref", ""},
		{"more rows than allowed", `[]`, `[range(2000)]`, agent.CodeOverflow, "pipeline[0].query", "1000 rows"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			query, err := json.Marshal(tt.query)
			require.NoError(t, err)
			res, err := pipeline.New(pipeline.Config{Datasets: datasets{"acme/cas://x": tt.data}, MaxRows: 1000}).Tools()[0].Call(ctx,
				agent.Invocation{Tenant: "acme"}, agent.ToolCall{Args: json.RawMessage(
					fmt.Sprintf(`{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"jq_transform","query":%s}]}`, query))})
			require.NoError(t, err)
			require.NotNil(t, res.Failure)
			require.Equal(t, string(tt.typ), res.Failure.Type, res.Failure.Message)
			require.Equal(t, tt.field, res.Failure.Field)
			require.Contains(t, res.Failure.Message, tt.says)
		})
	}
}
