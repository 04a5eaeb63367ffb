package e2e_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/app"
	"github.com/turnstone-run/turnstone/internal/stream/streamtest"
)

// mainJob is the prompt that the product is shown with.
const mainJob = "fetch flights from NYC to LAX, sort by price, show top 3"

// run starts a turn and follows it to its end.
func (s *system) run(req agent.TurnRequest) (*agent.AgentStepOutput, []agent.Event) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	receipt, err := s.client.Start(ctx, req)
	require.NoError(s.t, err)
	return s.follow(ctx, receipt.TurnID)
}

func (s *system) follow(ctx context.Context, id agent.TurnID) (*agent.AgentStepOutput, []agent.Event) {
	s.t.Helper()
	var events []agent.Event
	for e, err := range s.client.Follow(ctx, id, 0) {
		require.NoError(s.t, err)
		require.True(s.t, isNext(lastIndex(events), &e), "event %d behind %d", e.Meta.EventIndex, lastIndex(events))
		events = append(events, e)
	}
	require.NotEmpty(s.t, events)
	last := events[len(events)-1]
	require.True(s.t, last.Terminal(), "%+v", last)
	terminals := 0
	for i := range events {
		if events[i].Terminal() {
			terminals++
		}
	}
	require.Equal(s.t, 1, terminals)
	return last.Result, events
}

// lastIndex is the index of the newest event that was read, 0 if there is none.
func lastIndex(events []agent.Event) int64 {
	if len(events) == 0 {
		return 0
	}
	return events[len(events)-1].Meta.EventIndex
}

// isNext reports whether an event may follow an index. There is a hole only where a process was lost that wrote the stream: behind it stands a
// reset, or the end.
func isNext(last int64, e *agent.Event) bool {
	index := e.Meta.EventIndex
	return index == last+1 || index > last && (e.Type == agent.EventReset || e.Terminal())
}

// closed waits until the workflow of a turn is closed and returns its result.
func (s *system) closed(id agent.TurnID) agent.AgentStepOutput {
	s.t.Helper()
	var out agent.AgentStepOutput
	require.NoError(s.t, s.Temporal().GetWorkflow(s.t.Context(), id.WorkflowID(), "").Get(s.t.Context(), &out))
	return out
}

func count(events []agent.Event, kind agent.EventType) (n int) {
	for i := range events {
		if events[i].Type == kind {
			n++
		}
	}
	return n
}

func TestMainJob(t *testing.T) {
	t.Parallel()
	s := start(t, func(c *app.Config) { c.Temporal.ModelCalls = string(agent.ModelCallsLocal) })
	out, events := s.run(agent.TurnRequest{Message: mainJob, SessionID: "trip"})
	require.Equal(t, agent.TurnCompleted, out.Status, "%+v", out.Error)
	require.Equal(t, agent.StopEndTurn, out.StopReason)
	require.Contains(t, out.Output, "234", "the cheapest flight")
	require.Equal(t, out.Output, streamtest.Shown(events))
	require.JSONEq(t, `3`, string(field(t, out.ResultPreview, "row_count")))
	require.Len(t, out.ToolCalls, 1)
	require.Equal(t, "success", out.ToolCalls[0].Status)
	require.Equal(t, 1, count(events, agent.EventToolStart))
	require.GreaterOrEqual(t, count(events, agent.EventToolProgress), 3)
	require.Equal(t, 2, count(events, agent.EventUsage))
	require.Zero(t, count(events, agent.EventReset))

	require.JSONEq(t, encode(t, out), encode(t, s.closed(out.TurnID)), "the workflow returns what the stream ended with")
	h := s.replay("tool_turn", out.TurnID.WorkflowID(), "")
	n, bytes := size(h)
	t.Logf("one-tool turn: %d events, %d bytes", n, bytes)
	require.LessOrEqual(t, n, 12)
	require.LessOrEqual(t, bytes, 6<<10)

	body := s.get("/v1/results/" + out.ResultRef)
	require.JSONEq(t, string(body), string(s.get("/v1/results/"+out.ResultRef[len("artifact://"):])))
	require.JSONEq(t, string(body), string(s.get("/v1/results/"+string(out.TurnID))))
	var result struct {
		Output string            `json:"output"`
		Data   []json.RawMessage `json:"data"`
	}
	require.NoError(t, json.Unmarshal(body, &result))
	require.Equal(t, out.Output, result.Output)
	require.Len(t, result.Data, 3)
}

func field(t *testing.T, raw json.RawMessage, name string) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(raw, &m))
	return m[name]
}

func encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// get fetches a path of the HTTP door.
func (s *system) get(path string) []byte {
	s.t.Helper()
	resp, err := http.Get("http://" + s.HTTPAddr() + path)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.Equal(s.t, http.StatusOK, resp.StatusCode, "%s", body)
	return body
}

// alike takes away what may differ between two runs of the same turn.
func alike(t *testing.T, out agent.AgentStepOutput) string {
	t.Helper()
	require.NotZero(t, out.Usage.InputTokens)
	require.NotZero(t, out.Usage.OutputTokens)
	out.TurnID, out.SessionID, out.StreamID, out.ResultRef, out.ExecutionTimeMS = "", "", "", "", 0
	out.Usage = agent.Usage{} // the prompt holds the session's name
	for i := range out.ToolCalls {
		out.ToolCalls[i].ID = ""
	}
	return encode(t, out)
}
