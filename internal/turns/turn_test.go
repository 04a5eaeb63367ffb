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

func TestBadRequestsAreRefusedByField(t *testing.T) {
	h := newHarness(t, func(c *turns.Config) { c.MaxMessageBytes = 1000 })
	cases := map[string]struct{ in, field string }{
		"nothing":       {``, ""},
		"not JSON":      {`hello`, ""},
		"unknown field": {`{"message":"x","agnt":"analyst"}`, "agnt"},
		"wrong type":    {`{"message":"x","limits":{"tool_calls":"3"}}`, "limits.tool_calls"},
		"no message":    {`{}`, "message"},
		"two messages":  {`{"message":"x","messages":[{"role":"user","blocks":[{"type":"text","text":"y"}]}]}`, "messages"},
		"bad role":      {`{"messages":[{"role":"boss","blocks":[{"type":"text","text":"y"}]}]}`, "messages[0].role"},
		"bad block":     {`{"messages":[{"role":"user","blocks":[{"type":"text","text":"y"},{"type":"image"}]}]}`, "messages[0].blocks[1]"},
		"unknown agent": {`{"message":"x","agent":"nobody"}`, "agent"},
		"unknown model": {`{"message":"x","model":"gpt-99"}`, "model"},
		"bad session":   {`{"message":"x","session_id":"a b"}`, "session_id"},
		"too large":     {`{"message":"` + strings.Repeat("x", 1001) + `"}`, "message"},
		"bad on_busy":   {`{"message":"x","on_busy":"panic"}`, "on_busy"},
		"bad stream_to": {`{"message":"x","stream_to":{"workflow_id":"w","signal":"s","interval_ms":5}}`, "stream_to.interval_ms"},
		"bad mode":      {`{"message":"x","mode":"astral"}`, "mode"},
		"bad schema":    {`{"message":"x","output_schema":{"type":"objekt"}}`, "output_schema.type"},
		"odd schema":    {`{"message":"x","output_schema":{"type":"string"}}`, "output_schema.type"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			id := agent.TurnID("run-" + strings.ReplaceAll(name, " ", "-"))
			out, err := h.BeginTurn(t.Context(), json.RawMessage(c.in), turns.BeginTurnInput{WorkflowID: "w", RunID: string(id)})
			require.NoError(t, err)
			require.Equal(t, turns.VerdictRefused, out.Verdict)
			require.Equal(t, c.field, out.Refusal.Field, out.Refusal.Message)
			events := h.events(id)
			require.Equal(t, []agent.EventType{agent.EventError, agent.EventStatus}, types(events))
			require.True(t, events[1].Terminal())
			_, err = h.store.Turn(t.Context(), id)
			require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "nothing of it is stored")
		})
	}
	require.Empty(t, h.model.seen)
}

