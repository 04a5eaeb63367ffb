package turns

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

// StoreTurn ends a turn: one transaction stores its result and transcript, passes on the session and writes the terminal event. Then StoreTurn wakes the
// next turn. It is idempotent: the first call decides the result, and every call returns it.
func (ts *Turns) StoreTurn(ctx context.Context, in StoreTurnInput) (StoreTurnResult, error) {
	ctx, done := ts.watch(ctx, "StoreTurn", in.TurnID, 0)
	stored, err := ts.Finish(ctx, in)
	done(err)
	if err != nil {
		return StoreTurnResult{}, err
	}
	out := capOutput(&stored, ts.HistoryOutputBytes)
	if isEndedOtherwise(out, &in) {
		return StoreTurnResult{Final: out}, nil
	}
	r := StoreTurnResult{
		Structured: len(out.Structured) > 0 && string(out.Structured) == out.Output, Output: out.Output,
		Blocks: out.Blocks, ResultRef: out.ResultRef, ResultPreview: out.ResultPreview, ToolCalls: out.ToolCalls,
	}
	if len(r.Blocks) == 1 && reflect.DeepEqual(r.Blocks[0], agent.Text(out.Output)) {
		r.Plain, r.Blocks = true, nil
	}
	return r, nil
}

// isEndedOtherwise reports whether the stored output differs from the one that the workflow would compose. That is so if something else ended the turn
// first, or an earlier attempt of StoreTurn did in a workflow task that was lost.
func isEndedOtherwise(out *agent.AgentStepOutput, in *StoreTurnInput) bool {
	return out.Status != in.Status || out.StopReason != in.Stop || out.Usage != in.Usage || out.Model != in.Model ||
		out.ExecutionTimeMS != in.ElapsedMS || !reflect.DeepEqual(out.Error, in.Failure)
}

// Finish is [Turns.StoreTurn] that returns the whole output, as the API does.
func (ts *Turns) Finish(ctx context.Context, in StoreTurnInput) (agent.AgentStepOutput, error) {
	turn, err := ts.turn(ctx, in.TurnID)
	if err != nil {
		return agent.AgentStepOutput{}, err
	}
	if in.Closing != "" {
		if err := ts.storeClosingWords(ctx, &turn, in); err != nil {
			return agent.AgentStepOutput{}, err
		}
	}
	done := agent.Finished{Stale: true}
	for done.Stale {
		record, err := ts.finishRecord(ctx, &turn, in)
		if err != nil {
			return agent.AgentStepOutput{}, err
		}
		if done, err = ts.storeFinish(ctx, &record); err != nil {
			return agent.AgentStepOutput{}, err
		}
	}
	ts.turns.Remove(in.TurnID)
	if done.Ended {
		ts.notifyEnded(ctx, &turn, &done.Output)
	}
	if !done.Logged {
		if err := ts.Log.Close(ctx, string(in.TurnID), terminalEvents(&done.Output)); err != nil {
			return agent.AgentStepOutput{}, fmt.Errorf("close stream: %w", err)
		}
	}
	if done.Next != "" {
		if err := ts.Runs.Ready(ctx, done.NextWorkflow); err != nil { // the next turn also checks by itself
			ts.log(ctx).Info("waking the next turn", zap.String("turn", string(done.Next)), zap.Error(err))
		}
	}
	return done.Output, nil
}

// finishRecord returns the record that ends a turn, made from its steps. It puts a large result into the blob store.
func (ts *Turns) finishRecord(ctx context.Context, turn *facts, in StoreTurnInput) (agent.FinishRecord, error) {
	models, tools, err := ts.Store.Steps(ctx, in.TurnID)
	if err != nil {
		return agent.FinishRecord{}, fmt.Errorf("load steps: %w", err)
	}
	sortByCall(models, tools)
	out := composeOutput(&turn.TurnRef, in, models, tools)
	if err := ts.addSteps(ctx, &turn.TurnRef, &out, tools); err != nil {
		return agent.FinishRecord{}, err
	}
	if len(turn.schema) > 0 && in.Stop == agent.StopEndTurn {
		if doc := structuredOf(out.Blocks); ts.Schemas.Check("output", turn.schema, doc) == nil {
			out.Structured = json.RawMessage(compact(doc))
			out.Output = string(out.Structured)
		}
	}
	record := agent.FinishRecord{
		TurnID: in.TurnID, Tenant: turn.Tenant, SessionID: turn.SessionID, JobID: turn.job.id, RunID: turn.job.run,
		NodeID: cmp.Or(turn.job.node, turn.Agent), CacheHit: slices.ContainsFunc(tools, func(t agent.ToolStep) bool { return t.CacheHit }),
		Models: models, Tools: tools,
	}
	if record.JobID != "" && in.Status == agent.TurnCompleted {
		record.JobError = jobError(models, tools)
	}
	if err := ts.keepResult(ctx, &record, &out, tools); err != nil {
		return agent.FinishRecord{}, err
	}
	record.Output = *capOutput(&out, ts.OutputBytes)
	record.Events = terminalEvents(&record.Output)
	return record, nil
}

