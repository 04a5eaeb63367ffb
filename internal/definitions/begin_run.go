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
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// runIDPattern matches the run ids that a request may choose.
var runIDPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// BeginRun checks a request (JSON of an [agent.RunRequest]), selects the version of the definition, and records the run. It is idempotent. An
// invalid request is a Refusal in the result; an error means that the runtime could not decide.
func (r *Runner) BeginRun(ctx context.Context, request []byte, in BeginRunInput) (BeginRunResult, error) {
	out, err := r.beginRun(ctx, request, in)
	if err != nil && !agent.CodeOf(err).Retryable() {
		return BeginRunResult{Refusal: truncateFailure(agent.FailureOf(err))}, nil
	}
	return out, err
}

func (r *Runner) beginRun(ctx context.Context, request []byte, in BeginRunInput) (BeginRunResult, error) {
	req, err := parseRequest(request)
	if err != nil {
		return BeginRunResult{}, err
	}
	run, err := r.recordRun(ctx, req, in)
	if err != nil {
		return BeginRunResult{}, err
	}
	out := BeginRunResult{
		Run:         RunRef{RunID: run.RunID, Tenant: run.Tenant, Owner: run.Owner, Tag: run.Tag, Version: run.Version},
		CoreVersion: core.Version, SearchAttributes: r.SearchAttributes(), ContinueAsNew: r.RunEvents,
	}
	if run.Status != agent.RunRunning {
		out.Over, out.Error, out.Steps = run.Status, truncateFailure(run.Error), len(run.Steps)
		return out, nil
	}
	f, err := r.loadRun(ctx, run)
	if err != nil {
		return BeginRunResult{}, err
	}
	if out.Skeleton, err = buildSkeleton(&f.definition); err != nil {
		return BeginRunResult{}, r.failRun(ctx, run, err)
	}
	if _, err := core.New(out.Skeleton); err != nil {
		return BeginRunResult{}, r.failRun(ctx, run, agent.Invalid("nodes", "%w", err))
	}
	return out, nil
}

// failRun ends a recorded run whose definition cannot be run. It returns cause, or the error of ending the run.
func (r *Runner) failRun(ctx context.Context, run agent.Run, cause error) error {
	if err := r.Store.FinishRun(ctx, run.Tenant, run.RunID, agent.RunFailed, truncateFailure(agent.FailureOf(cause)), time.Now()); err != nil {
		return fmt.Errorf("end run %s: %w", run.RunID, err)
	}
	return cause
}

// parseRequest decodes and checks a request.
func parseRequest(request []byte) (*agent.RunRequest, error) {
	var req agent.RunRequest
	if len(request) == 0 {
		return nil, agent.Invalid("", "the workflow needs one argument, a run request such as {\"workflow_tag\":\"main\"}")
	}
	if err := strictjson.Decode(request, &req); err != nil {
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

// recordRun stores the run of a request, or returns the run that an earlier call has stored.
func (r *Runner) recordRun(ctx context.Context, req *agent.RunRequest, in BeginRunInput) (agent.Run, error) {
	id, tenant := cmp.Or(req.RunID, in.RunID), req.Context.TenantName()
	existing, err := r.Store.Run(ctx, tenant, id)
	switch {
	case err == nil:
		return existing, checkSameRun(&existing, req, in)
	case agent.CodeOf(err) != agent.CodeNotFound:
		return agent.Run{}, err
	}
	stored, err := r.Store.Workflow(ctx, agent.WorkflowKey{Tenant: tenant, Owner: req.Owner, Tag: req.Tag}, req.Version)
	if err != nil {
		return agent.Run{}, err
	}
	run, err := r.Store.BeginRun(ctx, agent.Run{
		RunID: id, WorkflowID: in.WorkflowID, WorkflowKey: stored.WorkflowKey, Version: stored.Version, Status: agent.RunRunning,
		Input: req.Input, UserID: req.Context.UserID, Schedule: scheduleID(in.Schedule), StartedAt: time.Now(),
	})
	if err != nil {
		return agent.Run{}, fmt.Errorf("record run %s: %w", id, err)
	}
	return run, checkSameRun(&run, req, in)
}

// checkSameRun returns an error if an existing run was begun by another request, or is running in another Temporal execution.
func checkSameRun(run *agent.Run, req *agent.RunRequest, in BeginRunInput) error {
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

// scheduleID returns the ID of a schedule within its definition: the last part of the ID of the Temporal schedule.
func scheduleID(id string) string {
	return id[strings.LastIndexByte(id, '/')+1:]
}

// runFacts is a run and its definition. They are read once and cached.
type runFacts struct {
	run        agent.Run // without its steps
	definition agent.WorkflowDefinition
}

// node returns the node of the definition with an ID.
func (f *runFacts) node(id string) (*agent.WorkflowNode, error) {
	for i := range f.definition.Nodes {
		if f.definition.Nodes[i].ID == id {
			return &f.definition.Nodes[i], nil
		}
	}
	return nil, agent.Errorf(agent.CodeNotFound, "run node", "version %d of workflow %q has no node %q", f.run.Version, f.run.Tag, id)
}

// findRun returns the facts of a run, from the cache if it has them.
func (r *Runner) findRun(ctx context.Context, runID string) (*runFacts, error) {
	if f, ok := r.runs.Get(runID); ok {
		return f, nil
	}
	run, err := r.Store.Run(ctx, "", runID)
	if err != nil {
		return nil, err
	}
	return r.loadRun(ctx, run)
}

// loadRun reads the definition of a run and caches both.
func (r *Runner) loadRun(ctx context.Context, run agent.Run) (*runFacts, error) {
	stored, err := r.Store.Workflow(ctx, run.WorkflowKey, run.Version)
	if err != nil {
		return nil, err
	}
	run.Steps = nil
	f := &runFacts{run: run}
	if err := json.Unmarshal(stored.Definition, &f.definition); err != nil {
		return nil, agent.Errorf(agent.CodeInternal, "load definition", "version %d of %q: %w", run.Version, run.Tag, err)
	}
	r.runs.Add(run.RunID, f)
	return f, nil
}

// FinishRun stores the outcome of a run. It is idempotent: the first outcome is kept.
func (r *Runner) FinishRun(ctx context.Context, in FinishRunInput) error {
	r.runs.Remove(in.RunID)
	return r.Store.FinishRun(ctx, in.Tenant, in.RunID, in.Status, in.Failure, in.At)
}

// truncateFailure returns a copy of a failure that is short enough for history, nil for nil.
func truncateFailure(f *agent.Failure) *agent.Failure {
	if f == nil {
		return nil
	}
	out := *f
	out.Faults = nil
	out.Message = clip.Bytes(out.Message, maxFailureText)
	return &out
}
