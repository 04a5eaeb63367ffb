package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// AgentTurn runs one turn: one inbound message to one final result (docs/design/design.md, "One turn, one workflow"). The request is taken raw and
// checked by BeginTurn, so that a bad one is refused with the field's name instead of failing to decode. carry is for continue-as-new and for direct
// turns that are handed over; one without a turn was typed by a person and is refused.
//
// A turn that fails completes with status "failed". The workflow itself fails when the request is refused, and for a failed turn if the worker is
// configured so and no other workflow waits for the turn.
func AgentTurn(ctx workflow.Context, request converter.RawValue, carry *Carry) (agent.AgentStepOutput, error) {
	if carry != nil && carry.Turn.TurnID == "" {
		return agent.AgentStepOutput{}, refusalError(agent.FailureOf(agent.Invalid("carry",
			"AgentTurn takes one input, a turn request: the second one is for continue-as-new alone, leave it out")))
	}
	t := newTurn(ctx, carry)
	if err := t.listen(ctx); err != nil {
		return agent.AgentStepOutput{}, err
	}
	// From here on nothing is cancelled from outside: a cancel marks the stream, and the turn ends in order.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if carry == nil {
		if out, err := t.begin(ctx, request); out != nil || err != nil {
			return t.leave(ctx, out, err)
		}
	}
	return t.run(ctx)
}

// run interprets the core's actions until the turn is over.
func (t *agentTurn) run(ctx workflow.Context) (agent.AgentStepOutput, error) {
	for {
		if t.cancelled {
			t.State = t.State.Cancel()
		}
		action := t.State.Next()
		t.show(ctx, action)
		t.indexAction(ctx, action)
		switch action.Kind {
		case turn.CallModel:
			t.callModel(ctx, action)
		case turn.CallTools:
			t.callTools(ctx, action)
		case turn.Await:
			t.await(ctx, action)
		case turn.Retrieve:
			t.retrieve(ctx)
		case turn.Pause:
			t.pause(ctx, action)
		case turn.Finish:
			return t.finish(ctx, action)
		}
		if t.due(ctx) {
			return agent.AgentStepOutput{}, t.continueAsNew(ctx)
		}
	}
}

// begin calls BeginTurn until the turn holds its session. It returns an output if the turn is over already.
func (t *agentTurn) begin(ctx workflow.Context, request converter.RawValue) (*agent.AgentStepOutput, error) {
	info := workflow.GetInfo(ctx)
	in := turns.BeginTurnInput{WorkflowID: info.WorkflowExecution.ID, RunID: info.FirstRunID, CoreVersion: turn.Version}
	pause := askAgainFirst
	for {
		var begun turns.BeginTurnResult
		if err := runQuick(ctx, "begin", acts.BeginTurn, &begun, request, in); err != nil {
			return nil, err
		}
		t.bind(ctx, &begun)
		switch begun.Verdict {
		case turns.VerdictReady:
			t.ready = true
			t.loadPlan(ctx, &begun)
			return nil, nil //nolint:nilnil // nothing is over and nothing is wrong: the turn begins
		case turns.VerdictDuplicate:
			return begun.Output, nil
		case turns.VerdictRefused:
			return nil, refusalError(begun.Refusal)
		case turns.VerdictBehind:
			t.cancelled = t.cancelled || begun.Cancelled
		}
		t.showQueued(ctx, &begun)
		t.waitForSession(ctx, pause)
		if t.cancelled {
			t.State = t.State.Cancel()
			out, err := t.finish(ctx, t.State.Next())
			return &out, err
		}
		in.Again, in.TurnID, pause = true, t.Turn.TurnID, min(2*pause, askAgainMax)
	}
}

// loadPlan runs the activities that show the turn's route and plan in the Web UI, and takes the plan's limits and rules over.
func (t *agentTurn) loadPlan(ctx workflow.Context, begun *turns.BeginTurnResult) {
	if begun.CoreVersion < turn.VersionPlan {
		return
	}
	in := turns.TurnInput{TurnID: t.Turn.TurnID}
	var route turns.RouteTurnResult
	var plan turns.LoadPlanResult
	err := runQuickWithSummary(ctx, begun.Route, acts.RouteTurn, &route, in)
	if err == nil {
		err = runQuickWithSummary(ctx, planSummary(&t.Turn), acts.LoadPlan, &plan, in)
	}
	t.usePlan(begun.CoreVersion, &plan)
	if err != nil {
		t.State = t.State.Fail(agent.StopInternal, internalFailure(err))
	}
}

// waitForSession waits for the signal that the session is free, for a cancel, or until it is time to ask again.
func (t *agentTurn) waitForSession(ctx workflow.Context, pause time.Duration) {
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	awake := false
	s := workflow.NewSelector(ctx)
	s.AddReceive(workflow.GetSignalChannel(ctx, SignalReady), func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		awake = true
	})
	s.AddReceive(t.wakeup, func(c workflow.ReceiveChannel, _ bool) {
		c.Receive(ctx, nil)
		awake = true
	})
	s.AddFuture(workflow.NewTimer(timerCtx, pause), func(workflow.Future) { awake = true })
	for !awake && !t.cancelled {
		s.Select(ctx)
	}
}