// storeFinish stores the end of a turn and shows its last events to followers.
func (ts *Turns) storeFinish(ctx context.Context, record *agent.FinishRecord) (done agent.Finished, err error) {
	record.Stream, err = ts.Log.Hold(ctx, string(record.TurnID))
	if err != nil {
		return agent.Finished{}, fmt.Errorf("store events: %w", err)
	}
	done, err = ts.Store.Finish(ctx, *record)
	ts.Log.LetGo(record.Stream, done.Events)
	if err != nil {
		return agent.Finished{}, fmt.Errorf("finish turn: %w", err)
	}
	return done, nil
}

// notifyEnded tells the observer that a turn has ended.
func (ts *Turns) notifyEnded(ctx context.Context, t *facts, out *agent.AgentStepOutput) {
	ts.Observer.Ended(ctx, agent.TurnEnded{
		Turn: t.observed, Output: out, Ended: time.Now(),
		Record: func(ctx context.Context) (agent.TurnRecord, error) {
			stored, err := ts.Store.Turn(ctx, t.TurnID)
			return stored.Record, err
		},
	})
}

// storeClosingWords streams and stores the closing answer of a turn as its last model reply, unless it is stored.
func (ts *Turns) storeClosingWords(ctx context.Context, t *facts, in StoreTurnInput) error {
	key := agent.StepKey{TurnID: t.TurnID, Step: in.Step}
	isStored := ts.replyStored(key)
	if stored, err := isStored(ctx); err != nil || stored {
		return err
	}
	producer := fmt.Sprintf("%s/%d", answerProducer, in.Step)
	fence, err := ts.appendAlone(ctx, t.TurnRef, producer, isStored, agent.Event{Type: agent.EventToken, Text: in.Closing})
	if errors.Is(err, agent.ErrStreamClosed) || errors.Is(err, errStored) { // another process has ended the turn, or is about to
		return nil
	}
	if err != nil {
		return err
	}
	return ts.Store.SaveModelStep(ctx, agent.ModelStep{
		Key: key, Fence: fence, Tenant: t.Tenant, Blocks: []agent.Block{agent.Text(in.Closing)},
		Verdict: agent.ModelVerdict{FinishReason: agent.FinishStop},
	})
}

// Terminate ends a turn as failed, because its workflow has ended without storing a result. If the turn was never recorded, it only ends the stream.
func (ts *Turns) Terminate(ctx context.Context, id agent.TurnID) error {
	failure := &agent.Failure{Type: string(agent.StopTerminated), Message: "the turn ended without a result: whoever ran it is gone", Retryable: true}
	_, err := ts.Store.Turn(ctx, id)
	if agent.CodeOf(err) == agent.CodeNotFound {
		out := failedToBegin(id, agent.StopTerminated, failure)
		return ts.Log.Close(ctx, string(id), terminalEvents(&out))
	}
	if err != nil {
		return err
	}
	in := StoreTurnInput{TurnID: id, Status: agent.TurnFailed, Stop: agent.StopTerminated, Failure: failure}
	if in.Usage, in.Model, err = ts.Store.BilledUsage(ctx, id); err != nil { // only the workflow had the totals
		return fmt.Errorf("add up what turn %s was billed: %w", id, err)
	}
	_, err = ts.Finish(ctx, in)
	return err
}

// failedToBegin returns the output of a turn that was never recorded.
func failedToBegin(id agent.TurnID, stop agent.StopReason, f *agent.Failure) agent.AgentStepOutput {
	return agent.AgentStepOutput{
		TurnID: id, Status: agent.TurnFailed, StopReason: stop, Error: f, StreamID: string(id), Blocks: []agent.Block{},
		ToolCalls: []agent.ToolCallNote{},
	}
}

