package turns_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// TestJobOfATurn: the result row has the job, run and node of the turn, even if another process ends the turn.
func TestJobOfATurn(t *testing.T) {
	long := strings.Repeat("x", 257)
	h := newHarness(t)
	for name, c := range map[string]struct {
		metadata       map[string]any
		job, run, node string
	}{
		"job":  {map[string]any{agent.MetaJobID: "test-job-123", agent.MetaRunID: "run-1", agent.MetaNodeID: "fetch"}, "test-job-123", "run-1", "fetch"},
		"none": {map[string]any{"page": "home"}, "", "", "analyst"},
		"odd":  {map[string]any{agent.MetaJobID: 1.5, agent.MetaRunID: long, agent.MetaNodeID: nil}, "", "", "analyst"},
	} {
		for where, a := range map[string]*turns.Turns{"here": h.Turns, "there": h.process()} {
			ref := h.begin(agent.TurnRequest{TurnID: agent.TurnID(name + "-" + where), Context: agent.InvocationContext{Metadata: c.metadata}})
			_, err := a.StoreTurn(t.Context(), turns.StoreTurnInput{TurnID: ref.TurnID, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
			require.NoError(t, err)
			record := h.spy.finished[len(h.spy.finished)-1]
			require.Equal(t, []string{c.job, c.run, c.node}, []string{record.JobID, record.RunID, record.NodeID}, ref.TurnID)
			require.False(t, record.CacheHit)
		}
	}
}

// TestFailedWorkOfAJob: a job fails if its last tool call has failed, whatever the model answers. Calls count in the order in which the
// model made them.
func TestFailedWorkOfAJob(t *testing.T) {
	ofJob := map[string]any{agent.MetaJobID: "j"}
	timeout := &agent.Failure{
		Type: "unavailable", Message: "http_request: connection timeout", Retryable: true, Tool: "execute_pipeline", Step: "http_request", Field: "pipeline[0]",
	}
	want := *timeout
	want.Type = agent.JobExecutionError
	bare := agent.Failure{Type: agent.JobExecutionError, Message: "the tool lookup failed", Tool: "lookup"}
	long := agent.Failure{Type: "invalid", Message: strings.Repeat("é", 40<<10)}
	for name, c := range map[string]struct {
		metadata map[string]any
		steps    [][]*agent.Failure // the answers of each step's calls, in the order of the calls; nil: success
		status   agent.TurnStatus
		want     *agent.Failure
	}{
		"the only call":           {ofJob, [][]*agent.Failure{{timeout}}, agent.TurnCompleted, &want},
		"the last of several":     {ofJob, [][]*agent.Failure{{nil}, {nil, timeout}}, agent.TurnCompleted, &want},
		"a later one succeeded":   {ofJob, [][]*agent.Failure{{timeout}, {nil}}, agent.TurnCompleted, nil},
		"the next one succeeded":  {ofJob, [][]*agent.Failure{{timeout, nil}}, agent.TurnCompleted, nil},
		"no call":                 {ofJob, nil, agent.TurnCompleted, nil},
		"the turn failed anyway":  {ofJob, [][]*agent.Failure{{timeout}}, agent.TurnFailed, nil},
		"a chat":                  {nil, [][]*agent.Failure{{timeout}}, agent.TurnCompleted, nil},
		"nothing is known of why": {ofJob, [][]*agent.Failure{{{}}}, agent.TurnCompleted, &bare},
		"a long message, stored":  {ofJob, [][]*agent.Failure{{&long}}, agent.TurnCompleted, &bare},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.tool.effectFree = true
			h.begin(agent.TurnRequest{TurnID: "t1", Context: agent.InvocationContext{Metadata: c.metadata}})
			for i, answers := range c.steps {
				var asked []agent.Block
				for n := range answers {
					asked = append(asked, toolCall(string(rune('z'-n)), `{}`)) // the ids sort in reverse order
				}
				h.model.script(calls(asked...))
				h.callModel("t1", i+1)
				for n, failure := range answers {
					h.tool.call = returns(agent.ToolResult{Output: json.RawMessage(`1`), Failure: failure}, nil)
					h.callTool(turns.CallToolInput{TurnID: "t1", Step: i + 1, CallID: agent.CallID(asked[n].ID)})
				}
			}
			h.model.script(says("I am sorry."))
			h.callModel("t1", len(c.steps)+1)
			h.storeTurn(turns.StoreTurnInput{TurnID: "t1", Status: c.status, Stop: agent.StopEndTurn})
			record := h.spy.finished[len(h.spy.finished)-1]
			require.Equal(t, c.want, record.JobError)
			require.Equal(t, c.status, record.Output.Status, "the turn's status does not change")
			require.Nil(t, record.Output.Error)
		})
	}
}

// TestChildOfAJob: the result of a child turn does not replace the result of the job.
func TestChildOfAJob(t *testing.T) {
	h := newDelegatingHarness(t)
	h.beginDelegation(`{"agent_type":"langchain_agent","inputs":{"message":"x"}}`, map[string]any{agent.MetaJobID: "j", agent.MetaRunID: "r", agent.MetaNodeID: "n"})
	out := h.beginChild(turns.BeginChildInput{TurnID: "t1", Step: 1, CallID: "a"})
	for _, a := range []*turns.Turns{h.Turns, h.process()} {
		_, err := a.StoreTurn(t.Context(), turns.StoreTurnInput{TurnID: out.Child, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
		require.NoError(t, err)
		record := h.spy.finished[len(h.spy.finished)-1]
		require.Equal(t, []string{"", "r", "analyst"}, []string{record.JobID, record.RunID, record.NodeID})
	}
}

// TestCachedTokens: cached tokens are in the usage and have their own price.
func TestCachedTokens(t *testing.T) {
	h := newHarness(t)
	h.catalog.change(func(p *agent.Plan) {
		p.Models = []agent.PlanModel{{Profile: "default", Model: "scripted-1", InputPerMTok: 10, CachedPerMTok: 1}}
		p.Middleware = append([]agent.PlanMiddleware{{Name: "prompt_caching"}}, p.Middleware...)
	})
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	used := agent.Usage{InputTokens: 100, OutputTokens: 5, CachedTokens: 80}
	h.model.script(func(_ context.Context, req agent.ModelRequest, _ func(agent.Delta) error) (agent.ModelReply, error) {
		return agent.ModelReply{Blocks: []agent.Block{agent.Text("x")}, FinishReason: agent.FinishStop, Model: req.Model, Usage: used}, nil
	})
	v := h.callModel(ref.TurnID, 1)
	require.NotNil(t, h.model.seen[0].Cache)
	used.CostUSD = (20*10 + 80*1) / 1e6
	require.Equal(t, used, v.Usage)
	models, _, err := h.store.Steps(t.Context(), "t1")
	require.NoError(t, err)
	require.Equal(t, used, models[0].Verdict.Usage)
	require.Equal(t, []agent.UsageEntry{{Epoch: 1, Model: "scripted-1", Usage: used}}, models[0].Calls, "the ledger")
	h.storeTurn(turns.StoreTurnInput{TurnID: "t1", Status: agent.TurnCompleted, Stop: agent.StopEndTurn, Usage: v.Usage})
	require.Equal(t, int64(80), h.spy.finished[0].Output.Usage.CachedTokens)
}
