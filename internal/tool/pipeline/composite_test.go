package pipeline_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/tool/pipeline"
	"github.com/turnstone-run/turnstone/internal/tool/tooltest"
)

// flightServer returns an API of flights and the queries of its requests. Its rows repeat the parameter origin.
func flightServer(t *testing.T) (*httptest.Server, *[]string) {
	t.Helper()
	var mu sync.Mutex
	asked := &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		*asked = append(*asked, r.URL.RawQuery)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		var rows []string
		for i := range 5 {
			rows = append(rows, fmt.Sprintf(`{"id":%d,"origin":%q,"price":%d}`, i, r.URL.Query().Get("origin"), 500-100*i))
		}
		_, _ = fmt.Fprintf(w, "[%s]", strings.Join(rows, ","))
	}))
	t.Cleanup(s.Close)
	return s, asked
}

// promotingKit is a toolkit that promotes pipelines.
type promotingKit struct {
	kit   agent.DynamicToolkit
	calls int
}

// newPromotingKit returns a toolkit that promotes pipelines after two uses by default.
func newPromotingKit(t *testing.T, cfg pipeline.Config) *promotingKit {
	t.Helper()
	if cfg.PromoteAfter == 0 {
		cfg.PromoteAfter = 2
	}
	kit, ok := pipeline.New(cfg).(agent.DynamicToolkit)
	require.True(t, ok)
	return &promotingKit{kit: kit}
}

var scope = agent.ToolScope{Tenant: "acme"}

// run calls execute_pipeline with steps.
func (s *promotingKit) run(t *testing.T, steps string) agent.ToolResult {
	t.Helper()
	return s.runIn(t, agent.Invocation{Tenant: "acme"}, fmt.Sprintf(`{"session_id":"s","pipeline":[%s]}`, steps))
}

func (s *promotingKit) runIn(t *testing.T, inv agent.Invocation, args string) agent.ToolResult {
	t.Helper()
	s.calls++
	if inv.IdempotencyKey == "" {
		inv.IdempotencyKey = strconv.Itoa(s.calls)
	}
	res, err := s.kit.Tools()[0].Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: pipeline.ToolName, Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	return res
}

func (s *promotingKit) list(t *testing.T) []agent.ListedTool {
	t.Helper()
	listed, err := s.kit.List(t.Context(), scope)
	require.NoError(t, err)
	return listed
}

// only returns the only composite.
func (s *promotingKit) only(t *testing.T) agent.ListedTool {
	t.Helper()
	listed := s.list(t)
	require.Len(t, listed, 1)
	return listed[0]
}

func (s *promotingKit) find(t *testing.T, l agent.ListedTool) agent.Tool {
	t.Helper()
	found, err := s.kit.Find(t.Context(), scope, l.Spec.Name, l.Handle)
	require.NoError(t, err)
	return found
}

func (s *promotingKit) use(t *testing.T, l agent.ListedTool, args string) agent.ToolResult {
	t.Helper()
	s.calls++
	inv := agent.Invocation{Tenant: "acme", IdempotencyKey: strconv.Itoa(s.calls)}
	res, err := s.find(t, l).Call(t.Context(), inv, agent.ToolCall{ID: "c", Name: l.Spec.Name, Args: json.RawMessage(args)})
	require.NoError(t, err)
	tooltest.CheckResult(t, res)
	return res
}

// schemaOf returns a composite's parameters by name, and the names of the required ones.
func schemaOf(t *testing.T, l agent.ListedTool) (properties map[string]map[string]any, required []string) {
	t.Helper()
	var s struct {
		Properties map[string]map[string]any `json:"properties"`
		Required   []string                  `json:"required"`
		Additional *bool                     `json:"additionalProperties"`
	}
	require.NoError(t, json.Unmarshal(l.Spec.Parameters, &s))
	require.NotNil(t, s.Additional)
	require.False(t, *s.Additional)
	return s.Properties, s.Required
}

// trip returns a pipeline that fetches flights, sorts them by price and takes the first ones.
func trip(url, origin, dest string, top int) string {
	return fmt.Sprintf(`{"step":"http_request","url":"%s/flights","params":{"origin":%q,"dest":%q}},`+
		`{"step":"table_sort","field":"price","order":"asc"},{"step":"top_k","k":%d}`, url, origin, dest, top)
}