// TestBeginOfARecordedTurn: the workflow of a recorded turn reads its state, and writes only if that changes.
func TestBeginOfARecordedTurn(t *testing.T) {
	h := newHarness(t)
	record := func(id agent.TurnID) {
		req := agent.TurnRequest{TurnID: id, SessionID: "s1", Message: "hello"}
		_, err := h.Begin(t.Context(), req, turns.BeginTurnInput{WorkflowID: id.WorkflowID(), StartByID: true})
		require.NoError(t, err)
	}
	begin := func(id agent.TurnID) (out turns.BeginTurnResult, writes int) {
		before := h.spy.calls.begins
		out, err := h.process().BeginTurn(t.Context(), json.RawMessage(`{"turn_id":"`+string(id)+`"}`), turns.BeginTurnInput{WorkflowID: id.WorkflowID(), RunID: "r"})
		require.NoError(t, err)
		return out, h.spy.calls.begins - before
	}
	record("t1")
	record("t2")
	before := h.spy.calls
	here, err := h.BeginTurn(t.Context(), json.RawMessage(`{"turn_id":"t1"}`), turns.BeginTurnInput{WorkflowID: "turn/t1", RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, before, h.spy.calls, "the process that has just recorded it does not read the store")
	out, writes := begin("t1")
	require.Equal(t, here, out)
	require.Equal(t, turns.VerdictReady, out.Verdict)
	require.Equal(t, agent.SessionID("s1"), out.Turn.SessionID)
	require.Zero(t, writes)
	out, writes = begin("t2")
	require.Equal(t, turns.VerdictBehind, out.Verdict)
	require.Equal(t, 1, writes)

	_, err = h.separateProcess().StoreTurn(t.Context(), turns.StoreTurnInput{TurnID: "t1", Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
	require.NoError(t, err)
	out, writes = begin("t1")
	require.Equal(t, turns.VerdictDuplicate, out.Verdict)
	require.Equal(t, agent.TurnCompleted, out.Output.Status)
	require.Zero(t, writes)
	here, err = h.BeginTurn(t.Context(), json.RawMessage(`{"turn_id":"t1"}`), turns.BeginTurnInput{WorkflowID: "turn/t1", RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, turns.VerdictDuplicate, here.Verdict, "another process has ended it")
	out, writes = begin("t2")
	require.Equal(t, turns.VerdictReady, out.Verdict)
	require.Equal(t, 1, writes, "it has got the session, and its input is in the transcript")
}

// TestNullIsNoOutputSchema: programs with typed clients send null for what they do not set, and a workflow's input passes no door.
func TestNullIsNoOutputSchema(t *testing.T) {
	h := newHarness(t)
	const input = `{"message":"hello","idempotency_key":"k","output_schema":null}`
	for _, want := range []turns.Verdict{turns.VerdictReady, turns.VerdictDuplicate} {
		out, err := h.BeginTurn(t.Context(), json.RawMessage(input), turns.BeginTurnInput{WorkflowID: "by-hand", RunID: "r"})
		require.NoError(t, err)
		require.Equal(t, want, out.Verdict, "%v", out.Refusal)
		stored, err := h.store.Turn(t.Context(), out.Turn.TurnID)
		require.NoError(t, err)
		require.Empty(t, stored.Record.OutputSchema)
		_, err = h.StoreTurn(t.Context(), turns.StoreTurnInput{TurnID: out.Turn.TurnID, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
		require.NoError(t, err)
	}
}

// TestTakeOverReadsWhatOthersStored: each activity of a turn sees what other processes have stored, whatever its own process has cached.
func TestTakeOverReadsWhatOthersStored(t *testing.T) {
	h := newHarness(t)
	here, there := h.Turns, h.separateProcess()
	id := h.begin(agent.TurnRequest{TurnID: "t1"}).TurnID
	h.tool.effectFree = true
	h.tool.call = func(context.Context, agent.Invocation, agent.ToolCall) (agent.ToolResult, error) {
		return agent.ToolResult{Output: json.RawMessage(`"seen"`)}, nil
	}
	h.model.script(calls(toolCall("a", `{}`)), says("done"))
	ask := func(a *turns.Turns, step int) agent.ModelVerdict {
		v, err := a.CallModel(t.Context(), turns.CallModelInput{TurnID: id, Step: step})
		require.NoError(t, err)
		return v
	}
	require.Equal(t, ask(here, 1), ask(there, 1), "the reply is stored")
	for _, a := range []*turns.Turns{there, here} {
		_, err := a.CallTool(t.Context(), turns.CallToolInput{TurnID: id, Step: 1, CallID: "a"})
		require.NoError(t, err)
	}
	require.Equal(t, 1, h.tool.count)
	require.Equal(t, ask(here, 2), ask(there, 2))
	require.Len(t, h.model.seen, 2)
	require.JSONEq(t, `"seen"`, string(h.model.seen[1].Messages[2].Blocks[0].Output), "the result that another process has stored")
	_, err := there.StoreTurn(t.Context(), turns.StoreTurnInput{TurnID: id, Status: agent.TurnCompleted, Stop: agent.StopEndTurn})
	require.NoError(t, err)
	_, err = here.CallModel(t.Context(), turns.CallModelInput{TurnID: id, Step: 3})
	require.Error(t, err, "the turn has ended")
	require.Len(t, h.model.seen, 2)
}

func TestTurnIDs(t *testing.T) {
	require.Equal(t, agent.TurnID("mine"), turns.TurnIDOf(&agent.TurnRequest{TurnID: "mine", IdempotencyKey: "k"}, "run"))
	require.Equal(t, agent.TurnID("run"), turns.TurnIDOf(&agent.TurnRequest{}, "run"))
	a := turns.TurnIDOf(&agent.TurnRequest{IdempotencyKey: "k"}, "run")
	require.Equal(t, a, turns.TurnIDOf(&agent.TurnRequest{IdempotencyKey: "k", Context: agent.InvocationContext{Tenant: "default"}}, "other"))
	require.NotEqual(t, a, turns.TurnIDOf(&agent.TurnRequest{IdempotencyKey: "k", Context: agent.InvocationContext{Tenant: "b"}}, "run"))
}

// TestTurnIDFromTheWorkflowID: a turn that is started by hand under the workflow id turn/<id> has that id.
func TestTurnIDFromTheWorkflowID(t *testing.T) {
	cases := map[string]struct {
		workflow, request string
		id                agent.TurnID
		field, message    string // of a refusal
	}{
		"turn/42":                {"turn/42", `{"message":"x"}`, "42", "", ""},
		"turn/42, said twice":    {"turn/42", `{"message":"x","turn_id":"42"}`, "42", "", ""},
		"another turn":           {"turn/42", `{"message":"x","turn_id":"43"}`, "", "turn_id", `"turn/42" names turn "42"`},
		"another turn by key":    {"turn/42", `{"message":"x","idempotency_key":"k"}`, "", "idempotency_key", `"turn/42" names turn "42"`},
		"no name":                {"turn/a b", `{"message":"x"}`, "", "turn_id", "want 1 to 128"},
		"turn/ and nothing":      {"turn/", `{"message":"x"}`, "the-run", "", ""},
		"another workflow id":    {"mine", `{"message":"x"}`, "the-run", "", ""},
		"another, with a turn":   {"mine", `{"message":"x","turn_id":"43"}`, "43", "", ""},
		"misspelt":               {"turn/42", `{"mesage":"x"}`, "", "mesage", "unknown field"},
		"of an agent that is no": {"turn/42", `{"message":"x","agent":"nobody"}`, "", "agent", "nobody"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			in := turns.BeginTurnInput{WorkflowID: c.workflow, RunID: "the-run"}
			out, err := h.BeginTurn(t.Context(), json.RawMessage(c.request), in)
			require.NoError(t, err)
			require.Equal(t, c.id, out.Turn.TurnID)
			if c.field == "" {
				require.Equal(t, turns.VerdictReady, out.Verdict, "%+v", out.Refusal)
				return
			}
			require.Equal(t, turns.VerdictRefused, out.Verdict)
			require.Equal(t, c.field, out.Refusal.Field)
			require.Contains(t, out.Refusal.Message, c.message)

			in.WorkflowID = "turn/42"
			out, err = h.BeginTurn(t.Context(), json.RawMessage(`{"message":"x"}`), in)
			require.NoError(t, err)
			require.Equal(t, turns.VerdictReady, out.Verdict, "after a correction it begins under the same id")
		})
	}
}

// TestKeyOfAnotherRequestIsRefused: a turn that is started by hand does not return the result of another request.
func TestKeyOfAnotherRequestIsRefused(t *testing.T) {
	h := newHarness(t)
	begin := func(request string) turns.BeginTurnResult {
		out, err := h.BeginTurn(t.Context(), json.RawMessage(request), turns.BeginTurnInput{WorkflowID: "mine", RunID: "r"})
		require.NoError(t, err)
		return out
	}
	first := begin(`{"message":"x","idempotency_key":"k"}`)
	require.Equal(t, turns.VerdictReady, first.Verdict)
	h.completeTurn(first.Turn.TurnID)
	require.Equal(t, turns.VerdictDuplicate, begin(`{"message":"x","idempotency_key":"k"}`).Verdict)
	for _, other := range []string{`"message":"y"`, `"message":"x","agent":"other"`, `"message":"x","limits":{"tokens":5}`} {
		out := begin(`{"idempotency_key":"k",` + other + `}`)
		require.Equal(t, turns.VerdictRefused, out.Verdict, other)
		require.Contains(t, []string{"idempotency_key", "agent"}, out.Refusal.Field, other)
	}
}

// TestTurnKeepsItsRecordedID: a waiting turn that an older release recorded under its run id keeps that id.
func TestTurnKeepsItsRecordedID(t *testing.T) {
	h := newHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
	_, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: "the-run", SessionID: "s1", Message: "x"}, turns.BeginTurnInput{WorkflowID: "turn/42"})
	require.NoError(t, err)
	again := turns.BeginTurnInput{WorkflowID: "turn/42", RunID: "the-run", Again: true, TurnID: "the-run"}
	out, err := h.BeginTurn(t.Context(), json.RawMessage(`{"message":"x","session_id":"s1"}`), again)
	require.NoError(t, err)
	require.Equal(t, agent.TurnID("the-run"), out.Turn.TurnID)
	require.Equal(t, 1, out.Position)
	require.False(t, out.Cancelled)
	require.NoError(t, h.log.Cancel(t.Context(), "the-run"))
	out, err = h.BeginTurn(t.Context(), json.RawMessage(`{"message":"x","session_id":"s1"}`), again)
	require.NoError(t, err)
	require.True(t, out.Cancelled, "it was cancelled while it waited")
}

func TestWholeTurn(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "3f0c9f3e-34ff-4a0f-8f5e-0f4f3a1b2c3d", SessionID: "s1"})
	h.tool.effectFree = true
	h.tool.call = returns(agent.ToolResult{
		Output: json.RawMessage(`{"rows":[1,2]}`), Data: json.RawMessage(`[1,2]`), Preview: json.RawMessage(`{"type":"dataset","row_count":2,"sample":[1,2]}`),
	}, nil)
	h.model.script(calls(toolCall("a", `{}`)), says("two rows"))
	h.callModel(ref.TurnID, 1)
	h.callTool(turns.CallToolInput{TurnID: ref.TurnID, Step: 1, CallID: "a"})
	v := h.callModel(ref.TurnID, 2)

	in := turns.StoreTurnInput{TurnID: ref.TurnID, Status: agent.TurnCompleted, Stop: agent.StopEndTurn, Usage: v.Usage, Model: v.Model, ElapsedMS: 12}
	out := h.storeTurn(in)
	require.Equal(t, "two rows", out.Output)
	require.True(t, out.Plain)
	require.Nil(t, out.Blocks, "the history does not have the text twice")
	require.Equal(t, []agent.ToolCallNote{{ID: "a", Tool: "lookup", Status: "success"}}, out.ToolCalls)
	require.JSONEq(t, `{"type":"dataset","row_count":2,"sample":[1,2]}`, string(out.ResultPreview))
	require.True(t, strings.HasPrefix(out.ResultRef, "artifact://"))

	repeated := h.storeTurn(in)
	require.Nil(t, repeated.Final, "the workflow knows what is stored")
	for what, change := range map[string]func(*turns.StoreTurnInput){
		"another end":        func(in *turns.StoreTurnInput) { in.Status, in.Stop = agent.TurnFailed, agent.StopTerminated },
		"a later workflow":   func(in *turns.StoreTurnInput) { in.ElapsedMS++ },
		"more usage":         func(in *turns.StoreTurnInput) { in.Usage.InputTokens++ },
		"another last model": func(in *turns.StoreTurnInput) { in.Model += "-2" },
		"a failure":          func(in *turns.StoreTurnInput) { in.Failure = &agent.Failure{Type: "internal"} },
	} {
		late := in
		change(&late)
		again, err := h.StoreTurn(t.Context(), late)
		require.NoError(t, err, what)
		require.NotNil(t, again.Final, "%s: the first call decides the result", what)
		require.Equal(t, agent.TurnCompleted, again.Final.Status, what)
		require.Equal(t, int64(12), again.Final.ExecutionTimeMS, what)
		require.Equal(t, out.ResultRef, again.Final.ResultRef, what)
	}
	events := h.events(ref.TurnID)
	require.True(t, events[len(events)-1].Terminal())
	require.Equal(t, agent.StatusCompleted, events[len(events)-1].Status)

	row, err := h.store.Result(t.Context(), "default", out.ResultRef)
	require.NoError(t, err)
	require.JSONEq(t, `[1,2]`, string(row.Data), "the result has the rows")

	duplicate, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: ref.TurnID, SessionID: "s1", Message: "hello"}, turns.BeginTurnInput{RunID: "r"})
	require.NoError(t, err)
	require.Equal(t, turns.VerdictDuplicate, duplicate.Verdict)
	require.Equal(t, "two rows", duplicate.Output.Output)

	next := h.begin(agent.TurnRequest{TurnID: "t2", SessionID: "s1", Message: "and now?"})
	h.model.script(says("."))
	h.callModel(next.TurnID, 1)
	prompt := h.model.seen[2].Messages
	require.Len(t, prompt, 5, "user, assistant with the call, tool, assistant, user")
	require.Equal(t, agent.UserText("and now?"), prompt[4])
}

