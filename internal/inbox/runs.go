package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
	"github.com/turnstone-run/turnstone/workflows"
)

// callTimeout bounds one call to the Temporal frontend.
const callTimeout = 10 * time.Second

// Runs starts, describes and signals the workflows of turns. It implements turns.Runs.
type Runs struct {
	Temporal  client.Client
	TaskQueue string
	Eager     bool
	// SearchAttributes reports whether the search attributes of turns are registered; nil: they are not.
	SearchAttributes func() bool
}

// Start starts the workflow of a recorded turn, or does nothing if it was started before.
func (r *Runs) Start(ctx context.Context, t turns.TurnRef) error {
	return r.TakeOver(ctx, &t, nil)
}

// TakeOver starts the workflow of a turn that began as a direct one. carry is the turn's state, nil if it has not begun. It does nothing if the turn's
// workflow was started before.
func (r *Runs) TakeOver(ctx context.Context, t *turns.TurnRef, carry *workflows.Carry) error {
	req := agent.TurnRequest{TurnID: t.TurnID, SessionID: t.SessionID} // the record has the rest
	if t.Tenant != agent.DefaultTenant {
		req.Context.Tenant = t.Tenant
	}
	args := []any{req}
	if carry != nil {
		args = append(args, carry)
	}
	var attributes temporal.SearchAttributes // if they are not set here, the workflow sets them
	if t.Agent != "" && r.SearchAttributes != nil && r.SearchAttributes() {
		attributes = workflows.TurnAttributes(req.Context.TenantName(), t.Agent, t.SessionID)
	}
	_, err := r.startOnce(ctx, client.StartWorkflowOptions{
		ID: t.TurnID.WorkflowID(), EnableEagerStart: r.Eager, TypedSearchAttributes: attributes,
		StaticSummary: cmp.Or(t.Summary, "session "+string(t.SessionID)),
	}, workflows.AgentTurnType, args...)
	return temporalError("start turn", err)
}

// startOnce starts a workflow if its id was never used. joined reports that it was.
func (r *Runs) startOnce(ctx context.Context, o client.StartWorkflowOptions, workflow string, args ...any) (joined bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	o.TaskQueue = r.TaskQueue
	o.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	o.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	o.WorkflowExecutionErrorWhenAlreadyStarted = true
	_, err = r.Temporal.ExecuteWorkflow(ctx, o, workflow, args...)
	if is[*serviceerror.WorkflowExecutionAlreadyStarted](err) {
		return true, nil
	}
	return false, err
}

// Look returns the state of a workflow.
func (r *Runs) Look(ctx context.Context, workflowID string) (turns.WorkflowState, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := r.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if is[*serviceerror.NotFound](err) {
		return turns.WorkflowState{}, nil
	}
	if err != nil {
		return turns.WorkflowState{}, temporalError("describe turn", err)
	}
	status := d.GetWorkflowExecutionInfo().GetStatus()
	return turns.WorkflowState{
		Exists:   true,
		Running:  status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING || status == enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW,
		Busy:     d.GetPendingWorkflowTask() != nil || len(d.GetPendingActivities()) > 0,
		Children: len(d.GetPendingChildren()) > 0,
	}, nil
}

// Decide decides an approval with an update of the turn that waits for it, and returns the turn's verdict.
func (r *Runs) Decide(ctx context.Context, workflowID string, d agent.Decision) (v agent.DecisionVerdict, err error) {
	err = r.update(ctx, workflowID, workflows.UpdateDecide, d, &v)
	return v, err
}

// Provided notifies a turn that the result of a client-side call is stored.
func (r *Runs) Provided(ctx context.Context, workflowID, approvalID string) error {
	return r.update(ctx, workflowID, workflows.UpdateProvide, agent.ProvidedResult{ToolCallID: agent.CallID(approvalID)}, nil)
}

func (r *Runs) update(ctx context.Context, workflowID, name string, arg, result any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	handle, err := r.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: uuid.NewString(), WorkflowID: workflowID, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, result)
	}
	return temporalError(name, err)
}

// Resolved signals the decision of an approval to its turn, or that the result of a client-side call is stored.
func (r *Runs) Resolved(ctx context.Context, workflowID string, a *agent.Approval) error {
	if a.Kind == agent.WaitClientTool {
		return r.signal(ctx, workflowID, workflows.UpdateProvide, agent.ProvidedResult{ToolCallID: agent.CallID(a.ApprovalID)})
	}
	return r.signal(ctx, workflowID, workflows.UpdateDecide, agent.Decision{
		ApprovalID: a.ApprovalID, Decision: a.Decision, Args: a.DecidedArgs, Message: a.Message, Remember: a.Remembered, By: a.By,
	})
}

// Ready signals to a queued turn that it holds its session.
func (r *Runs) Ready(ctx context.Context, workflowID string) error {
	return r.signal(ctx, workflowID, workflows.SignalReady, nil)
}

// Interrupt asks a turn to cancel.
func (r *Runs) Interrupt(ctx context.Context, workflowID string, c agent.CancelRequest) error {
	return r.signal(ctx, workflowID, workflows.UpdateCancel, c)
}

// Tokens signals a batch of tokens.
func (r *Runs) Tokens(ctx context.Context, to agent.StreamTo, batch agent.TokenBatch) error {
	return r.signal(ctx, to.WorkflowID, to.Signal, batch)
}

func (r *Runs) signal(ctx context.Context, workflowID, name string, arg any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return temporalError("signal "+name, r.Temporal.SignalWorkflow(ctx, workflowID, "", name, arg))
}

// applicationError returns the error of an activity with the code and field that the activity gave it.
func applicationError(e *temporal.ApplicationError) error {
	var f agent.Failure
	if e.HasDetails() && e.Details(&f) == nil && f.Type != "" {
		return &agent.Error{Code: agent.Code(f.Type), Field: f.Field, Err: errors.New(strings.TrimPrefix(f.Message, f.Field+": "))}
	}
	return &agent.Error{Code: agent.Code(e.Type()), Err: errors.New(e.Message())}
}

// temporalError returns an error of the Temporal client with a code.
func temporalError(op string, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		return applicationError(e)
	}
	code := agent.CodeUnavailable
	switch {
	case is[*serviceerror.NotFound](err):
		code = agent.CodeNotFound
	case is[*serviceerror.InvalidArgument](err):
		code = agent.CodeInvalid
	case is[*serviceerror.PermissionDenied](err):
		code = agent.CodeDenied
	case is[*serviceerror.ResourceExhausted](err):
		code = agent.CodeRateLimited
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", op, err)
	}
	e := &agent.Error{Code: code, Op: op, Err: err}
	if code == agent.CodeUnavailable { // the cause names hosts
		e.Public = "Temporal does not answer"
	}
	return e
}

// is reports whether an error is, or wraps, one of the type E.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
