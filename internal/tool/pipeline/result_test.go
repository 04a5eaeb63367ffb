package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// output is the output of execute_pipeline.
type output struct {
	Ref      string            `json:"ref"`
	Rows     []json.RawMessage `json:"rows"`
	Preview  json.RawMessage   `json:"preview"`
	RowCount int               `json:"row_count"`
	Steps    []json.RawMessage `json:"steps"`
	CacheHit bool              `json:"cache_hit"`
}

func outputOf(t *testing.T, res agent.ToolResult) output {
	t.Helper()
	tooltest.CheckResult(t, res)
	require.Nil(t, res.Failure)
	var out output
	require.NoError(t, json.Unmarshal(res.Output, &out))
	return out
}

// callAs calls the tool with an invocation of the tenant acme.
func callAs(t *testing.T, cfg pipeline.Config, inv agent.Invocation, args string) agent.ToolResult {
	t.Helper()
	inv.Tenant = "acme"
	res, err := pipeline.New(cfg).Tools()[0].Call(t.Context(), inv, agent.ToolCall{ID: "call_1", Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	return res
}

const someRows = `[{"a": 1, "b":"x"},{"a":2.50,"b":null},{"a":"3"}]`

func TestResultsAreStored(t *testing.T) {
	const compact = `[{"a":1,"b":"x"},{"a":2.50,"b":null},{"a":"3"}]`
	const args = `{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"top_k","k":3}]}`
	s := newStore()
	s.content["acme/cas://x"] = someRows
	cfg := pipeline.Config{Datasets: s, Blobs: s}
	fields := []agent.DatasetField{{Name: "a", Type: "mixed"}, {Name: "b", Type: "string"}}

	res := callAs(t, cfg, agent.Invocation{}, args)
	out := outputOf(t, res)
	require.JSONEq(t, compact, string(res.Data), "rows that fit are in the output")
	require.JSONEq(t, compact, s.get(res.Dataset), "and stored")
	require.Equal(t, agent.Dataset{Ref: out.Ref, RowCount: 3, Fields: fields}, *res.Dataset)
	require.Equal(t, 3, out.RowCount)
	require.Len(t, out.Steps, 1)
	require.False(t, res.CacheHit)

	bound := len(res.Output)
	require.NotNil(t, callAs(t, cfg, agent.Invocation{InlineBytes: bound + 40}, args).Data)
	res = callAs(t, cfg, agent.Invocation{InlineBytes: bound - 1}, args)
	out = outputOf(t, res)
	require.Nil(t, res.Data, "rows that do not fit are not in the output")
	require.Nil(t, out.Rows)
	require.JSONEq(t, string(res.Preview), string(out.Preview))
	require.JSONEq(t, compact, s.get(res.Dataset))
	require.Equal(t, 3, out.RowCount)

	next := callAs(t, cfg, agent.Invocation{}, `{"session_id":"s","input_ref":"`+out.Ref+`","pipeline":[{"step":"table_filter","condition":{"field":"a","op":">","value":2}}]}`)
	require.JSONEq(t, `[{"a":2.50,"b":null},{"a":"3"}]`, rows(t, next), "and read by the next call")
}

func TestOutputsAreWithinTheBound(t *testing.T) {
	s := newStore()
	for n := range 60 {
		s.content["acme/cas://x"] = "[" + strings.TrimSuffix(strings.Repeat(`{"a":12345678},`, n), ",") + "]"
		res := callAs(t, pipeline.Config{Datasets: s, Blobs: s}, agent.Invocation{InlineBytes: 700}, `{"session_id":"s","input_ref":"cas://x","pipeline":[]}`)
		require.LessOrEqual(t, len(res.Output), 700)
		if n < 35 {
			require.NotNil(t, res.Data, "%d rows", n)
		} else if n > 40 {
			require.Nil(t, res.Data, "%d rows", n)
		}
	}
}

func TestStoreTrouble(t *testing.T) {
	tests := []struct {
		name string
		fail error
		code agent.Code // of an error; empty: a failed result
	}{
		{"away", agent.Errorf(agent.CodeUnavailable, "put", "store is away"), agent.CodeUnavailable},
		{"full", agent.Errorf(agent.CodeOverflow, "put", "larger than 10 bytes"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore()
			s.fail = tt.fail
			s.content["acme/cas://x"] = "[" + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 100_000), ",") + "]"
			c := &results{}
			res, err := pipeline.New(pipeline.Config{Datasets: s, Blobs: s, Results: c}).Tools()[0].Call(t.Context(), agent.Invocation{Tenant: "acme"},
				agent.ToolCall{Args: json.RawMessage(`{"session_id":"s","input_ref":"cas://x","pipeline":[]}`)})
			require.Empty(t, c.kept, "a failure is not cached")
			if tt.code != "" {
				require.Equal(t, tt.code, agent.CodeOf(err))
				return
			}
			require.NoError(t, err)
			require.Equal(t, "overflow", res.Failure.Type)
			require.Contains(t, res.Failure.Message, "larger than 10 bytes")
		})
	}
}