// TestTerminatedTurnKeepsItsBill: a turn that ends without its workflow has the recorded usage of its model calls and of its children.
func TestTerminatedTurnKeepsItsBill(t *testing.T) {
	h := newHarness(t)
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.model.script(calls(toolCall("a", `{}`)), says("so far"), says("of the child"))
	for step := range 2 {
		h.callModel("t1", step+1)
	}
	_, err := h.Begin(t.Context(), agent.TurnRequest{TurnID: "t2", Message: "help"}, turns.BeginTurnInput{WorkflowID: "turn/t2", RunID: "r", Parent: "t1"})
	require.NoError(t, err)
	h.callModel("t2", 1)
	require.NoError(t, h.Terminate(t.Context(), "t1"))
	ended := h.turn("t1")
	out := ended.Output
	require.Equal(t, agent.StopTerminated, out.StopReason)
	require.Equal(t, int64(20), out.Usage.OutputTokens)
	require.Equal(t, int64(200), out.Usage.InputTokens)
	require.InDelta(t, 400e-6, out.Usage.CostUSD, 1e-9)
	require.Equal(t, "scripted-1", out.Model)
	events := h.events("t1")
	require.Equal(t, out.Usage, events[len(events)-1].Result.Usage, "viewers see the same")
}

func TestLongOutputIsCappedInHistoryAlone(t *testing.T) {
	h := newHarness(t)
	ref := h.begin(agent.TurnRequest{TurnID: "t1"})
	long := strings.Repeat("many words ", 4000)
	h.model.script(says(long))
	h.callModel(ref.TurnID, 1)
	out := h.completeTurn(ref.TurnID)
	require.LessOrEqual(t, len(out.Output), 1024)
	require.Empty(t, out.Blocks)
	row, err := h.store.Result(t.Context(), "default", out.ResultRef)
	require.NoError(t, err)
	require.Contains(t, string(row.Data), long)
	events := h.events("t1")
	require.Equal(t, long, events[len(events)-1].Result.Output, "the stream has 64 KiB")
}

