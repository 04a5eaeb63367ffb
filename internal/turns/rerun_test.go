package turns_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// step stores a reply of a turn and the result of each of its calls.
func (o *inboxHarness) step(id agent.TurnID, step int, blocks ...agent.Block) {
	o.t.Helper()
	fence := agent.Fence{StreamID: string(id), Producer: "model", Epoch: 1}
	require.NoError(o.t, o.store.SaveModelStep(o.t.Context(), agent.ModelStep{
		Key: agent.StepKey{TurnID: id, Step: step}, Tenant: "acme", Fence: fence, Blocks: blocks,
		Calls: []agent.UsageEntry{{Epoch: 1, Model: "m", Usage: agent.Usage{InputTokens: 5}}},
	}))
	for _, call := range agent.ToolCalls(blocks) {
		require.NoError(o.t, o.store.SaveToolStep(o.t.Context(), agent.ToolStep{
			Key: agent.StepKey{TurnID: id, Step: step, CallID: call.ID}, Tenant: "acme", Fence: fence, Name: call.Name,
			Result: agent.Block{Type: agent.BlockToolResult, ToolCallID: call.ID, Name: call.Name, Status: agent.ResultSuccess, Output: json.RawMessage(`{"n":1}`)},
		}))
	}
}

// end ends a turn with a status.
func (o *inboxHarness) end(id agent.TurnID, status agent.TurnStatus) {
	o.t.Helper()
	t := o.turn(id)
	out := agent.AgentStepOutput{TurnID: id, SessionID: t.Record.SessionID, Agent: t.Record.Agent, Status: status, StreamID: string(id), Blocks: []agent.Block{}}
	_, err := o.store.Finish(o.t.Context(), agent.FinishRecord{
		TurnID: id, Tenant: t.Record.Tenant, SessionID: t.Record.SessionID, Output: out, Result: json.RawMessage(`{}`),
		Events: []agent.Event{{Type: agent.EventStatus, Status: agent.TerminalStatus(status), Result: &out}},
	})
	require.NoError(o.t, err)
}

// submitTurn submits a request as a caller with all rights in the tenant acme.
func (o *inboxHarness) submitTurn(change func(*agent.TurnRequest)) agent.TurnID {
	o.t.Helper()
	return o.submit(agent.Envelope{Channel: "http", Principal: keyCaller("*"), Request: helloRequest(change)}).TurnID
}

func (o *inboxHarness) rerun(id agent.TurnID, who agent.Principal, r agent.RerunRequest) (agent.TurnState, error) {
	o.t.Helper()
	req := r.TurnRequest()
	req.Context.Tenant = "acme"
	receipt, err := o.Rerun(o.t.Context(), id, agent.Envelope{Channel: "http", Principal: who, Request: req})
	if err != nil {
		return agent.TurnState{}, err
	}
	t := o.turn(receipt.TurnID)
	require.Equal(o.t, receipt.SessionID, t.Record.SessionID)
	return t, nil
}

func TestRerunRepeatsTheRequest(t *testing.T) {
	o := newInboxHarness(t)
	o.addAgent("judge", func(p *agent.Plan) { p.Models = append(p.Models, agent.PlanModel{Profile: "q", Model: "n"}) })
	first := o.submitTurn(func(r *agent.TurnRequest) { r.SessionID, r.Message, r.Agent = "s", "before", "judge" })
	o.end(first, agent.TurnCompleted)
	tokens := int64(9)
	asked := agent.InvocationContext{
		Tenant: "acme", UserID: "bob", UserRole: "admin", UIPage: "p", Flags: map[string]any{"beta": true},
		Metadata: map[string]any{agent.MetaJobID: "j1", agent.MetaRunID: "r1"},
	}
	id := o.submitTurn(func(r *agent.TurnRequest) {
		r.SessionID, r.Message, r.Agent, r.Model, r.Context = "s", "the question", "judge", "q", asked
		r.Limits = &agent.Limits{Tokens: tokens}
		r.OutputSchema = json.RawMessage(`{"type":"object"}`)
		r.ClientTools = []agent.ClientTool{{Name: "ask_user"}}
	})
	o.step(id, 1, agent.Block{Type: agent.BlockToolCall, ID: "c1", Name: "look", Args: json.RawMessage(`{}`)})
	_, err := o.rerun(id, keyCaller("*"), agent.RerunRequest{})
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err), "the turn has not ended")
	o.end(id, agent.TurnFailed)
	_, err = o.rerun("unknown", keyCaller("*"), agent.RerunRequest{})
	require.Equal(t, agent.CodeNotFound, agent.CodeOf(err))

	again, err := o.rerun(id, agent.Principal{}, agent.RerunRequest{})
	require.NoError(t, err)
	r := again.Record
	require.Equal(t, id, again.RerunOf)
	require.Zero(t, again.FromStep)
	require.NotEqual(t, agent.SessionID("s"), r.SessionID)
	require.Equal(t, []agent.Message{agent.UserText("the question")}, r.Input)
	require.EqualValues(t, 2, again.Cursor, "after the earlier messages")
	require.Equal(t, "judge q http", r.Agent+" "+r.Model+" "+r.Channel)
	require.Equal(t, tokens, r.Limits.Tokens)
	require.Equal(t, "ask_user", r.ClientTools[0].Name)
	require.JSONEq(t, `{"type":"object"}`, string(r.OutputSchema))
	want := asked
	want.Metadata = map[string]any{agent.MetaRunID: "r1"}
	require.Equal(t, want, r.Context, "except for the job, which has a result")
	line, _ := o.lastAudit()
	require.Equal(t, string(id), detail(t, &line)["rerun_of"])

	who := keyCaller("*")
	who.Subject = ""
	changed, err := o.rerun(id, who, agent.RerunRequest{
		Model: "p", SessionID: "mine", Limits: &agent.Limits{Tokens: 7}, Context: &agent.InvocationContext{UIPage: "other"}, Prompt: "Be brief.",
	})
	require.NoError(t, err)
	c := changed.Record.Context
	require.Equal(t, "bob  other", c.UserID+" "+c.UserRole+" "+c.UIPage, "the role is that of the credential")
	require.Empty(t, c.Flags)
	require.Equal(t, "mine p", string(changed.Record.SessionID)+" "+changed.Record.Model)
	require.EqualValues(t, 7, changed.Record.Limits.Tokens)
	plan, err := o.catalog.Plan(t.Context(), changed.Record.PlanHash)
	require.NoError(t, err)
	require.Equal(t, "Be brief.", plan.System)
	require.NotEqual(t, r.PlanHash, changed.Record.PlanHash)
	_, err = o.rerun(id, keyCaller("*"), agent.RerunRequest{SessionID: "s"})
	require.Equal(t, "conflict session_id", string(agent.CodeOf(err))+" "+agent.FailureOf(err).Field)

	other, err := o.rerun(id, keyCaller("*"), agent.RerunRequest{Agent: "clerk"})
	require.NoError(t, err)
	require.Equal(t, "clerk ", other.Record.Agent+" "+other.Record.Model, "a draft may have other models")
	_, err = o.rerun(id, keyCaller("turns.run:clerk"), agent.RerunRequest{})
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err))
}