// broken is a dataset store whose content ends in the middle with an error.
type broken struct{ err error }

func (b broken) Open(context.Context, string, string) (io.ReadCloser, error) {
	return io.NopCloser(io.MultiReader(strings.NewReader(`[{"a":1},`), iotest.ErrReader(b.err))), nil
}

func TestReadingTrouble(t *testing.T) {
	args := agent.ToolCall{Args: json.RawMessage(`{"session_id":"s","input_ref":"cas://x","pipeline":[]}`)}
	for _, cause := range []error{errors.New("connection reset"), agent.Errorf(agent.CodeUnavailable, "read", "away"), agent.Errorf(agent.CodeInternal, "read", "bad digest")} {
		_, err := pipeline.New(pipeline.Config{Datasets: broken{cause}}).Tools()[0].Call(t.Context(), agent.Invocation{}, args)
		require.ErrorIs(t, err, cause, "the runtime may retry after an error of the store")
	}
	res, err := pipeline.New(pipeline.Config{Datasets: broken{io.EOF}}).Tools()[0].Call(t.Context(), agent.Invocation{}, args)
	require.NoError(t, err)
	require.Equal(t, "input_ref", res.Failure.Field)
	require.Contains(t, res.Failure.Message, "the dataset is malformed JSON: it ends too early")
}

func TestBytesAreBounded(t *testing.T) {
	data := `[{"a":"` + strings.Repeat("x", 300) + `","k":1},{"a":"` + strings.Repeat("y", 300) + `","k":1}]`
	tests := []struct{ name, steps string }{
		{"select", `{"step":"table_select","fields":["a","a as b"]}`},
		{"extract", `{"step":"regex_extract","field":"a","pattern":"(x*)"}`},
		{"join", `{"step":"join","right":"cas://x","on":"k"}`},
		{"jq", `{"step":"jq_transform","query":".[] | ., ."}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := pipeline.Config{Datasets: datasets{"acme/cas://x": data}, MaxBytes: 800}
			res := call(t, cfg, `{"session_id":"s","input_ref":"cas://x","pipeline":[`+tt.steps+`]}`)
			require.NotNil(t, res.Failure)
			require.Equal(t, "overflow", res.Failure.Type, res.Failure.Message)
			require.Equal(t, "pipeline[0]", strings.TrimSuffix(res.Failure.Field, ".query"))
		})
	}
	res := call(t, pipeline.Config{Datasets: datasets{"acme/cas://x": data}, MaxBytes: 100}, `{"session_id":"s","input_ref":"cas://x","pipeline":[]}`)
	require.Equal(t, "the dataset is larger than 100 bytes", res.Failure.Message)
}

func TestFormatsOfResponses(t *testing.T) {
	const want = `[{"id":1,"name":"a"},{"id":2,"name":"b"}]`
	bodies := map[string]string{
		"json": want, "csv": "id,name\r\n1,a\r\n2,b\r\n", "ndjson": "{\"id\":1,\"name\":\"a\"}\n{\"id\":2,\"name\":\"b\"}\n",
	}
	tests := []struct{ path, contentType, body string }{
		{"/x", "application/json", "json"},
		{"/x", "application/vnd.api+json; charset=utf-8", "json"},
		{"/x", "text/csv", "csv"},
		{"/x", "application/x-ndjson", "ndjson"},
		{"/x", "application/jsonl", "ndjson"},
		{"/x.csv", "text/plain; charset=utf-8", "csv"},
		{"/x.CSV", "application/octet-stream", "csv"},
		{"/x.jsonl", "application/octet-stream", "ndjson"},
		{"/x.ndjson", "", "ndjson"},
		{"/x", "text/plain", "json"},
		{"/x.csv", "application/json", "json"},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.contentType, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for _, media := range []string{"application/json", "application/x-ndjson", "text/csv"} {
					if !strings.Contains(r.Header.Get("Accept"), media) {
						w.WriteHeader(http.StatusNotAcceptable)
					}
				}
				w.Header()["Content-Type"] = nil
				if tt.contentType != "" {
					w.Header().Set("Content-Type", tt.contentType)
				}
				_, _ = io.WriteString(w, bodies[tt.body])
			}))
			t.Cleanup(srv.Close)
			res := call(t, pipeline.Config{HTTP: client(t, egress.Config{}, srv.URL)},
				fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":"%s%s"}]}`, srv.URL, tt.path))
			require.JSONEq(t, want, rows(t, res))
		})
	}
}

