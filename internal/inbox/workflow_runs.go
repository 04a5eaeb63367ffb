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

// startPatience is how long a run that is recorded may be without its workflow.
const startPatience = time.Minute

// RunStore keeps the runs of definitions.
type RunStore interface {
	BeginRun(ctx context.Context, r agent.Run) (agent.Run, error)
	Run(ctx context.Context, tenant, runID string) (agent.Run, error)
	Runs(ctx context.Context, q agent.RunQuery) (agent.RunPage, error)
	FinishRun(ctx context.Context, tenant, runID string, status agent.RunStatus, failure *agent.Failure, at time.Time) error
}

// StartRun starts a run of a definition of the tenant of r.Context. A run id and an idempotency key each make a request that comes again the same
// run; with another input, or of another definition or version, it is a conflict of that field.
func (b *Inbox) StartRun(ctx context.Context, r agent.RunRequest, idempotency string) (gateway.RunReceipt, error) {
	named, err := chosenRun(&r, idempotency)
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
	if named != "" {
		known, err := b.Store.Run(ctx, agent.AnyTenant, r.RunID)
		switch {
		case agent.CodeOf(err) == agent.CodeNotFound:
		case err != nil:
			return gateway.RunReceipt{}, err
		default:
			return b.join(ctx, &known, r, &receipt, named)
		}
	}
	return receipt, b.begin(ctx, &receipt, r, &stored, named)
}

// chosenRun gives the request the id of its run, and says by which field its caller has chosen it; empty: it is a new one.
func chosenRun(r *agent.RunRequest, idempotency string) (field string, err error) {
	input, err := json.Marshal(r.Input) // as the workflow is given it
	switch {
	case err != nil:
		return "", agent.Invalid("input", "%w", err)
	case len(input) > agent.MaxRunInput:
		return "", agent.FieldErrorf(agent.CodeOverflow, "input", "is %d bytes, at most %d", len(input), agent.MaxRunInput)
	case r.RunID != "" && idempotency != "":
		return "", agent.Invalid(fieldRun, "give a run id or an idempotency key, not both: each makes a request that comes again the same run")
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

// The fields by which a caller chooses a run.
const (
	fieldRun = "run_id"
	fieldKey = "idempotency_key"
)

// join answers with a run that is recorded. Whoever recorded it may not have come to start it.
func (b *Inbox) join(ctx context.Context, known *agent.Run, r agent.RunRequest, receipt *gateway.RunReceipt, named string) (gateway.RunReceipt, error) {
	if err := sameRun(known, &r, named); err != nil {
		return gateway.RunReceipt{}, err
	}
	receipt.WorkflowID, receipt.Joined = known.WorkflowID, true
	if known.Status != agent.RunRunning {
		return *receipt, nil
	}
	r.Version = known.Version
	_, err := b.Runs.startDefined(ctx, receipt.WorkflowID, r)
	return *receipt, err
}

// sameRun refuses a request for a run that was begun by another one. Of another tenant's run it says nothing.
func sameRun(known *agent.Run, r *agent.RunRequest, named string) error {
	named = cmp.Or(named, fieldRun)
	switch {
	case known.Tenant != r.Context.TenantName():
		return agent.FieldErrorf(agent.CodeConflict, fieldRun, "cannot be used: choose another")
	case known.Owner != r.Owner || known.Tag != r.Tag:
		return agent.FieldErrorf(agent.CodeConflict, named, "is taken by a run of workflow %q of owner %q", known.Tag, known.Owner)
	case r.Version != 0 && r.Version != known.Version:
		return agent.FieldErrorf(agent.CodeConflict, named, "is taken by a run of version %d", known.Version)
	case !known.BegunWith(r.Input):
		return agent.FieldErrorf(agent.CodeConflict, named, "is taken by a run with another input")
	}
	return nil
}

// begin records the run, so that whoever has its id finds it, and starts its workflow. A run that could not be started has failed.
func (b *Inbox) begin(ctx context.Context, receipt *gateway.RunReceipt, r agent.RunRequest, of *agent.StoredWorkflow, named string) error {
	recorded, err := b.BeginRun(ctx, agent.Run{
		RunID: r.RunID, WorkflowID: receipt.WorkflowID, WorkflowKey: of.WorkflowKey, Version: of.Version, Status: agent.RunRunning, Input: r.Input,
		UserID: r.Context.UserID, StartedAt: time.Now(),
	})
	if err != nil {
		return err
	}
	if err := sameRun(&recorded, &r, named); err != nil { // somebody was quicker
		return err
	}
	receipt.Joined, err = b.Runs.startDefined(ctx, receipt.WorkflowID, r)
	if err == nil {
		return nil
	}
	// One that was started all the same, and only the answer was lost, says how it ends itself: the first stands.
	if workflow, lookErr := b.Runs.Look(ctx, receipt.WorkflowID); lookErr == nil && !workflow.Running {
		failure := &agent.Failure{Type: string(agent.CodeUnavailable), Message: "the run could not be started", Retryable: true}
		return errors.Join(err, b.FinishRun(ctx, recorded.Tenant, r.RunID, agent.RunFailed, failure, time.Now()))
	}
	return err
}

// startDefined reports whether the run had been started before.
func (r *Runs) startDefined(ctx context.Context, workflowID string, req agent.RunRequest) (joined bool, err error) {
	joined, err = r.startOnce(ctx, client.StartWorkflowOptions{
		ID: workflowID, StaticSummary: "workflow " + req.Tag + " of " + req.Owner,
	}, workflows.DefinedWorkflowType, req)
	return joined, temporalError("start run", err)
}

// Run returns a run. One that looks alive is checked against its workflow, so that a terminated one is not alive for ever.
func (b *Inbox) Run(ctx context.Context, tenant, runID string) (agent.Run, error) {
	run, err := b.Store.Run(ctx, tenant, runID)
	if err != nil || run.Status != agent.RunRunning {
		return run, err
	}
	workflow, err := b.Runs.Look(ctx, run.WorkflowID)
	if err != nil || workflow.Running || !workflow.Exists && time.Since(run.StartedAt) < startPatience {
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
		return b.settleRun(ctx, &run, agent.RunCancelled)
	}
	return err
}