// TestStepsInTheAnswer: if the agent returns its steps, the result has the inputs and outputs of the tool calls, as far as they fit.
func TestStepsInTheAnswer(t *testing.T) {
	h := newHarness(t)
	h.catalog.change(func(p *agent.Plan) { p.ReturnSteps = true })
	h.tool.effectFree = true
	long := strings.Repeat("x", 30<<10) // below what is moved to the blob store
	h.model.script(calls(toolCall("d", `{"q":1}`), toolCall("b", `{"q":2}`), toolCall("c", `{"q":3}`), toolCall("a", `{"q":4}`)), says("done"))
	h.begin(agent.TurnRequest{TurnID: "t1"})
	h.callModel("t1", 1)
	for id, answer := range map[agent.CallID]string{"d": "short", "b": long, "c": long, "a": long} {
		h.tool.call = returns(agent.ToolResult{Output: json.RawMessage(`"` + answer + `"`)}, nil)
		h.callTool(turns.CallToolInput{TurnID: "t1", Step: 1, CallID: id})
	}
	h.callModel("t1", 2)
	out := h.completeTurn("t1")
	events := h.events("t1")
	steps := events[len(events)-1].Result.ToolCalls
	require.Len(t, steps, 4)
	require.JSONEq(t, `{"q":1}`, string(steps[0].Input))
	require.JSONEq(t, `"short"`, string(steps[0].Output))
	require.JSONEq(t, `{"q":2}`, string(steps[1].Input))
	require.JSONEq(t, `"`+long+`"`, string(steps[1].Output), "64 KiB fit")
	require.Equal(t, agent.ToolCallNote{ID: "a", Tool: "lookup", Status: "success", Truncated: true}, steps[3])
	require.JSONEq(t, `"short"`, string(out.ToolCalls[0].Output), "the history has what fits into 1 KiB")
	require.True(t, out.ToolCalls[1].Truncated)
}