func TestRerunTakesSteps(t *testing.T) {
	o := newInboxHarness(t)
	id := o.submitTurn(func(r *agent.TurnRequest) { r.Message = "the question" })
	call := agent.Block{Type: agent.BlockToolCall, ID: "c1", Name: "look", Args: json.RawMessage(`{}`)}
	o.step(id, 1, call)
	o.step(id, 2, call)
	o.end(id, agent.TurnFailed)
	for _, step := range []int{-1, 4} {
		_, err := o.rerun(id, keyCaller("*"), agent.RerunRequest{FromStep: step})
		require.Equal(t, "invalid from_step", string(agent.CodeOf(err))+" "+agent.FailureOf(err).Field)
		require.ErrorContains(t, err, "want 1 to 3")
	}
	for step, messages := range map[int]int{1: 1, 2: 3, 3: 5} {
		again, err := o.rerun(id, keyCaller("*"), agent.RerunRequest{FromStep: step})
		require.NoError(t, err)
		require.Len(t, again.Record.Input, messages)
		require.Equal(t, step, again.FromStep)
	}

	again, err := o.rerun(id, keyCaller("*"), agent.RerunRequest{FromStep: 2, IdempotencyKey: "k"})
	require.NoError(t, err)
	joined, err := o.rerun(id, keyCaller("*"), agent.RerunRequest{FromStep: 2, IdempotencyKey: "k"})
	require.NoError(t, err)
	require.Equal(t, again.Record.TurnID, joined.Record.TurnID, "the same request is the same turn")
	brief := agent.RerunRequest{Prompt: "Be brief.", IdempotencyKey: "p"}
	for range 2 {
		_, err = o.rerun(id, keyCaller("*"), brief)
		require.NoError(t, err)
	}
	for name, other := range map[string]agent.RerunRequest{
		"another step": {FromStep: 3, IdempotencyKey: "k"}, "another model": {FromStep: 2, Model: "p", IdempotencyKey: "k"},
		"another prompt": {Prompt: "Be long.", IdempotencyKey: "p"}, "a prompt": {FromStep: 2, Prompt: "Be brief.", IdempotencyKey: "k"},
	} {
		_, err = o.rerun(id, keyCaller("*"), other)
		require.Equal(t, "conflict idempotency_key", string(agent.CodeOf(err))+" "+agent.FailureOf(err).Field, name)
	}
	usage, _, err := o.store.BilledUsage(t.Context(), again.Record.TurnID)
	require.NoError(t, err)
	require.Zero(t, usage, "copied steps are not charged again")
	o.step(again.Record.TurnID, 1, agent.Text("done"))
	o.end(again.Record.TurnID, agent.TurnCompleted)
	further, err := o.rerun(again.Record.TurnID, keyCaller("*"), agent.RerunRequest{})
	require.NoError(t, err)
	require.Equal(t, again.Record.Input, further.Record.Input, "a rerun of a rerun begins at the same step")

	_, err = o.pool.Exec(t.Context(), `UPDATE turns SET input = '[]' WHERE turn_id = $1`, id)
	require.NoError(t, err)
	_, err = o.rerun(id, keyCaller("*"), agent.RerunRequest{})
	require.Equal(t, agent.CodeConflict, agent.CodeOf(err))
	require.ErrorContains(t, err, "retention")
}

func TestRerunIsDirect(t *testing.T) {
	o := newInboxHarness(t)
	id := o.submitTurn(nil)
	o.end(id, agent.TurnCompleted)
	again, err := o.rerun(id, keyCaller("*"), agent.RerunRequest{Mode: agent.ModeDirect})
	require.NoError(t, err)
	require.Equal(t, id, again.RerunOf)
	require.Equal(t, agent.ModeDirect, again.Record.Mode)
}