// composeOutput returns the output of a turn, made from its steps: the text of the last reply, and the preview of the last tool call that has one.
func composeOutput(t *TurnRef, in StoreTurnInput, models []agent.ModelStep, tools []agent.ToolStep) agent.AgentStepOutput {
	out := agent.AgentStepOutput{
		TurnID: t.TurnID, SessionID: t.SessionID, Agent: t.Agent, AgentInstanceID: t.InstanceID, Status: in.Status,
		Blocks: []agent.Block{}, ToolCalls: []agent.ToolCallNote{}, Usage: in.Usage, StopReason: in.Stop, Error: in.Failure,
		StreamID: string(t.TurnID), ExecutionTimeMS: in.ElapsedMS, Model: in.Model,
	}
	if n := len(models); n > 0 {
		for _, b := range models[n-1].Blocks {
			if b.Type != agent.BlockToolCall {
				out.Blocks = append(out.Blocks, b)
			}
		}
		out.Output = agent.Normalize(out.Blocks)
	}
	if in.Status == agent.TurnCompleted {
		out.Output = agent.NormalizeOutput(out.Blocks)
	}
	for i := range tools {
		t := &tools[i]
		out.ToolCalls = append(out.ToolCalls, agent.ToolCallNote{
			ID: t.Key.CallID, Tool: t.Name, Status: t.Result.Status, Ref: t.Result.Ref, CacheHit: t.CacheHit,
		})
		if len(t.Preview) > 0 {
			out.ResultPreview = t.Preview
		}
	}
	return out
}

// sortByCall sorts tool steps into the order in which the model made the calls.
func sortByCall(models []agent.ModelStep, tools []agent.ToolStep) {
	position := map[agent.StepKey]int{}
	for i := range models {
		key := models[i].Key
		for _, call := range agent.ToolCalls(models[i].Blocks) {
			key.CallID = call.ID
			position[key] = len(position)
		}
	}
	slices.SortStableFunc(tools, func(a, b agent.ToolStep) int {
		return cmp.Or(cmp.Compare(a.Key.Step, b.Key.Step), cmp.Compare(position[a.Key], position[b.Key]))
	})
}

// addSteps adds the inputs and outputs of the tool calls to an output if the plan has ReturnSteps. It adds nothing if the plan no longer exists.
func (ts *Turns) addSteps(ctx context.Context, t *TurnRef, out *agent.AgentStepOutput, tools []agent.ToolStep) error {
	if len(tools) == 0 {
		return nil
	}
	plan, err := ts.Registry.Plan(ctx, t.PlanHash)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return nil
	}
	if err != nil {
		return fmt.Errorf("load the plan of turn %s: %w", t.TurnID, err)
	}
	if !plan.ReturnSteps {
		return nil
	}
	for i := range tools {
		note := &out.ToolCalls[i]
		if json.Valid(tools[i].Args) {
			note.Input = tools[i].Args
		}
		note.Output = tools[i].Result.Output
	}
	return nil
}

// terminalEvents returns the last events of a turn's stream: the error, if there is one, and the terminal status.
func terminalEvents(out *agent.AgentStepOutput) []agent.Event {
	var events []agent.Event
	meta := agent.EventMeta{TurnID: out.TurnID, AgentInstanceID: out.AgentInstanceID, Producer: "turn"}
	if out.Error != nil {
		events = append(events, agent.Event{Meta: meta, Type: agent.EventError, Error: out.Error})
	}
	return append(events, agent.Event{
		Meta: meta, Type: agent.EventStatus, Status: agent.TerminalStatus(out.Status), Reason: string(out.StopReason), Result: out,
	})
}

// null is the JSON of an absent document.
const null = "null"

// capOutput returns a copy of an output in which each part has at most n bytes. Blocks that are larger together are left out. ResultRef refers to the
// complete output.
func capOutput(out *agent.AgentStepOutput, n int) *agent.AgentStepOutput {
	if out == nil {
		return nil
	}
	c := *out
	size := 0
	for i := range c.Blocks {
		b := &c.Blocks[i]
		size += len(b.Text) + len(b.Reasoning) + len(b.Base64) + len(b.Value) + len(b.Output) + len(b.Signature)
	}
	if size > n {
		c.Blocks = []agent.Block{}
	}
	if len(c.Output) > n {
		c.Output = clip.Bytes(c.Output, n-len("…"))
	}
	if len(c.Structured) > n || string(c.Structured) == null {
		c.Structured = nil
	}
	if len(c.ResultPreview) > n || string(c.ResultPreview) == null {
		c.ResultPreview = nil
	}
	c.ToolCalls = capSteps(c.ToolCalls, n)
	return &c
}

// capSteps returns copies of tool calls whose inputs and outputs have at most n bytes together. A call whose input and output do not fit loses both and
// is marked as truncated.
func capSteps(calls []agent.ToolCallNote, n int) []agent.ToolCallNote {
	calls = slices.Clone(calls)
	for i := range calls {
		c := &calls[i]
		if size := len(c.Input) + len(c.Output); size <= n {
			n -= size
			continue
		}
		c.Input, c.Output, c.Truncated = nil, nil, true
	}
	return calls
}
