package turns_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

const madeRef = "cas://sha256:00000000000000000000000000000000000000000000000000000000000000aa"

// datasetResult returns a result whose rows the tool has stored itself.
func datasetResult(more ...func(*agent.ToolResult)) agent.ToolResult {
	r := agent.ToolResult{
		Output:  json.RawMessage(`{"ref":"` + madeRef + `","row_count":2,"cache_hit":true}`),
		Data:    json.RawMessage(`[{"price":1},{"price":2}]`),
		Preview: json.RawMessage(`{"type":"dataset","row_count":2,"sample":[{"price":1}]}`),
		Dataset: &agent.Dataset{Ref: madeRef, RowCount: 2, Fields: []agent.DatasetField{{Name: "price", Type: "number"}}}, CacheHit: true,
	}
	for _, m := range more {
		m(&r)
	}
	return r
}

// failingBlobs fails the test if content is stored.
type failingBlobs struct {
	turns.Blobs

	t *testing.T
}

func (n failingBlobs) Put(context.Context, string, io.Reader) (string, error) {
	n.t.Error("stored once more")
	return "", nil
}

func TestDataset(t *testing.T) {
	h, in := beginWithCall(t, true, func(c *turns.Config) { c.Blobs, c.InlineBytes = failingBlobs{c.Blobs, t}, 2000 })
	h.tool.call = func(_ context.Context, inv agent.Invocation, _ agent.ToolCall) (agent.ToolResult, error) {
		require.Equal(t, 2000, inv.InlineBytes)
		return datasetResult(), nil
	}
	v := h.callTool(in)
	require.Equal(t, agent.ToolVerdict{ID: "a"}, v, "the history does not have it")
	step, want := h.result(), datasetResult()
	require.Equal(t, want.Dataset, step.Dataset)
	require.True(t, step.CacheHit)
	require.Equal(t, madeRef, step.Result.Ref)
	require.JSONEq(t, string(want.Output), string(step.Result.Output))
	require.JSONEq(t, string(want.Data), string(step.Data))
	events := h.events("t1")
	end := events[len(events)-1]
	require.Equal(t, agent.EventToolEnd, end.Type)
	require.Equal(t, madeRef, end.Ref)
	require.JSONEq(t, string(want.Output), string(end.Output))
}

// TestDatasetShapes: whatever dataset a tool describes, the model gets a bounded description and the rest is stored.
func TestDatasetShapes(t *testing.T) {
	long := strings.Repeat("x", 4000)
	cases := map[string]struct {
		result  agent.ToolResult
		output  string
		preview string
		dataset bool
		hit     bool
	}{
		"large output": {
			result: datasetResult(func(r *agent.ToolResult) { r.Output = json.RawMessage(`"` + long + `"`) }), dataset: true, hit: true,
			output:  `{"ref":"` + madeRef + `","preview":{"type":"dataset","row_count":2,"sample":[{"price":1}]}}`,
			preview: `{"type":"dataset","row_count":2,"sample":[{"price":1}]}`,
		},
		"no preview": {
			result: datasetResult(func(r *agent.ToolResult) { r.Output, r.Preview, r.CacheHit = json.RawMessage(`"`+long+`"`), nil, false }), dataset: true,
			output: `{"ref":"` + madeRef + `","preview":{"type":"dataset","row_count":2}}`, preview: `{"type":"dataset","row_count":2}`,
		},
		"large preview": {
			result: datasetResult(func(r *agent.ToolResult) {
				r.Output, r.Preview = json.RawMessage(`"`+long+`"`), json.RawMessage(`"`+long+`"`)
			}),
			dataset: true, hit: true, output: `{"ref":"` + madeRef + `","preview":{"type":"json","bytes":25}}`, preview: `"` + long + `"`,
		},
		"stored nowhere": {
			result: datasetResult(func(r *agent.ToolResult) { r.Dataset.Ref, r.Output = "flights", json.RawMessage(`1`) }), hit: true,
			output: `1`, preview: `{"type":"dataset","row_count":2,"sample":[{"price":1}]}`,
		},
		"failed": {
			result: datasetResult(func(r *agent.ToolResult) { r.Failure = &agent.Failure{Type: "invalid", Message: "no"} }),
			output: `{"error":{"type":"invalid","message":"no","retryable":false}}`,
		},
	}
	h := newHarness(t, func(c *turns.Config) { c.Blobs, c.InlineBytes = failingBlobs{c.Blobs, t}, 2000 })
	h.tool.effectFree = true
	h.begin(agent.TurnRequest{TurnID: "t1"})
	var blocks []agent.Block
	for name := range cases {
		blocks = append(blocks, toolCall(name, `{}`))
	}
	h.model.script(calls(blocks...))
	h.callModel("t1", 1)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h.tool.call = returns(c.result, nil)
			v := h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: agent.CallID(name)})
			step := h.spy.tools[agent.StepKey{TurnID: "t1", Step: 1, CallID: agent.CallID(name)}]
			require.JSONEq(t, c.output, string(step.Result.Output))
			require.Equal(t, c.preview, string(step.Preview))
			require.Equal(t, c.hit, step.CacheHit)
			require.Equal(t, c.dataset, step.Dataset != nil)
			require.Equal(t, c.dataset, step.Result.Ref == madeRef)
			require.Equal(t, step.Result.Ref, v.Ref, "the output was moved")
			require.Equal(t, c.result.Failure == nil, len(step.Data) > 0)
		})
	}
}

