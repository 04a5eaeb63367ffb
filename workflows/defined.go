package workflows

import (
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// DefinedWorkflow runs a stored definition, the version that was the newest when it began or the one that is asked for. The request, an
// [agent.RunRequest], is taken raw and checked by BeginRun, so that a bad one is refused with the field's name. carry is for
// continue-as-new alone; a person on the command line leaves it out.
//
// The core decides which nodes are visited when. A run that fails, or is cancelled, completes with that status; the workflow itself
// fails only when the request is refused.
func DefinedWorkflow(ctx workflow.Context, request converter.RawValue, carry *DefinedCarry) (agent.RunResult, error) {
	r := newDefined(ctx)
	if err := r.listen(ctx); err != nil {
		return agent.RunResult{}, err
	}
	// From here on nothing is cancelled from outside: a cancel is a flag, and the run ends in order.
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if carry != nil {
		if err := r.resume(carry); err != nil {
			return agent.RunResult{}, temporal.NewNonRetryableApplicationError(err.Error(), string(agent.CodeInternal), err)
		}
		return r.run(ctx)
	}
	over, err := r.begin(ctx, request)
	if err != nil || over != nil {
		r.finished = true
		_ = workflow.Await(ctx, r.quiet(ctx)) // a disconnected context is never cancelled
		if err != nil {
			return agent.RunResult{}, err
		}
		return *over, nil
	}
	return r.run(ctx)
}

// begin records the run. It returns a result if the run was over before.
func (r *definedRun) begin(ctx workflow.Context, request converter.RawValue) (*agent.RunResult, error) {
	info := workflow.GetInfo(ctx)
	schedule, _ := workflow.GetTypedSearchAttributes(ctx).GetKeyword(attributeScheduledBy)
	in := definitions.BeginRunInput{WorkflowID: info.WorkflowExecution.ID, RunID: info.FirstRunID, Schedule: schedule}
	var begun definitions.BeginRunResult
	if err := runQuick(ctx, "begin", definitionActivities.BeginRun, &begun, request, in); err != nil {
		return nil, err
	}
	switch {
	case begun.Refusal != nil:
		return nil, refusalError(begun.Refusal)
	case begun.Over != "":
		r.ref, r.status = begun.Run, begun.Over
		out := r.result(begun.Error)
		out.Steps = begun.Steps
		return &out, nil
	}
	if err := r.bind(ctx, &begun); err != nil {
		return nil, temporal.NewNonRetryableApplicationError(err.Error(), string(agent.CodeInternal), err)
	}
	return nil, nil //nolint:nilnil // nothing is over and nothing is wrong: the run begins
}

// run interprets the core's actions until the run is over.
func (r *definedRun) run(ctx workflow.Context) (agent.RunResult, error) {
	scopes := r.scopes(ctx)
	carried := r.timers
	r.timers, r.fresh = nil, true
	for _, t := range carried {
		r.startTimer(ctx, scopes, t)
	}
	for {
		if r.cancelled {
			r.core.Cancel()
		}
		r.changed = false
		// An execution that is about to end begins nothing: it waits for what is at work, and carries timers along.
		if r.due(ctx) {
			if r.working == 0 {
				return agent.RunResult{}, r.continueAsNew(ctx)
			}
			r.awaitChange(ctx)
			continue
		}
		action := r.core.Next()
		switch action.Kind {
		case core.Begin:
			for _, v := range action.Visits {
				r.startVisit(ctx, scopes, v)
			}
			r.fresh = false
		case core.Finish:
			return r.finish(ctx, action.Status)
		case core.Wait:
			if r.core.Stopping() {
				scopes.wake()
			}
			r.show(ctx)
			r.awaitChange(ctx)
			r.fresh = false
		}
	}
}

// scopes are the contexts that end work early.
type scopes struct {
	work   workflow.Context // of tasks and turns: until somebody cancels
	timers workflow.Context // of timers: until the run stops for any reason
	wake   workflow.CancelFunc
}

func (r *definedRun) scopes(ctx workflow.Context) scopes {
	var s scopes
	s.work, r.halt = workflow.WithCancel(ctx)
	s.timers, s.wake = workflow.WithCancel(s.work)
	if r.cancelled { // before there was anything to end
		r.halt()
	}
	return s
}

// awaitChange waits until a visit ends or somebody cancels.
func (r *definedRun) awaitChange(ctx workflow.Context) {
	known := r.cancelled
	_ = workflow.Await(ctx, func() bool { return r.changed || r.cancelled != known }) // a disconnected context is never cancelled
}

// finish stores the end of the run and retries without limit, because nothing else has it.
func (r *definedRun) finish(ctx workflow.Context, status core.Status) (agent.RunResult, error) {
	r.finished = true
	r.status = agent.RunStatus(status)
	if status == core.Failed && r.failure == nil {
		r.failure = tooManyVisits()
	}
	var failure *agent.Failure
	if status == core.Failed {
		failure = r.failure
	}
	in := definitions.FinishRunInput{RunID: r.ref.RunID, Tenant: r.ref.Tenant, Status: r.status, Failure: failure, At: workflow.Now(ctx)}
	err := runQuick(ctx, "store", definitionActivities.FinishRun, nil, in)
	_ = workflow.Await(ctx, r.quiet(ctx)) // as above
	if err != nil {
		return agent.RunResult{}, err
	}
	r.show(ctx)
	return r.result(failure), nil
}

func (r *definedRun) result(failure *agent.Failure) agent.RunResult {
	out := agent.RunResult{
		RunID: r.ref.RunID, Owner: r.ref.Owner, Tag: r.ref.Tag, Version: r.ref.Version, Status: r.status, Error: failure,
	}
	if r.core != nil {
		out.Steps = r.core.State().Visits
	}
	return out
}