func TestCredentials(t *testing.T) {
	var served atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		fmt.Fprintf(w, `[{"profiles":%q}]`, r.Header.Values("X-Profile"))
	}))
	t.Cleanup(srv.Close)
	inv := agent.Invocation{Auth: []agent.PlanAuth{{Name: "one"}}}
	args := fmt.Sprintf(`{"session_id":"s","pipeline":[{"step":"http_request","url":%q}]}`, srv.URL)
	cfg := pipeline.Config{HTTP: client(t, egress.Config{}, srv.URL), Auth: &authority{}}
	require.JSONEq(t, `[{"profiles":["one"]}]`, rows(t, callAs(t, cfg, inv, args)))

	cfg.Auth = &authority{err: agent.Errorf(agent.CodeDenied, "", `auth profile "one": its secret cannot be had`)}
	res := callAs(t, cfg, inv, args)
	require.Equal(t, "denied", res.Failure.Type)
	require.Equal(t, "pipeline[0]", res.Failure.Field)
	require.Contains(t, res.Failure.Message, `auth profile "one"`)
	require.Equal(t, int32(1), served.Load(), "nothing was sent")
}

func TestCancelledBetweenRows(t *testing.T) {
	data := flights(5000)
	for _, step := range []string{
		`{"step":"table_sort","field":"price"}`, `{"step":"table_filter","condition":{"field":"price","op":">","value":1}}`,
		`{"step":"table_select","fields":["id"]}`, `{"step":"groupby","by":["airline"],"agg":"max","field":"price"}`,
		`{"step":"join","right":"cas://x","on":"id"}`, `{"step":"regex_extract","field":"phone","pattern":"5+"}`,
		`{"step":"parse_date","field":"departure"}`, `{"step":"jq_transform","query":".[] | .id"}`,
	} {
		ctx, cancel := context.WithCancel(t.Context())
		args := `{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"top_k","k":5000},` + step + `]}`
		inv := agent.Invocation{Tenant: "acme", Progress: func(s string) {
			if strings.HasPrefix(s, "top_k") {
				cancel()
			}
		}}
		_, err := pipeline.New(pipeline.Config{Datasets: datasets{"acme/cas://x": data}}).Tools()[0].Call(ctx, inv, agent.ToolCall{Args: json.RawMessage(args)})
		require.ErrorIs(t, err, context.Canceled, step)
		cancel()
	}
}

