package inbox

import (
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
	"github.com/turnstone-run/turnstone/workflows"
)

// callTimeout bounds one call to the Temporal frontend.
const callTimeout = 10 * time.Second

// Runs knows the workflows behind turns; it satisfies turns.Runs.
type Runs struct {
	Temporal  client.Client
	TaskQueue string
	Eager     bool
	// SearchAttributes reports whether the namespace knows the search attributes of turns; nil: it does not.
	SearchAttributes func() bool
}

// Start starts the workflow of a turn, or does nothing when it has been started before.
func (r *Runs) Start(ctx context.Context, req agent.TurnRequest) error {
	return r.start(ctx, req, "", nil)
}

// TakeOver starts the workflow of a turn that a direct driver has begun; carry is where it stands, nil for one that only waits.
func (r *Runs) TakeOver(ctx context.Context, req agent.TurnRequest, carry *workflows.Carry) error {
	return r.start(ctx, req, "", carry)
}

// start does nothing if the turn has been started before: its id is taken for ever. The turn of an agent that is named here has its search
// attributes from the start; any other one sets them itself.
func (r *Runs) start(ctx context.Context, req agent.TurnRequest, agentName string, carry *workflows.Carry) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	summary := ""
	if req.SessionID != "" {
		summary = "session " + string(req.SessionID)
	}
	args := []any{req}
	if carry != nil {
		args = append(args, carry)
	}
	var attributes temporal.SearchAttributes
	if agentName != "" && r.SearchAttributes != nil && r.SearchAttributes() {
		attributes = workflows.TurnAttributes(req.Context.TenantName(), agentName, req.SessionID)
	}
	_, err := r.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: req.TurnID.WorkflowID(), TaskQueue: r.TaskQueue, EnableEagerStart: r.Eager,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            summary,
		TypedSearchAttributes:                    attributes,
	}, workflows.AgentTurnType, args...)
	if _, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		return nil
	}
	return temporalError("start turn", err)
}

// Closed reports whether the workflow is closed or does not exist.
func (r *Runs) Closed(ctx context.Context, workflowID string) (bool, error) {
	closed, _, err := r.look(ctx, workflowID)
	return closed, err
}

// look tells a workflow that is closed from one that does not exist, which is closed too.
func (r *Runs) look(ctx context.Context, workflowID string) (closed, missing bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	d, err := r.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return true, true, nil
	}
	if err != nil {
		return false, false, temporalError("describe turn", err)
	}
	status := d.GetWorkflowExecutionInfo().GetStatus()
	return status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && status != enumspb.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW, false, nil
}

// Decide answers an approval through the update of the turn that waits for it, so that the answer is the judgement.
func (r *Runs) Decide(ctx context.Context, workflowID string, d agent.Decision) (agent.DecisionVerdict, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var v agent.DecisionVerdict
	handle, err := r.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: uuid.NewString(), WorkflowID: workflowID, UpdateName: workflows.UpdateDecide, Args: []any{d},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, &v)
	}
	return v, temporalError("decide", err)
}

// Provided tells a turn that the result of a call which it waits for is stored.
func (r *Runs) Provided(ctx context.Context, workflowID, waitID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	handle, err := r.Temporal.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		UpdateID: uuid.NewString(), WorkflowID: workflowID, UpdateName: workflows.UpdateProvide,
		Args:         []any{agent.ProvidedResult{ToolCallID: agent.CallID(waitID)}},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	return temporalError("provide", err)
}

// Ready tells a waiting turn that it holds its session.
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

// applicationError is an error of an activity as its caller meant it, with the field at fault where there is one.
func applicationError(e *temporal.ApplicationError) error {
	var f agent.Failure
	if e.HasDetails() && e.Details(&f) == nil && f.Type != "" {
		return &agent.Error{Code: agent.Code(f.Type), Field: f.Field, Err: errors.New(strings.TrimPrefix(f.Message, f.Field+": "))}
	}
	return &agent.Error{Code: agent.Code(e.Type()), Err: errors.New(e.Message())}
}

// temporalError gives an error of the Temporal client a code.
func temporalError(op string, err error) error {
	if err == nil {
		return nil
	}
	code := agent.CodeUnavailable
	var (
		notFound    *serviceerror.NotFound
		invalid     *serviceerror.InvalidArgument
		denied      *serviceerror.PermissionDenied
		exhausted   *serviceerror.ResourceExhausted
		application *temporal.ApplicationError
	)
	switch {
	case errors.As(err, &application):
		return applicationError(application)
	case errors.As(err, &notFound):
		code = agent.CodeNotFound
	case errors.As(err, &invalid):
		code = agent.CodeInvalid
	case errors.As(err, &denied):
		code = agent.CodeDenied
	case errors.As(err, &exhausted):
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