func TestRepeatedPipelineBecomesATool(t *testing.T) {
	server, asked := flightServer(t)
	s := newPromotingKit(t, pipeline.Config{HTTP: client(t, egress.Config{}, server.URL), Composites: &tooltest.CompositeStore{}})
	s.run(t, trip(server.URL, "NYC", "LAX", 3))
	require.Empty(t, s.list(t), "one use is not enough")
	s.run(t, trip(server.URL, "BER", "LAX", 3))
	made := s.only(t)

	require.Equal(t, "fetch_flights_by_price_top", made.Spec.Name)
	require.Equal(t, "composite", made.Kind)
	require.True(t, made.Spec.Strict)
	require.False(t, made.Spec.ReadsDatasets)
	require.Contains(t, made.Spec.Description, `Always with dest = "LAX", top = 3.`)
	require.Contains(t, made.Spec.Description, "sorts by price, takes the first rows")
	properties, required := schemaOf(t, made)
	require.Equal(t, []string{"origin"}, required)
	require.Equal(t, map[string]map[string]any{"origin": {
		"type": "string", "description": "Query parameter origin", "examples": []any{"BER", "NYC"},
	}}, properties)

	res := s.use(t, made, `{"origin":"SFO"}`)
	require.Nil(t, res.Failure)
	require.Equal(t, "dest=LAX&origin=SFO", (*asked)[2])
	require.JSONEq(t, `[{"id":4,"origin":"SFO","price":100},{"id":3,"origin":"SFO","price":200},{"id":2,"origin":"SFO","price":300}]`, string(res.Data))
	var out struct {
		Composite string `json:"composite"`
		RowCount  int    `json:"row_count"`
	}
	require.NoError(t, json.Unmarshal(res.Output, &out))
	require.Equal(t, made.Spec.Name, out.Composite)
	require.Equal(t, 3, out.RowCount)

	found := s.find(t, made)
	require.Equal(t, made.Spec, found.Spec())
	require.True(t, found.(agent.EffectFree).EffectFree(json.RawMessage(`{}`)))
	require.Equal(t, "3 steps", found.(agent.Summarizer).Summarize(nil))
	tooltest.ExerciseListed(t, s.kit, scope)
}

// TestCompositeIsExtended promotes a pipeline whose uses are all equal to a tool without arguments, which a different use extends.
func TestCompositeIsExtended(t *testing.T) {
	server, asked := flightServer(t)
	s := newPromotingKit(t, pipeline.Config{HTTP: client(t, egress.Config{}, server.URL), Composites: &tooltest.CompositeStore{}})
	for range 2 {
		s.run(t, trip(server.URL, "NYC", "LAX", 3))
	}
	first := s.only(t)
	properties, required := schemaOf(t, first)
	require.Empty(t, properties)
	require.Empty(t, required)
	require.Nil(t, s.use(t, first, `{}`).Failure)

	s.run(t, trip(server.URL, "BER", "LAX", 2))
	second := s.only(t)
	require.Equal(t, first.Spec.Name, second.Spec.Name)
	require.NotEqual(t, first.Handle, second.Handle)
	properties, required = schemaOf(t, second)
	require.Empty(t, required, "earlier callers give no arguments")
	require.Equal(t, "NYC", properties["origin"]["default"])
	require.InEpsilon(t, 3, properties["top"]["default"], 0)
	require.InEpsilon(t, 1, properties["top"]["minimum"], 0)
	require.Equal(t, "integer", properties["top"]["type"])
	require.Equal(t, []any{"BER", "NYC"}, properties["origin"]["examples"])
	require.Len(t, properties, 2)

	for i, c := range []struct {
		tool       agent.ListedTool
		args, want string
		rows       int
	}{
		{second, `{}`, "dest=LAX&origin=NYC", 3},
		{second, `{"origin":null,"top":1}`, "dest=LAX&origin=NYC", 1},
		{second, `{"origin":"SFO","top":2.0}`, "dest=LAX&origin=SFO", 2},
		{first, `{}`, "dest=LAX&origin=NYC", 3}, // a turn with the first version keeps it
	} {
		res := s.use(t, c.tool, c.args)
		require.Nil(t, res.Failure, "%d: %+v", i, res.Failure)
		require.Equal(t, c.want, (*asked)[len(*asked)-1])
		var rows []json.RawMessage
		require.NoError(t, json.Unmarshal(res.Data, &rows))
		require.Len(t, rows, c.rows)
	}
	require.Equal(t, second.Handle, s.only(t).Handle, "uses that fit the parameters do not extend it")
}

