package pipeline_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/tool"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// datasets is a store of datasets by tenant and reference. The reference cas://down is not available.
type datasets map[string]string

func (d datasets) Open(_ context.Context, tenant, ref string) (io.ReadCloser, error) {
	if ref == "cas://down" {
		return nil, agent.Errorf(agent.CodeUnavailable, "open", "store is away")
	}
	s, ok := d[tenant+"/"+ref]
	if !ok {
		return nil, agent.Errorf(agent.CodeNotFound, "open", "no dataset %q", ref)
	}
	return io.NopCloser(strings.NewReader(s)), nil
}

// client returns an egress client that may reach only the given servers.
func client(t *testing.T, cfg egress.Config, urls ...string) *egress.Client {
	t.Helper()
	for _, u := range urls {
		cfg.AllowPrivate = append(cfg.AllowPrivate, strings.TrimPrefix(u, "http://"))
	}
	c, err := egress.New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

func call(t *testing.T, cfg pipeline.Config, args string) agent.ToolResult {
	t.Helper()
	res, err := pipeline.New(cfg).Tools()[0].Call(t.Context(), agent.Invocation{Tenant: "acme", IdempotencyKey: "key-1"},
		agent.ToolCall{ID: "call_1", Name: pipeline.ToolName, Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	return res
}

// over runs steps on rows.
func over(t *testing.T, rows, steps string) agent.ToolResult {
	t.Helper()
	return call(t, pipeline.Config{Datasets: datasets{"acme/cas://x": rows}},
		fmt.Sprintf(`{"session_id":"s","input_ref":"cas://x","pipeline":[%s]}`, steps))
}

// rows returns the rows of a successful result.
func rows(t *testing.T, res agent.ToolResult) string {
	t.Helper()
	require.Nil(t, res.Failure)
	return string(res.Data)
}

func TestConformance(t *testing.T) {
	tooltest.Exercise(t, pipeline.New(pipeline.Config{HTTP: client(t, egress.Config{}), Datasets: datasets{}}))
}

// TestBindingLowersRows checks that a binding may lower the bound of rows but not raise it, and that malformed parameters fail the call.
func TestBindingLowersRows(t *testing.T) {
	three := `{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"top_k","k":3}]}`
	tests := []struct {
		name, parameters, failure string
		maxRows                   int
	}{
		{name: "none"},
		{name: "empty", parameters: `{}`},
		{name: "null", parameters: `{"max_rows":null}`},
		{name: "as many", parameters: `{"max_rows":3}`},
		{name: "lower", parameters: `{"max_rows":2}`, failure: "has more than 2 rows"},
		{name: "not raised", parameters: `{"max_rows":1000000}`, maxRows: 2, failure: "has more than 2 rows"},
		{name: "zero", parameters: `{"max_rows":0}`, failure: "max_rows: want 1 to 1000000, got 0"},
		{name: "too many", parameters: `{"max_rows":1000001}`, failure: "max_rows: want 1 to 1000000"},
		{name: "a text", parameters: `{"max_rows":"2"}`, failure: "max_rows: want a whole number, got a string"},
		{name: "unknown", parameters: `{"max_row":2}`, failure: "max_row: unknown field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kit := pipeline.New(pipeline.Config{Datasets: datasets{"acme/cas://x": `[{"a":1},{"a":2},{"a":3}]`}, MaxRows: tt.maxRows})
			res, err := kit.Tools()[0].Call(t.Context(), agent.Invocation{Tenant: "acme", Parameters: json.RawMessage(tt.parameters)},
				agent.ToolCall{ID: "call_1", Args: json.RawMessage(three)})
			require.NoError(t, err)
			tooltest.CheckResult(t, res)
			if tt.failure == "" {
				require.Nil(t, res.Failure)
				return
			}
			require.NotNil(t, res.Failure)
			require.Contains(t, res.Failure.Message, tt.failure)
		})
	}
}

// TestPropertiesBoundRows checks that the schema of the parameters has the bounds of Call.
func TestPropertiesBoundRows(t *testing.T) {
	properties := pipeline.New(pipeline.Config{}).(agent.Configurable).Properties()
	for parameters, valid := range map[string]bool{
		`{}`: true, `{"max_rows":1}`: true, `{"max_rows":1000000}`: true,
		`{"max_rows":0}`: false, `{"max_rows":1000001}`: false, `{"max_rows":1.5}`: false, `{"rows":1}`: false,
	} {
		require.Equal(t, valid, schema.New().Check("", properties, json.RawMessage(parameters)) == nil, parameters)
	}
}

func TestFactory(t *testing.T) {
	f := pipeline.Factory(pipeline.Config{MaxRows: 1})
	_, err := tool.Build(tool.Dependencies{HTTP: client(t, egress.Config{})}, f)
	require.ErrorContains(t, err, `toolkit "pipeline" needs auth profiles`)
	store := newStore()
	store.content["acme/cas://x"] = `[1,2]`
	r, err := tool.Build(tool.Dependencies{
		HTTP: client(t, egress.Config{}), Auth: &authority{}, Blobs: store, Datasets: store, Results: &results{},
	}, f)
	require.NoError(t, err)
	execute, err := r.Tool(pipeline.ToolkitName, pipeline.ToolName)
	require.NoError(t, err)
	require.True(t, execute.Spec().ReadsDatasets)
	res, err := execute.Call(t.Context(), agent.Invocation{Tenant: "acme"},
		agent.ToolCall{Args: json.RawMessage(`{"session_id":"s","input_ref":"cas://x","pipeline":[]}`)})
	require.NoError(t, err)
	require.NotNil(t, res.Failure)
	require.Contains(t, res.Failure.Message, "has more than 1 rows")
}

// TestSchemaTakesTheExamples checks that the examples of docs/reference/requirements.md satisfy the schema.
func TestSchemaTakesTheExamples(t *testing.T) {
	raw, err := os.ReadFile("schema.json")
	require.NoError(t, err)
	spec := pipeline.New(pipeline.Config{}).Tools()[0].Spec()
	require.Equal(t, string(raw), string(spec.Parameters))
	require.True(t, spec.Strict)
	for _, args := range []string{
		`{"session_id":"test-123","pipeline":[{"step":"http_request","url":"api.flights.com/search","params":{"origin":"NYC","dest":"LAX"}},{"step":"table_sort","field":"price","order":"asc"},{"step":"top_k","k":3}]}`,
		`{"session_id":"test-123","input_ref":"cas://sha256:x","pipeline":[{"step":"table_filter","condition":{"field":"price","op":"<","value":500}}]}`,
	} {
		require.NoError(t, schema.New().Check("", raw, json.RawMessage(args)))
		require.NotEqual(t, "invalid arguments", pipeline.New(pipeline.Config{}).Tools()[0].(agent.Summarizer).Summarize([]byte(args)))
	}
}

func TestFlights(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "dest=LAX&origin=NYC" || !strings.HasPrefix(r.Header.Get("Accept"), "application/json,") {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		fmt.Fprint(w, `[{"id":1,"price":299.10},{"id":2,"price":99},{"id":3,"price":299.1},{"id":4,"price":1000}]`)
	}))
	t.Cleanup(srv.Close)
	args := fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":%q,"method":"GET","params":{"origin":"NYC","dest":"LAX"}},
		{"step":"table_sort","field":"price","order":"asc","k":null},{"step":"top_k","k":3}]}`, srv.URL)

	var progress []string
	res, err := pipeline.New(pipeline.Config{HTTP: client(t, egress.Config{}, srv.URL)}).Tools()[0].Call(t.Context(),
		agent.Invocation{Progress: func(s string) { progress = append(progress, s) }},
		agent.ToolCall{Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	want := `[{"id":2,"price":99},{"id":1,"price":299.10},{"id":3,"price":299.1}]`
	require.Equal(t, want, rows(t, res))
	require.Equal(t, `{"type":"dataset","row_count":3,"sample":`+want+`}`, string(res.Preview))
	require.Equal(t, []string{"http_request: 4 rows", "table_sort: 4 rows", "top_k: 3 rows"}, progress)
	var out struct {
		Rows     json.RawMessage `json:"rows"`
		RowCount int             `json:"row_count"`
		Steps    []struct {
			Step    string `json:"step"`
			RowsIn  int    `json:"rows_in"`
			RowsOut int    `json:"rows_out"`
			MS      *int64 `json:"ms"`
		} `json:"steps"`
	}
	require.NoError(t, json.Unmarshal(res.Output, &out))
	require.Equal(t, 3, out.RowCount)
	require.Equal(t, want, string(out.Rows))
	require.Len(t, out.Steps, 3)
	require.Equal(t, "top_k", out.Steps[2].Step)
	require.Equal(t, 4, out.Steps[2].RowsIn)
	require.Equal(t, 3, out.Steps[2].RowsOut)
	require.NotNil(t, out.Steps[2].MS)
}

func TestPostSendsJSONAndTheIdempotencyKey(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, `{"method":%q,"type":%q,"key":%q,"query":%q,"body":%s}`, r.Method, r.Header.Get("Content-Type"),
			r.Header.Get("Idempotency-Key"), r.URL.RawQuery, body)
	}))
	t.Cleanup(srv.Close)
	res := call(t, pipeline.Config{HTTP: client(t, egress.Config{}, srv.URL)},
		fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":"%s/?a=b","method":"POST","params":{"x":1.50,"y":"<&>"}}]}`, srv.URL))
	require.JSONEq(t, `[{"method":"POST","type":"application/json","key":"key-1","query":"a=b","body":{"x":1.50,"y":"<&>"}}]`, rows(t, res))
}

