package inbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/workflows"
)

// runNamespace makes run ids of idempotency keys.
//
//nolint:gochecknoglobals // a constant in all but syntax
var runNamespace = uuid.MustParse("6f0d0d4e-3f0c-5b5e-9d67-3a0f2f1f6c11")

// startPatience is how long a recorded run may have no workflow.
const startPatience = time.Minute

// RunStore stores the runs of definitions.
type RunStore interface {
	BeginRun(ctx context.Context, r agent.Run) (agent.Run, error)
	Run(ctx context.Context, tenant, runID string) (agent.Run, error)
	Runs(ctx context.Context, q agent.RunQuery) (agent.RunPage, error)
	FinishRun(ctx context.Context, tenant, runID string, status agent.RunStatus, failure *agent.Failure, at time.Time) error
}

// StartRun starts a run of a definition of the tenant of r.Context. A repeated request with the same run id or idempotency key joins the run. It is
// [agent.CodeConflict] of that field if its input, definition or version differs.
func (b *Inbox) StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (gateway.RunReceipt, error) {
	field, err := assignRunID(&r, idempotency)
	if err != nil {
		return gateway.RunReceipt{}, err
	}
	stored, err := b.Workflow(ctx, agent.WorkflowKey{Tenant: r.Context.TenantName(), Owner: r.Owner, Tag: r.Tag}, r.Version)
	if err != nil {
		return gateway.RunReceipt{}, err
	}
	if stored.Deleted {
		return gateway.RunReceipt{}, agent.FieldErrorf(agent.CodeConflict, "version", "version %d of %q says that it is deleted", r.Version, r.Tag)
	}
	r.Owner = stored.Owner
	key := stored.WorkflowKey
	receipt := gateway.RunReceipt{RunID: r.RunID, WorkflowID: workflows.DefinedWorkflowID(key, r.RunID), Owner: key.Owner, Tag: key.Tag}
	if field != "" {
		existing, err := b.Store.Run(ctx, agent.AnyTenant, r.RunID)
		switch {
		case agent.CodeOf(err) == agent.CodeNotFound:
		case err != nil:
			return gateway.RunReceipt{}, err
		default:
			return b.join(ctx, &existing, r, &receipt, field)
		}
	}
	return receipt, b.begin(ctx, &receipt, r, &stored, field)
}

// assignRunID sets the run id of a request. field is the field with which the caller chose it, "" if the id is new.
func assignRunID(r *agent.RunRequest, idempotency string) (field string, err error) {
	input, err := json.Marshal(r.Input) // as the workflow gets it
	switch {
	case err != nil:
		return "", agent.Invalid("input", "%w", err)
	case len(input) > agent.MaxRunInput:
		return "", agent.FieldErrorf(agent.CodeOverflow, "input", "is %d bytes, at most %d", len(input), agent.MaxRunInput)
	case r.RunID != "" && idempotency != "":
		return "", agent.Invalid(fieldRun, "give a run id or an idempotency key, not both")
	case r.RunID != "":
		return fieldRun, nil
	case idempotency != "":
		r.RunID = uuid.NewSHA1(runNamespace, []byte(r.Context.TenantName()+"\x00"+idempotency)).String()
		return fieldKey, nil
	default:
		r.RunID = uuid.NewString()
		return "", nil
	}
}

// The fields with which a caller chooses a run id.
const (
	fieldRun = "run_id"
	fieldKey = "idempotency_key"
)

// join joins a recorded run, and starts its workflow if the request that recorded it did not.
func (b *Inbox) join(ctx context.Context, existing *agent.Run, r agent.RunRequest, receipt *gateway.RunReceipt, field string) (gateway.RunReceipt, error) {
	if err := checkSameRun(existing, &r, field); err != nil {
		return gateway.RunReceipt{}, err
	}
	receipt.WorkflowID, receipt.Joined = existing.WorkflowID, true
	if existing.Status != agent.RunRunning {
		return *receipt, nil
	}
	r.Version = existing.Version
	_, err := b.Runs.startDefined(ctx, receipt.WorkflowID, r)
	return *receipt, err
}