// TestCompositeTakesReferences promotes a pipeline that reads stored datasets.
func TestCompositeTakesReferences(t *testing.T) {
	s := newPromotingKit(t, pipeline.Config{
		Datasets:   datasets{"acme/cas://a": `[{"id":1,"price":3},{"id":2,"price":9}]`, "acme/cas://b": `[{"id":1,"name":"x"}]`},
		Composites: &tooltest.CompositeStore{},
	})
	cheap := `{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"join","right":"cas://b","on":"id","how":"left"},` +
		`{"step":"table_filter","condition":{"field":"price","op":"<","value":%s}}]}`
	s.runIn(t, agent.Invocation{Tenant: "acme"}, fmt.Sprintf(cheap, "5"))
	s.runIn(t, agent.Invocation{Tenant: "acme"}, fmt.Sprintf(cheap, "4.5"))
	made := s.only(t)
	require.True(t, made.Spec.ReadsDatasets)
	properties, required := schemaOf(t, made)
	require.Equal(t, []string{"input_ref", "max_price", "right_ref"}, required)
	require.Equal(t, "number", properties["max_price"]["type"])
	require.NotContains(t, properties["right_ref"], "examples", "references of one session are not shown to others")
	res := s.use(t, made, `{"input_ref":"cas://a","right_ref":"cas://b","max_price":10}`)
	require.Nil(t, res.Failure)
	require.JSONEq(t, `[{"id":1,"price":3,"name":"x"},{"id":2,"price":9,"name":null}]`, string(res.Data))
	res = s.use(t, made, `{"input_ref":"cas://gone","right_ref":"cas://b","max_price":10}`)
	require.NotNil(t, res.Failure)
	require.Equal(t, string(agent.CodeNotFound), res.Failure.Type)
	require.Equal(t, made.Spec.Name, res.Failure.Tool)
	require.Contains(t, string(res.Output), `"composite":"`+made.Spec.Name+`"`)
}

func TestCompositeRefusesArguments(t *testing.T) {
	s := newPromotingKit(t, pipeline.Config{Datasets: datasets{"acme/cas://a": `[{"a":1,"b":"x","c":true,"d":1}]`}, Composites: &tooltest.CompositeStore{}})
	steps := `{"session_id":"s","input_ref":"cas://a","pipeline":[{"step":"table_filter","condition":{"or":[{"field":"a","op":">","value":%d},` +
		`{"field":"b","op":"in","value":["x","%[1]d"]},{"field":"c","op":"=","value":%t},{"field":"d","op":"in","value":[%[1]d]}]}},{"step":"top_k","k":%[1]d}]}`
	s.runIn(t, agent.Invocation{Tenant: "acme"}, fmt.Sprintf(steps, 1, true))
	s.runIn(t, agent.Invocation{Tenant: "acme"}, fmt.Sprintf(steps, 2, false))
	made := s.only(t)
	good := map[string]string{"input_ref": `"cas://a"`, "min_a": "1", "b_in": `["x"]`, "c": "true", "d_in": "[1,2.5]", "top": "3"}
	args := func(name, value string) string {
		var parts []string
		for n, v := range good {
			if n == name {
				v = value
			}
			if v != "" {
				parts = append(parts, fmt.Sprintf("%q:%s", n, v))
			}
		}
		if good[name] == "" && value != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", name, value))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	require.Nil(t, s.use(t, made, args("", "")).Failure)
	tests := map[string]struct{ name, value, field, message string }{
		"missing":          {"c", "", "c", "is required"},
		"null":             {"c", "null", "c", "is required"},
		"no reference":     {"input_ref", "", "input_ref", "is required"},
		"unknown":          {"session_id", `"s"`, "session_id", "unknown field: want one of b_in, c, d_in, input_ref, min_a, top"},
		"text for number":  {"min_a", `"1"`, "min_a", "want a whole number, got a string"},
		"a fraction":       {"min_a", "1.5", "min_a", "want a whole number, got 1.5"},
		"beyond whole":     {"min_a", "1e401", "min_a", "has an exponent beyond 400"},
		"number for text":  {"input_ref", "1", "input_ref", "want a string, got a number"},
		"text for boolean": {"c", `"true"`, "c", "want true or false, got a string"},
		"one for a list":   {"b_in", `"x"`, "b_in", "want an array, got a string"},
		"empty list":       {"b_in", "[]", "b_in", "has 0 entries, want at least 1"},
		"mixed list":       {"b_in", `["x",1]`, "b_in[1]", "want a string, got a number"},
		"texts":            {"d_in", `["x"]`, "d_in[0]", "want a number, got a string"},
		"too small":        {"top", "0", "top", "want at least 1, got 0"},
		"negative":         {"top", "-1e30", "top", "want at least 1"},
		"a parameter":      {"c", `{"$parameter":"top"}`, "c", "want true or false, got an object"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := s.use(t, made, args(tt.name, tt.value))
			require.NotNil(t, res.Failure)
			require.Equal(t, string(agent.CodeInvalid), res.Failure.Type)
			require.Equal(t, tt.field, res.Failure.Field)
			require.Contains(t, res.Failure.Message, tt.field+": "+tt.message)
			require.Equal(t, made.Spec.Name, res.Failure.Tool)
		})
	}
}