func TestBusySession(t *testing.T) {
	h := newHarness(t, func(c *turns.Config) { c.QueueLength = 1 })
	h.begin(agent.TurnRequest{TurnID: "t1", SessionID: "s1"})
	ask := func(id agent.TurnID, busy agent.OnBusy) (turns.BeginTurnResult, error) {
		return h.Begin(t.Context(), agent.TurnRequest{TurnID: id, SessionID: "s1", Message: "x", OnBusy: busy}, turns.BeginTurnInput{WorkflowID: "turn/" + string(id), RunID: "r"})
	}
	_, err := ask("t2", agent.OnBusyReject)
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	out, err := ask("t3", agent.OnBusyInterrupt)
	require.NoError(t, err)
	require.Equal(t, turns.VerdictBehind, out.Verdict)
	require.Equal(t, agent.TurnID("t1"), out.Holder)
	require.Equal(t, 1, out.Position)
	require.Equal(t, []string{"turn/t1"}, h.runs.stopped)
	tail, err := h.log.Tail(t.Context(), "t1")
	require.NoError(t, err)
	require.True(t, tail.Cancelled)
	_, err = ask("t4", agent.OnBusyQueue)
	require.Equal(t, agent.CodeRateLimited, agent.CodeOf(err), "the queue is full")

	ref := turns.TurnRef{TurnID: "t1", Tenant: "default", SessionID: "s1"}
	h.storeTurn(turns.StoreTurnInput{TurnID: ref.TurnID, Status: agent.TurnCancelled, Stop: agent.StopCancelled})
	require.Equal(t, []string{"turn/t3"}, h.runs.ready, "the next turn is signalled")
	out, err = ask("t3", agent.OnBusyInterrupt)
	require.NoError(t, err)
	require.Equal(t, turns.VerdictReady, out.Verdict)
}

// TestMessageToARefusedTurn: a message to a refused turn has no session, and does not become a turn of the default agent.
func TestMessageToARefusedTurn(t *testing.T) {
	h := newHarness(t)
	out, err := h.QueueMessage(t.Context(), turns.QueueMessageInput{TurnID: "t1", Message: turns.Message{Message: "hello"}, Start: true})
	require.NoError(t, err)
	require.NotNil(t, out.Refusal)
	require.Contains(t, out.Refusal.Message, "the turn was refused")
	_, err = h.store.Turn(t.Context(), "t1")
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err), "%v", err)
}