// checkSameRun refuses a request whose run was begun by a different request. Its error tells nothing about a run of another tenant.
func checkSameRun(existing *agent.Run, r *agent.RunRequest, field string) error {
	field = cmp.Or(field, fieldRun)
	switch {
	case existing.Tenant != r.Context.TenantName():
		return agent.FieldErrorf(agent.CodeConflict, fieldRun, "cannot be used: choose another")
	case existing.Owner != r.Owner || existing.Tag != r.Tag:
		return agent.FieldErrorf(agent.CodeConflict, field, "is taken by a run of workflow %q of owner %q", existing.Tag, existing.Owner)
	case r.Version != 0 && r.Version != existing.Version:
		return agent.FieldErrorf(agent.CodeConflict, field, "is taken by a run of version %d", existing.Version)
	case !existing.BegunWith(r.Input):
		return agent.FieldErrorf(agent.CodeConflict, field, "is taken by a run with another input")
	}
	return nil
}

// begin records a run, so that it can be found by its id, and then starts its workflow. A run that cannot be started fails.
func (b *Inbox) begin(ctx context.Context, receipt *gateway.RunReceipt, r agent.RunRequest, of *agent.StoredWorkflow, field string) error {
	recorded, err := b.BeginRun(ctx, agent.Run{
		RunID: r.RunID, WorkflowID: receipt.WorkflowID, WorkflowKey: of.WorkflowKey, Version: of.Version, Status: agent.RunRunning, Input: r.Input,
		UserID: r.Context.UserID, StartedAt: time.Now(),
	})
	if err != nil {
		return err
	}
	if err := checkSameRun(&recorded, &r, field); err != nil { // another request recorded it first
		return err
	}
	receipt.Joined, err = b.Runs.startDefined(ctx, receipt.WorkflowID, r)
	if err == nil {
		return nil
	}
	// The start may have succeeded although its answer was lost. Then the workflow records the end.
	if workflow, lookErr := b.Runs.Look(ctx, receipt.WorkflowID); lookErr == nil && !workflow.Running {
		failure := &agent.Failure{Type: string(agent.CodeUnavailable), Message: "the run could not be started", Retryable: true}
		return errors.Join(err, b.FinishRun(ctx, recorded.Tenant, r.RunID, agent.RunFailed, failure, time.Now()))
	}
	return err
}

// startDefined starts the workflow of a run, and reports whether it was started before.
func (r *Runs) startDefined(ctx context.Context, workflowID string, req agent.RunRequest) (joined bool, err error) {
	joined, err = r.startOnce(ctx, client.StartWorkflowOptions{
		ID: workflowID, StaticSummary: "workflow " + req.Tag + " of " + req.Owner,
	}, workflows.DefinedWorkflowType, req)
	return joined, temporalError("start run", err)
}

// Run returns a run. If its workflow no longer runs, the run is recorded as failed first.
func (b *Inbox) Run(ctx context.Context, tenant, runID string) (agent.Run, error) {
	run, err := b.Store.Run(ctx, tenant, runID)
	if err != nil || run.Status != agent.RunRunning {
		return run, err
	}
	workflow, err := b.Runs.Look(ctx, run.WorkflowID)
	if err != nil || workflow.Running || !workflow.Exists && time.Since(run.StartedAt) < startPatience {
		return run, err
	}
	if err := b.endLostRun(ctx, &run, agent.RunFailed); err != nil {
		return run, err
	}
	return b.Store.Run(ctx, tenant, runID)
}

// endLostRun ends a run whose workflow was terminated. A run that has ended is not changed.
func (b *Inbox) endLostRun(ctx context.Context, run *agent.Run, status agent.RunStatus) error {
	failure := &agent.Failure{Type: string(agent.CodeInternal), Message: "its workflow was terminated"}
	return b.FinishRun(ctx, run.Tenant, run.RunID, status, failure, time.Now().UTC())
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
		return b.endLostRun(ctx, &run, agent.RunCancelled)
	}
	return err
}