// retrieve prepares a turn before its first model call.
func (t *agentTurn) retrieve(ctx workflow.Context) {
	started := workflow.Now(ctx)
	var v agent.PrepareVerdict
	in := turns.RetrieveInput{TurnID: t.Turn.TurnID, BudgetMS: t.budgetMS(), PausedMS: t.State.PausedMS}
	err := workflow.ExecuteActivity(modelOptions(ctx, "prepare"), acts.Retrieve, in).Get(ctx, &v)
	t.spend(ctx, started)
	if err != nil {
		t.State = t.State.Fail(agent.StopInternal, internalFailure(err))
		return
	}
	t.State = t.State.AfterPrepare(v)
}

func (t *agentTurn) callModel(ctx workflow.Context, a turn.Action) {
	started := workflow.Now(ctx)
	var v agent.ModelVerdict
	in := turns.CallModelInput{TurnID: t.Turn.TurnID, Step: a.Step, BudgetMS: t.budgetMS(), StreamTo: t.StreamTo, PausedMS: t.State.PausedMS}
	err := t.runCallModel(ctx, in, &v)
	t.spend(ctx, started)
	if err != nil {
		t.State = t.State.Fail(agent.StopInternal, internalFailure(err))
		return
	}
	t.State = t.State.AfterModel(v)
}

// runCallModel runs CallModel as a local activity if LoadPlan said so. If that fails, it runs CallModel as a normal activity, which returns the
// stored reply if there is one. No timeout ends a running local call early: the provider would be asked, and paid, twice.
func (t *agentTurn) runCallModel(ctx workflow.Context, in turns.CallModelInput, v *agent.ModelVerdict) error {
	summary := t.modelSummary(in.Step)
	if t.LocalCalls {
		err := workflow.ExecuteLocalActivity(localModelOptions(ctx, summary), acts.CallModel, in).Get(ctx, v)
		if err == nil || isFinal(err) {
			return err
		}
	}
	return workflow.ExecuteActivity(modelOptions(ctx, summary), acts.CallModel, in).Get(ctx, v)
}

// pause waits on a timer for the model's provider, or until the turn is cancelled.
func (t *agentTurn) pause(ctx workflow.Context, a turn.Action) {
	started := workflow.Now(ctx)
	timerCtx, stop := workflow.WithCancel(ctx)
	defer stop()
	over := false
	s := workflow.NewSelector(ctx)
	s.AddReceive(t.wakeup, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) })
	timer := workflow.NewTimerWithOptions(timerCtx, time.Duration(a.DelayMS)*time.Millisecond, workflow.TimerOptions{Summary: "model provider away"})
	s.AddFuture(timer, func(workflow.Future) { over = true })
	for !over && !t.cancelled {
		s.Select(ctx)
	}
	t.spend(ctx, started)
	t.State = t.State.AfterPause()
}

// callTools starts the calls of a step in the model's order and collects them in the same order. A call without side effects runs as a local
// activity, and as a normal one if it is slow. A turn of another agent runs as a child workflow. The longest call counts as the step's time,
// without a child's pauses for people.
func (t *agentTurn) callTools(ctx workflow.Context, a turn.Action) {
	started := workflow.Now(ctx)
	verdicts := make([]agent.ToolVerdict, len(a.Calls))
	failures := make([]error, len(a.Calls))
	took := make([]int64, len(a.Calls))
	children := 0
	for _, c := range a.Calls {
		if c.Child {
			children++
		}
	}
	budget := t.State.Remaining(max(children, 1))
	wg := workflow.NewWaitGroup(ctx)
	for i, c := range a.Calls {
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			if !c.Child {
				failures[i] = t.callTool(ctx, a.Step, c, &verdicts[i])
				took[i] = workflow.Now(ctx).Sub(started).Milliseconds()
				return
			}
			took[i], failures[i] = t.callChild(ctx, a.Step, c, budget, &verdicts[i])
		})
	}
	wg.Wait(ctx)
	t.State = t.State.Spend(slices.Max(took))
	for _, err := range failures {
		if err != nil {
			t.State = t.State.Fail(agent.StopInternal, internalFailure(err))
			return
		}
	}
	t.State = t.State.AfterTools(verdicts)
}

func (t *agentTurn) callTool(ctx workflow.Context, step int, c turn.Call, v *agent.ToolVerdict) error {
	in := turns.CallToolInput{TurnID: t.Turn.TurnID, Step: step, CallID: c.ID, Decided: c.Rule != "", Refused: c.Refused, BudgetMS: t.toolBudgetMS()}
	if c.Local {
		err := workflow.ExecuteLocalActivity(quickOptions(ctx, c.Summary, 1), acts.CallTool, in).Get(ctx, v)
		if err == nil || isFinal(err) {
			return err
		}
	}
	return workflow.ExecuteActivity(toolOptions(ctx, c.Summary), acts.CallTool, in).Get(ctx, v)
}

