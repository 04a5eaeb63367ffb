package inbox

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/workflows"
)

// runNamespace makes run ids of idempotency keys.
//
//nolint:gochecknoglobals // a constant in all but syntax
var runNamespace = uuid.MustParse("6f0d0d4e-3f0c-5b5e-9d67-3a0f2f1f6c11")

// startPatience is how long a run that is recorded may be without its workflow.
const startPatience = time.Minute

// RunStore is what the inbox needs of the store of runs.
type RunStore interface {
	BeginRun(ctx context.Context, r agent.Run) (agent.Run, error)
	Run(ctx context.Context, tenant, runID string) (agent.Run, error)
	Runs(ctx context.Context, q agent.RunQuery) (agent.RunPage, error)
	FinishRun(ctx context.Context, tenant, runID string, status agent.RunStatus, failure *agent.Failure, at time.Time) error
}

// StartRun starts a run of a definition of the tenant of r.Context.
func (b *Inbox) StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (gateway.RunReceipt, error) {
	tenant := r.Context.TenantName()
	stored, err := b.Workflow(ctx, agent.WorkflowKey{Tenant: tenant, Owner: r.Owner, Tag: r.Tag}, r.Version)
	if err != nil {
		return gateway.RunReceipt{}, err
	}
	if stored.Deleted {
		return gateway.RunReceipt{}, agent.FieldErrorf(agent.CodeConflict, "version", "version %d of %q says that it is deleted", r.Version, r.Tag)
	}
	r.Owner = stored.Owner
	chosen := r.RunID != "" || idempotency != ""
	switch {
	case r.RunID != "":
	case idempotency != "":
		r.RunID = uuid.NewSHA1(runNamespace, []byte(tenant+"\x00"+idempotency)).String()
	default:
		r.RunID = uuid.NewString()
	}
	key := stored.WorkflowKey
	receipt := gateway.RunReceipt{RunID: r.RunID, WorkflowID: workflows.DefinedWorkflowID(key, r.RunID), Owner: key.Owner, Tag: key.Tag}
	if chosen {
		known, err := b.Store.Run(ctx, gateway.AnyTenant, r.RunID)
		switch {
		case err == nil && known.WorkflowKey != key:
			return gateway.RunReceipt{}, agent.FieldErrorf(agent.CodeConflict, "run_id", "%q is taken", r.RunID)
		case err == nil && known.Status != agent.RunRunning:
			receipt.WorkflowID, receipt.Joined = known.WorkflowID, true
			return receipt, nil
		case err == nil: // whoever recorded it may not have come to start it
			receipt.WorkflowID, r.Version = known.WorkflowID, known.Version
			_, err := b.Runs.startDefined(ctx, receipt.WorkflowID, r)
			receipt.Joined = true
			return receipt, err
		case agent.CodeOf(err) != agent.CodeNotFound:
			return gateway.RunReceipt{}, err
		}
	}
	return receipt, b.begin(ctx, &receipt, r, &stored)
}

// begin records the run, so that whoever has its id finds it, and starts its workflow. A run that could not be started has failed.
func (b *Inbox) begin(ctx context.Context, receipt *gateway.RunReceipt, r agent.RunRequest, of *agent.StoredWorkflow) error {
	recorded, err := b.Store.BeginRun(ctx, agent.Run{
		RunID: r.RunID, WorkflowID: receipt.WorkflowID, WorkflowKey: of.WorkflowKey, Version: of.Version, Status: agent.RunRunning, Input: r.Input,
		UserID: r.Context.UserID, StartedAt: time.Now(),
	})
	switch {
	case err != nil:
		return err
	case recorded.WorkflowKey != of.WorkflowKey:
		return agent.FieldErrorf(agent.CodeConflict, "run_id", "%q is taken", r.RunID)
	}
	receipt.Joined, err = b.Runs.startDefined(ctx, receipt.WorkflowID, r)
	if err == nil {
		return nil
	}
	// One that was started all the same, and only the answer was lost, says how it ends itself: the first stands.
	if closed, missing, lookErr := b.Runs.look(ctx, receipt.WorkflowID); lookErr == nil && (closed || missing) {
		failure := &agent.Failure{Type: string(agent.CodeUnavailable), Message: "the run could not be started", Retryable: true}
		return errors.Join(err, b.Store.FinishRun(ctx, recorded.Tenant, r.RunID, agent.RunFailed, failure, time.Now()))
	}
	return err
}

// startDefined reports whether the run had been started before.
func (r *Runs) startDefined(ctx context.Context, workflowID string, req agent.RunRequest) (joined bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err = r.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: workflowID, TaskQueue: r.TaskQueue,
		WorkflowIDReusePolicy:                    enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		StaticSummary:                            "workflow " + req.Tag + " of " + req.Owner,
	}, workflows.DefinedWorkflowType, req)
	if _, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		return true, nil
	}
	return false, temporalError("start run", err)
}

// Run returns a run. One that looks alive is checked against its workflow, so that a terminated one is not alive for ever.
func (b *Inbox) Run(ctx context.Context, tenant, runID string) (agent.Run, error) {
	run, err := b.Store.Run(ctx, tenant, runID)
	if err != nil || run.Status != agent.RunRunning {
		return run, err
	}
	closed, missing, err := b.Runs.look(ctx, run.WorkflowID)
	if err != nil || !closed || missing && time.Since(run.StartedAt) < startPatience {
		return run, err
	}
	if err := b.settleRun(ctx, &run, agent.RunFailed); err != nil {
		return run, err
	}
	return b.Store.Run(ctx, tenant, runID)
}

// settleRun ends a run whose workflow ended without a word. One that has said how it ended keeps its end.
func (b *Inbox) settleRun(ctx context.Context, run *agent.Run, status agent.RunStatus) error {
	failure := &agent.Failure{Type: string(agent.CodeInternal), Message: "its workflow was terminated"}
	return b.Store.FinishRun(ctx, run.Tenant, run.RunID, status, failure, time.Now().UTC())
}

// ListRuns lists runs.
func (b *Inbox) ListRuns(ctx context.Context, q agent.RunQuery) (agent.RunPage, error) {
	return b.Store.Runs(ctx, q)
}

// CancelRun asks a run to stop.
func (b *Inbox) CancelRun(ctx context.Context, tenant, runID string, c agent.CancelRequest) error {
	run, err := b.Store.Run(ctx, tenant, runID)
	switch {
	case err != nil:
		return err
	case run.Status != agent.RunRunning:
		return agent.Errorf(agent.CodeConflict, "", "run %s is over", runID)
	}
	c.Reason = cmp.Or(c.Reason, "cancelled")
	err = b.Runs.signal(ctx, run.WorkflowID, workflows.UpdateCancel, c)
	if agent.CodeOf(err) == agent.CodeNotFound {
		return b.settleRun(ctx, &run, agent.RunCancelled)
	}
	return err
}
