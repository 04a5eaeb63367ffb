package definitions_test

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// begins makes the pipelines record their input rows; "" means none.
func (b *bench) begins() *[]string {
	var begun []string
	b.world.Fetched = func(c definitions.PipelineCall) (definitions.PipelineResult, error) {
		rows := ""
		if c.InputRef != "" {
			content, err := b.rows.Open(b.t.Context(), c.Tenant, c.InputRef)
			require.NoError(b.t, err)
			raw, err := io.ReadAll(content)
			require.NoError(b.t, err)
			rows = string(raw)
		}
		begun = append(begun, rows)
		return definitions.PipelineResult{Ref: "cas://out", RowCount: 1}, nil
	}
	return &begun
}

func TestPipelineInputRows(t *testing.T) {
	for name, c := range map[string]struct{ input, steps, want string }{
		"rows of an object":       {`{"rows":[{"a":1.50},{"a":2}],"b":3}`, `[{"step":"top_k"}]`, `[{"a":1.50},{"a":2}]`},
		"a list":                  {`[{"a":"<é"}]`, `[{"step":"top_k"}]`, `[{"a":"<é"}]`},
		"no rows, but a list":     {`{"rows":[]}`, `[{"step":"top_k"}]`, `[]`},
		"no steps":                {`[1]`, `[]`, `[1]`},
		"one thing":               {`{"a":1}`, `[{"step":"top_k"}]`, ""},
		"nothing":                 {"", `[{"step":"top_k"}]`, ""},
		"rows that are fetched":   {`[1]`, `[{"step":"http_request"},{"step":"top_k"}]`, ""},
		"a join with a left side": {`[1]`, `[{"step":"join","left":"cas://x"}]`, ""},
		"a join without one":      {`[1]`, `[{"step":"join"}]`, `[1]`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, node(agent.WorkflowTask, `{"action":"pipeline","pipeline":`+c.steps+`}`), c.input)
			begun := b.begins()
			require.Nil(t, b.visit("n").Failure)
			require.Len(t, *begun, 1)
			if c.want == "" {
				require.Empty(t, (*begun)[0])
				return
			}
			require.JSONEq(t, c.want, (*begun)[0])
		})
	}
}

func TestPipelineKeepsItsInputRef(t *testing.T) {
	b := newBench(t, node(agent.WorkflowTask, `{"action":"pipeline","pipeline":[],"input_ref":"cas://1"}`), `[2]`)
	require.Equal(t, "cas://1", b.put(`[1]`))
	begun := b.begins()
	require.Nil(t, b.visit("n").Failure)
	require.Equal(t, []string{`[1]`}, *begun)
}

func TestPipelineAfterCondition(t *testing.T) {
	def := agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			{ID: "check", Type: agent.WorkflowCondition, Expr: "price < 500"},
			{ID: "top", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"pipeline","pipeline":[{"step":"top_k"}]}`)},
		},
		Edges: []agent.WorkflowEdge{{From: "check", To: "top", Condition: "true"}},
	}
	b := newBench(t, def, `{"rows":[{"price":450},{"price":700}]}`)
	begun := b.begins()
	require.Equal(t, "true", b.visit("check").Outcome)
	require.Nil(t, b.visit("top", core.Source{Node: 0, Visit: 1}).Failure)
	require.Equal(t, []string{`[{"price":450}]`}, *begun)
}

// The rows of several predecessors are concatenated in the order of the edges, whether they are stored or inline.
func TestPipelineJoinsRowsOfPredecessors(t *testing.T) {
	task := json.RawMessage(`{"action":"pipeline","pipeline":[{"step":"top_k"}]}`)
	def := agent.WorkflowDefinition{
		Nodes: []agent.WorkflowNode{
			{ID: "a", Type: agent.WorkflowTimer, Config: json.RawMessage(`{"duration":"0s"}`)},
			{ID: "b", Type: agent.WorkflowTask, Config: task},
			{ID: "c", Type: agent.WorkflowTask, Config: json.RawMessage(`{"action":"email"}`)},
			{ID: "z", Type: agent.WorkflowTask, Config: task},
		},
		Edges: []agent.WorkflowEdge{{From: "c", To: "z"}, {From: "b", To: "z"}, {From: "a", To: "z"}, {From: "a", To: "z"}},
	}
	from := []core.Source{{Node: 0, Visit: 1}, {Node: 1, Visit: 1}, {Node: 2, Visit: 1}}
	for name, c := range map[string]struct {
		rows     string
		overflow bool
	}{
		"two with rows": {rows: `[{"a":1},{"a":2}]`},
		"far too many":  {rows: "[" + strings.Repeat(fmt.Sprintf("%q,", strings.Repeat("x", 1<<20)), 64) + "0]", overflow: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, def, `{"rows":[{"a":3}]}`)
			ref := b.put(c.rows)
			b.world.Fetched = func(definitions.PipelineCall) (definitions.PipelineResult, error) {
				return definitions.PipelineResult{Ref: ref, RowCount: 2}, nil
			}
			for _, id := range []string{"a", "b", "c"} {
				require.Nil(t, b.visit(id).Failure, id)
			}
			begun := b.begins()
			out := b.visit("z", from...)
			if c.overflow {
				require.Equal(t, "overflow", out.Failure.Type)
				require.Empty(t, *begun)
				return
			}
			require.Nil(t, out.Failure)
			require.Equal(t, []string{`[{"a":1},{"a":2},{"a":3}]`}, *begun)
		})
	}
}