func TestEffectsAndSummaries(t *testing.T) {
	tool := pipeline.New(pipeline.Config{}).Tools()[0]
	free, sum := tool.(agent.EffectFree), tool.(agent.Summarizer)
	many := strings.Repeat(`,{"step":"table_sort","field":"a"}`, 9)
	tests := []struct {
		args    string
		free    bool
		summary string
	}{
		{`{"session_id":"s","pipeline":[{"step":"http_request","url":"a.com"},{"step":"table_sort","field":"p"},{"step":"top_k","k":3}]}`, true, "3 steps"},
		{`{"session_id":"s","pipeline":[{"step":"http_request","url":"a.com","method":"POST"}]}`, false, "1 step"},
		{`{"session_id":"s","pipeline":[{"step":"http_request","url":"a.com"}` + many + `]}`, true, "10 steps"},
		{`{"session_id":"s","pipeline":[{"step":"http_request","url":"a.com","METHOD":"POST"}]}`, true, "invalid arguments"},
		{`{"session_id":"s","pipeline":[{"step":"http_request","url":"a.com","method":"GET","method":"POST"}]}`, true, "invalid arguments"},
		{`nonsense`, true, "invalid arguments"},
	}
	for _, tt := range tests {
		require.Equal(t, tt.free, free.EffectFree(json.RawMessage(tt.args)), tt.args)
		require.Equal(t, tt.summary, sum.Summarize(json.RawMessage(tt.args)), tt.args)
	}
}

