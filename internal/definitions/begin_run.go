package definitions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
	"github.com/turnstone-run/turnstone/internal/strict"
)

// runIDPattern is what a person may call a run.
var runIDPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// BeginRun checks a request strictly, finds the version that the run keeps, and records the run. It is idempotent. Bad requests come back
// as a refusal; an error is trouble of the runtime's.
func (r *Runner) BeginRun(ctx context.Context, request []byte, in BeginRunInput) (BeginRunResult, error) {
	out, err := r.beginRun(ctx, request, in)
	if err != nil && !agent.CodeOf(err).Retryable() {
		return BeginRunResult{Refusal: clipped(agent.FailureOf(err))}, nil
	}
	return out, err
}

func (r *Runner) beginRun(ctx context.Context, request []byte, in BeginRunInput) (BeginRunResult, error) {
	req, err := requestOf(request)
	if err != nil {
		return BeginRunResult{}, err
	}
	run, err := r.record(ctx, req, in)
	if err != nil {
		return BeginRunResult{}, err
	}
	out := BeginRunResult{
		Run:         RunRef{RunID: run.RunID, Tenant: run.Tenant, Owner: run.Owner, Tag: run.Tag, Version: run.Version},
		CoreVersion: core.Version, SearchAttributes: r.SearchAttributes(), ContinueAsNew: r.RunEvents,
	}
	if run.Status != agent.RunRunning {
		out.Over, out.Error, out.Steps = run.Status, clipped(run.Error), len(run.Steps)
		return out, nil
	}
	f, err := r.load(ctx, run)
	if err != nil {
		return BeginRunResult{}, err
	}
	if out.Skeleton, err = skeletonOf(&f.definition); err != nil {
		return BeginRunResult{}, r.stillborn(ctx, run, err)
	}
	if _, err := core.New(out.Skeleton); err != nil {
		return BeginRunResult{}, r.stillborn(ctx, run, agent.Invalid("nodes", "%w", err))
	}
	return out, nil
}

// stillborn ends a run that was recorded and cannot begin.
func (r *Runner) stillborn(ctx context.Context, run agent.Run, cause error) error {
	if err := r.Store.FinishRun(ctx, run.Tenant, run.RunID, agent.RunFailed, clipped(agent.FailureOf(cause)), time.Now()); err != nil {
		return fmt.Errorf("end run %s: %w", run.RunID, err)
	}
	return cause
}

func requestOf(request []byte) (*agent.RunRequest, error) {
	var req agent.RunRequest
	if len(request) == 0 {
		return nil, agent.Invalid("", "the workflow needs one argument, a run request such as {\"workflow_tag\":\"main\"}")
	}
	if err := strict.Decode(request, &req); err != nil {
		return nil, err
	}
	switch {
	case req.Tag == "":
		return nil, agent.Invalid("workflow_tag", "is empty")
	case req.RunID != "" && !runIDPattern.MatchString(req.RunID):
		return nil, agent.Invalid("run_id", "want 1 to 128 of A-Z a-z 0-9 . _ : -")
	case req.Version < 0:
		return nil, agent.Invalid("version", "is negative")
	case len(req.Input) > agent.MaxRunInput:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "input", "is %d bytes, at most %d", len(req.Input), agent.MaxRunInput)
	}
	return &req, nil
}

// record makes the run of a request, or finds the one that was made.
func (r *Runner) record(ctx context.Context, req *agent.RunRequest, in BeginRunInput) (agent.Run, error) {
	id, tenant := cmp.Or(req.RunID, in.RunID), req.Context.TenantName()
	known, err := r.Store.Run(ctx, tenant, id)
	switch {
	case err == nil:
		return known, owned(&known, req, in)
	case agent.CodeOf(err) != agent.CodeNotFound:
		return agent.Run{}, err
	}
	stored, err := r.Store.Workflow(ctx, agent.WorkflowKey{Tenant: tenant, Owner: req.Owner, Tag: req.Tag}, req.Version)
	if err != nil {
		return agent.Run{}, err
	}
	run, err := r.Store.BeginRun(ctx, agent.Run{
		RunID: id, WorkflowID: in.WorkflowID, WorkflowKey: stored.WorkflowKey, Version: stored.Version, Status: agent.RunRunning,
		Input: req.Input, UserID: req.Context.UserID, Schedule: scheduleOf(in.Schedule), StartedAt: time.Now(),
	})
	if err != nil {
		return agent.Run{}, fmt.Errorf("record run %s: %w", id, err)
	}
	return run, owned(&run, req, in)
}

// owned refuses a run that another execution has begun.
func owned(run *agent.Run, req *agent.RunRequest, in BeginRunInput) error {
	switch {
	case run.Tag != req.Tag || (req.Owner != "" && run.Owner != req.Owner):
		return agent.FieldErrorf(agent.CodeConflict, "run_id", "run %q is of workflow %q of owner %q", run.RunID, run.Tag, run.Owner)
	case run.WorkflowID != in.WorkflowID && run.Status == agent.RunRunning:
		return agent.FieldErrorf(agent.CodeConflict, "run_id", "run %q is at work as workflow %q", run.RunID, run.WorkflowID)
	case !run.BegunWith(req.Input):
		return agent.FieldErrorf(agent.CodeConflict, "run_id", "run %q was begun with another input", run.RunID)
	}
	return nil
}

// scheduleOf is the definition's id of a Temporal schedule's.
func scheduleOf(id string) string {
	return id[strings.LastIndexByte(id, '/')+1:]
}

// facts are what the activities of a run look up once.
type facts struct {
	run        agent.Run // without its steps
	definition agent.WorkflowDefinition
}

func (f *facts) node(id string) (*agent.WorkflowNode, error) {
	for i := range f.definition.Nodes {
		if f.definition.Nodes[i].ID == id {
			return &f.definition.Nodes[i], nil
		}
	}
	return nil, agent.Errorf(agent.CodeNotFound, "run node", "version %d of workflow %q has no node %q", f.run.Version, f.run.Tag, id)
}

func (r *Runner) factsOf(ctx context.Context, runID string) (*facts, error) {
	if f, ok := r.runs.Get(runID); ok {
		return f, nil
	}
	run, err := r.Store.Run(ctx, "", runID)
	if err != nil {
		return nil, err
	}
	return r.load(ctx, run)
}

func (r *Runner) load(ctx context.Context, run agent.Run) (*facts, error) {
	stored, err := r.Store.Workflow(ctx, run.WorkflowKey, run.Version)
	if err != nil {
		return nil, err
	}
	run.Steps = nil
	f := &facts{run: run}
	if err := json.Unmarshal(stored.Definition, &f.definition); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "load definition", "version %d of %q: %w", run.Version, run.Tag, err)
	}
	r.runs.Add(run.RunID, f)
	return f, nil
}

// FinishRun records how a run ended. Idempotent.
func (r *Runner) FinishRun(ctx context.Context, in FinishRunInput) error {
	r.runs.Remove(in.RunID)
	return r.Store.FinishRun(ctx, in.Tenant, in.RunID, in.Status, in.Failure, in.At)
}

// clipped bounds what a failure says.
func clipped(f *agent.Failure) *agent.Failure {
	if f == nil {
		return nil
	}
	out := *f
	out.Faults = nil
	if len(out.Message) > maxFailureText {
		out.Message = strings.ToValidUTF8(out.Message[:maxFailureText], "") + "…"
	}
	return &out
}