func TestDescriptionIsBounded(t *testing.T) {
	h, in := beginWithCall(t, true)
	h.tool.call = returns(datasetResult(func(r *agent.ToolResult) {
		r.Dataset.Fields = append([]agent.DatasetField{{Name: strings.Repeat("n", 300)}}, make([]agent.DatasetField, 90)...)
	}), nil)
	h.callTool(in)
	require.Equal(t, make([]agent.DatasetField, 50), h.spy.tools[agent.StepKey{TurnID: "t1", Step: 1, CallID: "a"}].Dataset.Fields)
}

// finishTurn ends the turn t1 and returns its stored result.
func (h *harness) finishTurn() (turns.StoreTurnResult, agent.FinishRecord) {
	h.t.Helper()
	out := h.completeTurn("t1")
	return out, h.spy.finished[len(h.spy.finished)-1]
}

func TestResultOfADataset(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		cas  string
	}{
		"small": {`[1,2]`, ""},
		"large": {``, strings.TrimPrefix(madeRef, "cas://")},
	} {
		t.Run(name, func(t *testing.T) {
			h, in := beginWithCall(t, true)
			h.tool.call = returns(datasetResult(func(r *agent.ToolResult) { r.Data = json.RawMessage(c.data) }), nil)
			h.callTool(in)
			out, record := h.finishTurn()
			require.Equal(t, c.data, string(record.Result), "only the rows")
			require.Equal(t, c.cas, record.CASID)
			require.JSONEq(t, `{"output":"No output from agent.","blocks":[],"data_ref":"`+madeRef+`"}`, string(record.Answer))
			require.True(t, record.CacheHit)
			require.Equal(t, []agent.ToolCallNote{{ID: "a", Tool: "lookup", Status: "success", Ref: madeRef, CacheHit: true}}, out.ToolCalls)
			require.JSONEq(t, string(datasetResult().Preview), string(out.ResultPreview))
		})
	}
}

// Rows that the tool has stored in the blob store are copied into the result row if they are small enough.
func TestResultFetchesItsData(t *testing.T) {
	const rows = `[{"b":1.0,"a":2}]`
	for name, c := range map[string]struct {
		bound  int
		inline bool
	}{
		"below the bound": {len(rows) + 1, true},
		"at the bound":    {len(rows), false},
		"above the bound": {len(rows) - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, in := beginWithCall(t, true, func(a *turns.Config) { a.MaxInlineBytes, a.Blobs = c.bound, bucketBlobs{a.Blobs} })
			ref, err := h.blobs.Put(t.Context(), "default", strings.NewReader(rows))
			require.NoError(t, err)
			h.tool.call = returns(datasetResult(func(r *agent.ToolResult) { r.Data, r.Dataset.Ref = nil, ref }), nil)
			h.callTool(in)
			_, record := h.finishTurn()
			require.JSONEq(t, `{"output":"No output from agent.","blocks":[],"data_ref":"`+ref+`"}`, string(record.Answer))
			if c.inline {
				require.Equal(t, rows, string(record.Result))
				require.Empty(t, record.CASID+record.S3Ref)
				return
			}
			require.Nil(t, record.Result)
			require.Equal(t, ref, "cas://"+record.CASID, "nothing is stored twice")
			require.Equal(t, "s3://bucket/default/"+ref, record.S3Ref)
		})
	}
}

// bucketBlobs returns S3 addresses for content.
type bucketBlobs struct{ turns.Blobs }

func (bucketBlobs) S3Ref(tenant, ref string) string { return "s3://bucket/" + tenant + "/" + ref }

// TestLargeAnswer: a large answer without rows goes to the blob store, as the same document as in the row.
func TestLargeAnswer(t *testing.T) {
	h, in := beginWithCall(t, true, func(c *turns.Config) { c.MaxInlineBytes = 300 })
	h.tool.call = returns(agent.ToolResult{Output: json.RawMessage(`1`)}, nil)
	h.callTool(in)
	h.model.script(says(strings.Repeat("word ", 100)))
	h.callModel("t1", 2)
	_, record := h.finishTurn()
	require.Nil(t, record.Result)
	require.Nil(t, record.Answer)
	require.True(t, strings.HasPrefix(record.CASID, "sha256:"))
	stored, err := h.blobs.Open(t.Context(), "default", "cas://"+record.CASID)
	require.NoError(t, err)
	body, err := io.ReadAll(stored)
	require.NoError(t, err)
	text := strings.TrimSpace(strings.Repeat("word ", 100)) + " "
	want, err := json.Marshal(map[string]any{"output": text, "blocks": []agent.Block{agent.Text(text)}})
	require.NoError(t, err)
	require.JSONEq(t, string(want), string(body))
}