func TestBadArguments(t *testing.T) {
	fetch := `{"step":"http_request","url":"a.com"}`
	pipe := func(steps ...string) string {
		return `{"session_id":"s","pipeline":[` + strings.Join(steps, ",") + `]}`
	}
	tests := []struct {
		name, args, step, field, says string
	}{
		{"no session", `{"pipeline":[]}`, "", "session_id", "required"},
		{"session of another type", `{"session_id":7,"pipeline":[]}`, "", "session_id", "string"},
		{"no pipeline", `{"session_id":"s"}`, "", "pipeline", "required"},
		{"empty pipeline", pipe(), "", "pipeline", "no steps"},
		{"pipeline of another type", `{"session_id":"s","pipeline":{}}`, "", "pipeline", "array"},
		{"unknown field", `{"session_id":"s","pipeline":[],"x":1}`, "", "x", "unknown"},
		{"too many steps", pipe(strings.Split(strings.Repeat(fetch+"|", 50)+fetch, "|")...), "", "pipeline", "51 steps"},
		{"step is no object", pipe(fetch, `"top_k"`), "", "pipeline[1]", "a string"},
		{"step without a name", pipe(`{}`), "", "pipeline[0].step", "required"},
		{"step's name of another type", pipe(`{"step":3}`), "", "pipeline[0].step", "a number"},
		{"unknown step", pipe(fetch, `{"step":"drop_table"}`), "", "pipeline[1].step", `"drop_table"`},
		{"field given twice", pipe(fetch, `{"step":"top_k","k":1,"k":2}`), "", "pipeline[1].k", "twice"},
		{"field of another step", pipe(fetch, `{"step":"top_k","k":1,"order":"asc"}`), "top_k", "pipeline[1].order", "it takes k"},
		{"k missing", pipe(fetch, `{"step":"top_k"}`), "top_k", "pipeline[1].k", "required"},
		{"k null", pipe(fetch, `{"step":"top_k","k":null}`), "top_k", "pipeline[1].k", "required"},
		{"k a string", pipe(fetch, `{"step":"top_k","k":"3"}`), "top_k", "pipeline[1].k", "string"},
		{"k a fraction", pipe(fetch, `{"step":"top_k","k":1.5}`), "top_k", "pipeline[1].k", "1.5"},
		{"k zero", pipe(fetch, `{"step":"top_k","k":0}`), "top_k", "pipeline[1].k", "at least 1"},
		{"order", pipe(fetch, `{"step":"table_sort","field":"a","order":"up"}`), "table_sort", "pipeline[1].order", `"up"`},
		{"order's case", pipe(fetch, `{"step":"table_sort","field":"a","Order":"asc"}`), "table_sort", "pipeline[1].Order", "no such field"},
		{"sort without a field", pipe(fetch, `{"step":"table_sort"}`), "table_sort", "pipeline[1].field", "required"},
		{"sort with both", pipe(fetch, `{"step":"table_sort","field":"a","fields":["b"]}`), "table_sort", "pipeline[1].fields", "not both"},
		{"select nothing", pipe(fetch, `{"step":"table_select","fields":[]}`), "table_select", "pipeline[1].fields", "at least one"},
		{"select a number", pipe(fetch, `{"step":"table_select","fields":["a",1]}`), "table_select", "pipeline[1].fields[1]", "string"},
		{"select twice", pipe(fetch, `{"step":"table_select","fields":["a","a"]}`), "table_select", "pipeline[1].fields[1]", "twice"},
		{"no condition", pipe(fetch, `{"step":"table_filter"}`), "table_filter", "pipeline[1].condition", "required"},
		{"condition a string", pipe(fetch, `{"step":"table_filter","condition":"price<5"}`), "table_filter", "pipeline[1].condition", "a string"},
		{"operator", pipe(fetch, `{"step":"table_filter","condition":{"and":[{"field":"a","op":"~","value":1}]}}`), "table_filter", "pipeline[1].condition.and[0].op", `"~"`},
		{"no value", pipe(fetch, `{"step":"table_filter","condition":{"not":{"field":"a","op":"="}}}`), "table_filter", "pipeline[1].condition.not.value", "required"},
		{"field a number", pipe(fetch, `{"step":"table_filter","condition":{"field":1,"op":"=","value":1}}`), "table_filter", "pipeline[1].condition.field", "string"},
		{"pattern", pipe(fetch, `{"step":"table_filter","condition":{"field":"a","op":"matches","value":"("}}`), "table_filter", "pipeline[1].condition.value", "pattern"},
		{"in a string", pipe(fetch, `{"step":"table_filter","condition":{"field":"a","op":"in","value":"x"}}`), "table_filter", "pipeline[1].condition.value", "array"},
		{"less than an object", pipe(fetch, `{"step":"table_filter","condition":{"field":"a","op":"<","value":{}}}`), "table_filter", "pipeline[1].condition.value", "an object"},
		{"and with more", pipe(fetch, `{"step":"table_filter","condition":{"and":[],"field":"a"}}`), "table_filter", "pipeline[1].condition", "alone"},
		{"empty or", pipe(fetch, `{"step":"table_filter","condition":{"or":[]}}`), "table_filter", "pipeline[1].condition.or", "empty"},
		{"deep condition", pipe(fetch, `{"step":"table_filter","condition":`+strings.Repeat(`{"not":`, 20)+`{}`+strings.Repeat(`}`, 20)+`}`), "table_filter", "pipeline[1].condition", "deep"},
		{"group without by", pipe(fetch, `{"step":"groupby","agg":"sum","field":"b"}`), "groupby", "pipeline[1].by", "required"},
		{"group by a text", pipe(fetch, `{"step":"groupby","by":"a","agg":"count"}`), "groupby", "pipeline[1].by", "array"},
		{"group by twice", pipe(fetch, `{"step":"groupby","by":["a","a"],"agg":"count"}`), "groupby", "pipeline[1].by[1]", "twice"},
		{"group without agg", pipe(fetch, `{"step":"groupby","by":["a"],"field":"b"}`), "groupby", "pipeline[1].agg", "required"},
		{"group with no such agg", pipe(fetch, `{"step":"groupby","by":["a"],"agg":"median","field":"b"}`), "groupby", "pipeline[1].agg", `"median"`},
		{"sum of what", pipe(fetch, `{"step":"groupby","by":["a"],"agg":"sum"}`), "groupby", "pipeline[1].field", "required"},
		{"sum of all", pipe(fetch, `{"step":"groupby","by":["a"],"fields":["sum()"]}`), "groupby", "pipeline[1].fields[0]", "empty"},
		{"sum of both", pipe(fetch, `{"step":"groupby","by":["a"],"agg":"sum","field":"b","fields":["c"]}`), "groupby", "pipeline[1].fields", "not both"},
		{"sum twice", pipe(fetch, `{"step":"groupby","by":["a"],"agg":"sum","fields":["c","sum(c)"]}`), "groupby", "pipeline[1].fields[1]", "twice"},
		{"join of nothing", pipe(fetch, `{"step":"join","on":"a"}`), "join", "pipeline[1].right", "required"},
		{"join on nothing", pipe(fetch, `{"step":"join","right":"cas://x"}`), "join", "pipeline[1].on", "required"},
		{"join on half", pipe(fetch, `{"step":"join","right":"cas://x","on":"a="}`), "join", "pipeline[1].on", "empty"},
		{"join another way", pipe(fetch, `{"step":"join","right":"cas://x","on":"a","how":"outer"}`), "join", "pipeline[1].how", `"outer"`},
		{"join with two left sides", pipe(fetch, `{"step":"join","left":"cas://y","right":"cas://x","on":"a"}`), "join", "pipeline[1].left", "rows already"},
		{"join with no left side", pipe(`{"step":"join","right":"cas://x","on":"a"}`), "join", "pipeline[0].step", "no rows yet"},
		{"extract without a pattern", pipe(fetch, `{"step":"regex_extract","field":"a"}`), "regex_extract", "pipeline[1].pattern", "required"},
		{"extract from nothing", pipe(fetch, `{"step":"regex_extract","pattern":"a"}`), "regex_extract", "pipeline[1].field", "required"},
		{"extract with a bad pattern", pipe(fetch, `{"step":"regex_extract","field":"a","pattern":"(?<=a)b"}`), "regex_extract", "pipeline[1].pattern", "RE2"},
		{"extract with a long pattern", pipe(fetch, `{"step":"regex_extract","field":"a","pattern":"`+strings.Repeat("a", 70_000)+`"}`), "regex_extract", "pipeline[1].pattern", "70000 bytes"},
		{"extract with a large pattern", pipe(fetch, `{"step":"regex_extract","field":"a","pattern":"(?:abcdefghijklmnopqrstuvwxyz){1000}"}`), "regex_extract", "pipeline[1].pattern", "repeat less"},
		{"extract with many groups", pipe(fetch, `{"step":"regex_extract","field":"a","pattern":"`+strings.Repeat("(a)", 101)+`"}`), "regex_extract", "pipeline[1].pattern", "101 groups"},
		{"extract one name twice", pipe(fetch, `{"step":"regex_extract","field":"a","pattern":"(?P<a_2>x)(y)"}`), "regex_extract", "pipeline[1].pattern", "twice"},
		{"filter with a long pattern", pipe(fetch, `{"step":"table_filter","condition":{"field":"a","op":"matches","value":"`+strings.Repeat("a", 70_000)+`"}}`), "table_filter", "pipeline[1].condition.value", "70000 bytes"},
		{"date of nothing", pipe(fetch, `{"step":"parse_date","format":"%Y"}`), "parse_date", "pipeline[1].field", "required"},
		{"date in words", pipe(fetch, `{"step":"parse_date","field":"d","format":"YYYY-MM-DD"}`), "parse_date", "pipeline[1].format", "no directive"},
		{"date in an unknown way", pipe(fetch, `{"step":"parse_date","field":"d","format":"%Q"}`), "parse_date", "pipeline[1].format", "reads no date"},
		{"date with a long format", pipe(fetch, `{"step":"parse_date","field":"d","format":"`+strings.Repeat("%Y", 101)+`"}`), "parse_date", "pipeline[1].format", "202 bytes"},
		{"select as nothing", pipe(fetch, `{"step":"table_select","fields":["a as "]}`), "table_select", "pipeline[1].fields[0]", "no name"},
		{"select two as one", pipe(fetch, `{"step":"table_select","fields":["a","b as a"]}`), "table_select", "pipeline[1].fields[1]", "twice"},
		{"no rows yet", pipe(`{"step":"top_k","k":1}`), "top_k", "pipeline[0].step", "no rows yet"},
		{"second request", pipe(fetch, fetch), "http_request", "pipeline[1].step", "first"},
		{"request and input_ref", `{"session_id":"s","input_ref":"x","pipeline":[` + fetch + `]}`, "http_request", "pipeline[0].step", "not both"},
		{"no url", pipe(`{"step":"http_request"}`), "http_request", "pipeline[0].url", "required"},
		{"bad url", pipe(`{"step":"http_request","url":"https://a b/"}`), "http_request", "pipeline[0].url", "valid"},
		{"method", pipe(`{"step":"http_request","url":"a.com","method":"DELETE"}`), "http_request", "pipeline[0].method", `"DELETE"`},
		{"params a list", pipe(`{"step":"http_request","url":"a.com","params":[]}`), "http_request", "pipeline[0].params", "object"},
		{"params nested", pipe(`{"step":"http_request","url":"a.com","params":{"a":{}}}`), "http_request", "pipeline[0].params.a", "object"},
		{"metadata service", pipe(`{"step":"http_request","url":"http://169.254.169.254/latest"}`), "http_request", "pipeline[0].url", "not a public address"},
		{"localhost", pipe(`{"step":"http_request","url":"http://localhost:1/"}`), "http_request", "pipeline[0].url", "not a public address"},
		{"file", pipe(`{"step":"http_request","url":"file:///etc/passwd"}`), "http_request", "pipeline[0].url", ""},
		{"unknown input", `{"session_id":"s","input_ref":"cas://y","pipeline":[]}`, "", "input_ref", "cas://y"},
	}
	cfg := pipeline.Config{HTTP: client(t, egress.Config{}), Datasets: datasets{}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := call(t, cfg, tt.args)
			require.NotNil(t, res.Failure)
			require.Equal(t, tt.field, res.Failure.Field, res.Failure.Message)
			require.Equal(t, tt.step, res.Failure.Step)
			require.Equal(t, pipeline.ToolName, res.Failure.Tool)
			require.Contains(t, res.Failure.Message, tt.says)
			if tt.says == "required" || tt.says == "string" {
				require.Contains(t, res.Failure.Message, tt.field+": ", "the message alone says what is wrong")
			}
			require.False(t, res.Failure.Retryable)
			require.Contains(t, string(res.Output), `"error":{`)
		})
	}
}

func TestCancelledWhileWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(srv.Close)
	_, err := pipeline.New(pipeline.Config{HTTP: client(t, egress.Config{}, srv.URL)}).Tools()[0].Call(ctx, agent.Invocation{},
		agent.ToolCall{Args: json.RawMessage(fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":%q}]}`, srv.URL))})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, agent.CodeCancelled, agent.CodeOf(err))
}

func TestDatasets(t *testing.T) {
	require.Equal(t, `[{"a":1}]`, rows(t, over(t, `{"rows":[{"a":1}],"row_count":1,"steps":[{"step":"top_k"}]}`, ``)))

	res := call(t, pipeline.Config{}, `{"session_id":"s","input_ref":"cas://x","pipeline":[]}`)
	require.Equal(t, "input_ref", res.Failure.Field)

	_, err := pipeline.New(pipeline.Config{Datasets: datasets{}}).Tools()[0].Call(t.Context(), agent.Invocation{},
		agent.ToolCall{Args: json.RawMessage(`{"session_id":"s","input_ref":"cas://down","pipeline":[]}`)})
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "a store that is away is for the runtime to retry")
}