func TestCache(t *testing.T) {
	var served atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		served.Add(1)
		_, _ = io.WriteString(w, someRows)
	}))
	t.Cleanup(srv.Close)
	s, c := newStore(), &results{}
	s.content["acme/cas://x"] = someRows
	base := pipeline.Config{HTTP: client(t, egress.Config{}, srv.URL), Datasets: s, Blobs: s, Results: c, Auth: &authority{}}
	args := func(session, rest string) string {
		return fmt.Sprintf(`{"session_id":%q,"pipeline":[{"step":"http_request","url":%q%s}]}`, session, srv.URL, rest)
	}
	first := callAs(t, base, agent.Invocation{}, args("one", `,"params":{"a":1,"b":2}`))
	require.Equal(t, time.Hour, c.ttl)
	require.Equal(t, int32(1), served.Load())

	var progress []string
	again := callAs(t, base, agent.Invocation{Progress: func(s string) { progress = append(progress, s) }},
		args("two", `,"params":{"b":2,"a":1}`))
	require.Equal(t, int32(1), served.Load(), "an equal pipeline of another session, with its fields in another order, sends no request")
	require.True(t, again.CacheHit)
	require.Equal(t, first.Data, again.Data)
	require.Equal(t, first.Preview, again.Preview)
	require.Equal(t, first.Dataset, again.Dataset)
	out := outputOf(t, again)
	require.True(t, out.CacheHit)
	require.Len(t, out.Steps, 1)
	require.Equal(t, []string{"answered out of the cache: 3 rows"}, progress)

	small := callAs(t, base, agent.Invocation{InlineBytes: 240}, args("one", `,"params":{"a":1,"b":2}`))
	require.True(t, small.CacheHit)
	require.Nil(t, small.Data)
	require.NotNil(t, outputOf(t, small).Preview)

	miss := func(name string, cfg pipeline.Config, inv agent.Invocation, args string) {
		t.Helper()
		before := served.Load()
		require.False(t, callAs(t, cfg, inv, args).CacheHit, name)
		require.Equal(t, before+1, served.Load(), name)
	}
	same := args("one", `,"params":{"a":1,"b":2}`)
	miss("another value", base, agent.Invocation{}, args("one", `,"params":{"a":1,"b":3}`))
	miss("other credentials", base, agent.Invocation{Auth: []agent.PlanAuth{{Name: "p"}}}, same)
	miss("another bound", base, agent.Invocation{Parameters: json.RawMessage(`{"max_rows":10}`)}, same)
	miss("turned off by the binding", base, agent.Invocation{Parameters: json.RawMessage(`{"cache_ttl_sec":0}`)}, same)
	off := base
	off.CacheTTL = -1
	miss("turned off", off, agent.Invocation{}, same)
	miss("numbers that are equal as floats", base, agent.Invocation{}, args("one", `,"params":{"a":9007199254740993}`))
	miss("numbers that are equal as floats", base, agent.Invocation{}, args("one", `,"params":{"a":9007199254740992}`))
	kept := len(c.kept)
	for range 2 {
		miss("a POST", base, agent.Invocation{}, args("one", `,"method":"POST"`))
	}
	require.Len(t, c.kept, kept, "a POST is not cached")

	callAs(t, base, agent.Invocation{Parameters: json.RawMessage(`{"cache_ttl_sec":60}`)}, args("one", `,"params":{"ttl":1}`))
	require.Equal(t, time.Minute, c.ttl)
	callAs(t, base, agent.Invocation{Parameters: json.RawMessage(`{"cache_ttl_sec":86400}`)}, args("one", `,"params":{"ttl":2}`))
	require.Equal(t, time.Hour, c.ttl, "a binding cannot raise it")

	require.Len(t, callAs(t, base, agent.Invocation{}, `{"session_id":"s","input_ref":"cas://x","pipeline":[]}`).Dataset.Fields, 2)
	require.True(t, callAs(t, base, agent.Invocation{}, `{"session_id":"t","input_ref":"cas://x","pipeline":[]}`).CacheHit)

	delete(s.content, "acme/"+first.Dataset.Ref)
	miss("the dataset is gone", base, agent.Invocation{}, same)
	c.broken = errors.New("cache is away")
	miss("the cache is away", base, agent.Invocation{}, same)
}

func TestFailuresAreNotCached(t *testing.T) {
	s, c := newStore(), &results{}
	s.content["acme/cas://x"] = someRows
	args := `{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"table_sort","field":"nowhere"}]}`
	for range 2 {
		require.NotNil(t, callAs(t, pipeline.Config{Datasets: s, Blobs: s, Results: c}, agent.Invocation{}, args).Failure)
	}
	require.Empty(t, c.kept)
	require.Equal(t, 2, c.asked)
	require.Zero(t, s.puts)
}

// TestStoredRowsAreRedacted checks that middleware also redacts the stored rows, and that redacted results are not cached.
func TestStoredRowsAreRedacted(t *testing.T) {
	s, c := newStore(), &results{}
	s.content["acme/cas://x"] = `[{"mail":"joe@example.com","a":1}]`
	cfg := pipeline.Config{Datasets: s, Blobs: s, Results: c}
	const args = `{"session_id":"s","input_ref":"cas://x","pipeline":[{"step":"top_k","k":3}]}`
	require.Contains(t, s.get(callAs(t, cfg, agent.Invocation{}, args).Dataset), "joe")
	kept := len(c.kept)
	clean := agent.Invocation{Redact: func(raw json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(strings.ReplaceAll(string(raw), "joe", "…")), nil
	}}
	for range 2 {
		res := callAs(t, cfg, clean, args)
		require.False(t, res.CacheHit)
		for _, text := range []string{string(res.Output), string(res.Preview), s.get(res.Dataset)} {
			require.NotContains(t, text, "joe")
		}
	}
	require.Len(t, c.kept, kept)

	stored := len(s.content)
	forbids := agent.Invocation{Tenant: "acme", Redact: func(json.RawMessage) (json.RawMessage, error) {
		return nil, agent.Errorf(agent.CodeDenied, "", "found one")
	}}
	_, err := pipeline.New(cfg).Tools()[0].Call(t.Context(), forbids, agent.ToolCall{ID: "call_1", Args: json.RawMessage(args)})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
	require.Len(t, s.content, stored, "nothing is stored")
}
