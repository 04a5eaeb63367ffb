package workflows

import (
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turn"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// Carry is the part of a turn that it continues as new with: references and counters.
type Carry struct {
	Turn          turns.TurnRef           `json:"turn"`
	State         turn.State              `json:"state"`
	StreamTo      *agent.StreamTo         `json:"stream_to,omitempty"`
	Asked         int                     `json:"asked,omitempty"`        // the step whose approvals have been requested
	AskedClient   bool                    `json:"asked_client,omitempty"` // results of client-side calls have been requested
	Pending       []agent.PendingApproval `json:"pending,omitempty"`
	ExpiresAt     time.Time               `json:"expires_at,omitzero"`              // when the first of Pending expires; zero: none does
	LookPauseMS   int64                   `json:"look_pause_ms,omitempty"`          // pause before the next look into the store for decisions; 0: none yet
	ContinueAsNew int                     `json:"continue_as_new_events,omitempty"` // number of events; 0: when the server suggests it
	LocalCalls    bool                    `json:"local_calls,omitempty"`            // model calls run as local activities
	Index         bool                    `json:"index,omitempty"`                  // it was a direct turn: its search attributes have to be set

	StatusAttributes bool   `json:"status_attributes,omitempty"` // the namespace knows TurnstoneStatus
	IndexedStatus    string `json:"indexed_status,omitempty"`    // its value; empty: not set
	FailsWorkflow    bool   `json:"fails_workflow,omitempty"`    // the workflow fails if the turn does
}

// agentTurn is a turn in the memory of its workflow.
type agentTurn struct {
	Carry

	verdicts []agent.DecisionVerdict // not yet given to the core

	ready     bool // the turn holds its session
	cancelled bool
	finished  bool
	handling  int // handlers at work
	attrs     bool
	position  int
	holder    agent.TurnID
	status    string
	step      int              // at work, for the query
	wakeup    workflow.Channel // wakes a waiting turn for a cancel
	decides   workflow.ReceiveChannel
	provides  workflow.ReceiveChannel
	cancels   workflow.ReceiveChannel
}

func newTurn(ctx workflow.Context, carry *Carry) *agentTurn {
	t := &agentTurn{
		status: "starting", wakeup: workflow.NewBufferedChannel(ctx, 1),
		decides: workflow.GetSignalChannel(ctx, UpdateDecide), provides: workflow.GetSignalChannel(ctx, UpdateProvide),
		cancels: workflow.GetSignalChannel(ctx, UpdateCancel),
	}
	if carry != nil {
		t.Carry, t.ready, t.attrs = *carry, true, true
		if carry.Index {
			t.index(ctx)
		}
	}
	return t
}

// bind takes over the result of BeginTurn.
func (t *agentTurn) bind(ctx workflow.Context, b *turns.BeginTurnResult) {
	t.Turn, t.StreamTo, t.ContinueAsNew = b.Turn, b.StreamTo, b.ContinueAsNew
	t.position, t.holder = b.Position, b.Holder
	t.StatusAttributes, t.FailsWorkflow = b.StatusAttributes, b.FailsWorkflow
	t.usePlan(b.CoreVersion, &b.LoadPlanResult)
	if b.CoreVersion >= turn.VersionPlan && startedWithAttributes(ctx) { // earlier versions repeat them
		t.attrs = true
	}
	if b.SearchAttributes && !t.attrs && b.Verdict != turns.VerdictRefused {
		t.index(ctx)
	}
}

// usePlan starts the core with the limits and rules of a plan.
func (t *agentTurn) usePlan(core int, p *turns.LoadPlanResult) {
	t.State = turn.New(core, p.Limits, p.Rules).Preparing(p.Prepare)
	t.State.Model, t.LocalCalls = p.ModelName, p.LocalCalls
}

// index sets the search attributes of the turn, once.
func (t *agentTurn) index(ctx workflow.Context) {
	t.attrs, t.Index = true, false
	index(ctx, attributeTenant.ValueSet(t.Turn.Tenant), attributeAgent.ValueSet(t.Turn.Agent),
		attributeSession.ValueSet(string(t.Turn.SessionID)))
}

// due reports whether the turn should continue as new.
func (t *agentTurn) due(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	if t.ContinueAsNew > 0 && info.GetCurrentHistoryLength() >= t.ContinueAsNew {
		return true
	}
	return info.GetContinueAsNewSuggested()
}

// continueAsNew starts the turn's next run. All signals are handled first, so that none is lost.
func (t *agentTurn) continueAsNew(ctx workflow.Context) error {
	_ = workflow.Await(ctx, t.quiet(ctx)) // a disconnected context is never cancelled
	for _, v := range t.verdicts {
		t.State = t.State.AfterDecision(v)
		t.resolve(v.ApprovalID)
	}
	if t.cancelled {
		t.State = t.State.Cancel()
	}
	request := agent.TurnRequest{TurnID: t.Turn.TurnID, SessionID: t.Turn.SessionID}
	return workflow.NewContinueAsNewError(ctx, AgentTurnType, request, &t.Carry)
}

// quiet reports whether no handler is at work and no signal waits to be handled.
func (t *agentTurn) quiet(ctx workflow.Context) func() bool {
	return func() bool {
		return t.handling == 0 && t.decides.Len() == 0 && t.provides.Len() == 0 && t.cancels.Len() == 0 && workflow.AllHandlersFinished(ctx)
	}
}

func (t *agentTurn) resolve(approvalID string) {
	var left []agent.PendingApproval
	for _, p := range t.Pending {
		if p.ApprovalID != approvalID {
			left = append(left, p)
		}
	}
	t.Pending = left
}

func (t *agentTurn) spend(ctx workflow.Context, since time.Time) {
	t.State = t.State.Spend(workflow.Now(ctx).Sub(since).Milliseconds())
}

// budgetMS returns the time that is left for a model call, 0 if the call's own timeout is shorter.
func (t *agentTurn) budgetMS() int64 {
	ms := t.State.BudgetMS()
	if ms >= modelTimeout.Milliseconds() {
		return 0
	}
	return ms
}

// toolBudgetMS returns the time that is left for a tool call, 0 if the call's own timeout is shorter.
func (t *agentTurn) toolBudgetMS() int64 {
	ms := t.State.BudgetMS()
	if ms >= toolTimeout.Milliseconds() {
		return 0
	}
	return ms
}

// internalFailure returns an error of the runtime as data. Type and message are those of the activity's error.
func internalFailure(err error) *agent.Failure {
	f := &agent.Failure{Type: string(agent.CodeInternal), Message: err.Error(), Retryable: true}
	if application, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		f.Type, f.Message, f.Retryable = application.Type(), application.Message(), !application.NonRetryable()
	}
	return f
}