// await requests approvals, or results of client-side calls, once per step. Then it waits for a decision or a cancel.
func (t *agentTurn) await(ctx workflow.Context, a turn.Action) {
	if t.Asked != a.Step || t.AskedClient != a.Client {
		in := turns.RequestApprovalInput{TurnID: t.Turn.TurnID, Step: a.Step, StreamTo: t.StreamTo}
		if a.Client {
			in.Kind = agent.WaitClientTool
		}
		for _, c := range a.Calls {
			in.Calls = append(in.Calls, turns.ApprovalCall{ID: c.ID, Rule: c.Rule})
		}
		var out turns.RequestApprovalResult
		if err := runQuick(ctx, "request approval", acts.RequestApproval, &out, in); err != nil {
			t.State = t.State.Fail(agent.StopInternal, internalFailure(err))
			return
		}
		t.Asked, t.AskedClient, t.Pending, t.LookPauseMS = a.Step, a.Client, out.Pending, 0
		t.expire(ctx, out.ExpiresInMS)
		t.show(ctx, a)
	}
	t.waitForDecision(ctx, a.Step)
	for _, v := range t.verdicts {
		t.State = t.State.AfterDecision(v)
		t.resolve(v.ApprovalID)
	}
	t.verdicts = nil
}

// finish stores the end of the turn and retries without limit, because nothing else has it.
func (t *agentTurn) finish(ctx workflow.Context, a turn.Action) (agent.AgentStepOutput, error) {
	t.Pending, t.finished = nil, true
	in := turns.StoreTurnInput{
		TurnID: t.Turn.TurnID, Status: a.Status, Stop: a.Stop, Failure: a.Failure, Usage: t.State.Usage, Model: t.State.Model,
		ElapsedMS: t.State.ElapsedMS, Closing: a.Closing, Step: a.Step,
	}
	var stored turns.StoreTurnResult
	err := runQuick(ctx, "store", acts.StoreTurn, &stored, in)
	out := t.output(a, &stored)
	if !t.ready { // the caller of begin leaves
		return out, err
	}
	return t.leave(ctx, &out, err)
}

// output composes the turn's result out of the stored part and the workflow's own state, so that history has less twice.
func (t *agentTurn) output(a turn.Action, s *turns.StoreTurnResult) agent.AgentStepOutput {
	if s.Final != nil {
		return *s.Final
	}
	out := agent.AgentStepOutput{
		TurnID: t.Turn.TurnID, SessionID: t.Turn.SessionID, Agent: t.Turn.Agent, AgentInstanceID: t.Turn.InstanceID, Status: a.Status,
		Output: s.Output, Blocks: s.Blocks, ResultRef: s.ResultRef, ResultPreview: s.ResultPreview, ToolCalls: s.ToolCalls,
		Usage: t.State.Usage, StopReason: a.Stop, Error: a.Failure, StreamID: string(t.Turn.TurnID), ExecutionTimeMS: t.State.ElapsedMS,
		Model: t.State.Model,
	}
	switch {
	case s.Plain:
		out.Blocks = []agent.Block{agent.Text(s.Output)}
	case out.Blocks == nil:
		out.Blocks = []agent.Block{}
	}
	if s.Structured {
		out.Structured = []byte(s.Output)
	}
	if out.ToolCalls == nil {
		out.ToolCalls = []agent.ToolCallNote{}
	}
	return out
}

// leave waits until all handlers have finished, so that every caller of an update gets an answer.
func (t *agentTurn) leave(ctx workflow.Context, out *agent.AgentStepOutput, err error) (agent.AgentStepOutput, error) {
	t.finished = true
	_ = workflow.Await(ctx, t.quiet(ctx)) // a disconnected context is never cancelled
	if err != nil || out == nil {
		return agent.AgentStepOutput{}, err
	}
	t.showDone(ctx, out)
	t.indexEnd(ctx, out)
	if t.FailsWorkflow && out.Status == agent.TurnFailed && workflow.GetInfo(ctx).ParentWorkflowExecution == nil {
		return agent.AgentStepOutput{}, failedTurnError(out)
	}
	if t.Turn.Delegated {
		return withoutWords(*out), nil
	}
	return *out, nil
}

// withoutWords returns the output of a delegated turn without its texts, for the history of the asking turn. StoreChild passes the texts to that
// turn through its middleware.
func withoutWords(out agent.AgentStepOutput) agent.AgentStepOutput {
	out.Output, out.Blocks, out.Structured, out.ResultPreview = "", []agent.Block{}, nil, nil
	if out.Error != nil {
		out.Error = &agent.Failure{Type: out.Error.Type, Retryable: out.Error.Retryable}
	}
	return out
}
