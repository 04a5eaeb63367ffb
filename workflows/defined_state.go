package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/definitions"
	"github.com/turnstone-run/turnstone/internal/definitions/core"
)

// DefinedCarry is the state with which a run continues as new: references and counters.
type DefinedCarry struct {
	Run           definitions.RunRef `json:"run"`
	Skeleton      core.Skeleton      `json:"skeleton"`
	State         core.State         `json:"state"`
	Timers        []timer            `json:"timers,omitempty"`
	Failure       *agent.Failure     `json:"failure,omitempty"`
	ContinueAsNew int                `json:"continue_as_new_events,omitempty"`
}

// timer is a visit of a timer node that is under way.
type timer struct {
	Node  int           `json:"node"`
	Visit int           `json:"visit"`
	From  []core.Source `json:"from,omitempty"`
	Until time.Time     `json:"until"`
}

// definedRun is a run in the memory of its workflow.
type definedRun struct {
	ref      definitions.RunRef
	skeleton core.Skeleton
	core     *core.Run
	timers   []timer
	failure  *agent.Failure
	events   int // continue as new after so many; 0: when the server suggests it

	working   int  // visits at work, timers left out
	changed   bool // a visit has ended since the core was asked
	cancelled bool
	finished  bool
	status    agent.RunStatus
	cancels   workflow.ReceiveChannel
	fresh     bool                // this execution has not done anything yet
	halt      workflow.CancelFunc // asks what is at work to end
}

func newDefined(ctx workflow.Context) *definedRun {
	return &definedRun{status: agent.RunRunning, cancels: workflow.GetSignalChannel(ctx, UpdateCancel)}
}

// resume takes over the state of the run before.
func (r *definedRun) resume(carry *DefinedCarry) error {
	r.ref, r.skeleton, r.timers, r.failure, r.events = carry.Run, carry.Skeleton, carry.Timers, carry.Failure, carry.ContinueAsNew
	r.cancelled = carry.State.Cancelled
	var err error
	r.core, err = core.Resume(carry.Skeleton, carry.State)
	return err
}

// bind takes over the result of BeginRun.
func (r *definedRun) bind(ctx workflow.Context, b *definitions.BeginRunResult) error {
	r.ref, r.skeleton, r.events = b.Run, b.Skeleton, b.ContinueAsNew
	if b.SearchAttributes {
		index(ctx, attributeTenant.ValueSet(r.ref.Tenant))
	}
	var err error
	r.core, err = core.New(b.Skeleton)
	return err
}

// due reports whether the run should continue as new. It can do so while only timers are at work.
func (r *definedRun) due(ctx workflow.Context) bool {
	if r.fresh || r.core.Stopping() {
		return false
	}
	info := workflow.GetInfo(ctx)
	if r.events > 0 && info.GetCurrentHistoryLength() >= r.events {
		return true
	}
	return info.GetContinueAsNewSuggested()
}

// continueAsNew starts the run's next execution. All signals are handled first, so that none is lost.
func (r *definedRun) continueAsNew(ctx workflow.Context) error {
	quiet := r.quiet(ctx)
	_ = workflow.Await(ctx, func() bool { return r.working == 0 && quiet() }) // a disconnected context is never cancelled
	if r.cancelled {
		r.core.Cancel()
	}
	request := agent.RunRequest{
		RunID: r.ref.RunID, Owner: r.ref.Owner, Tag: r.ref.Tag, Version: r.ref.Version,
		Context: agent.InvocationContext{Tenant: r.ref.Tenant},
	}
	next := &DefinedCarry{
		Run: r.ref, Skeleton: r.skeleton, State: r.core.State(), Timers: r.timers, Failure: r.failure, ContinueAsNew: r.events,
	}
	return workflow.NewContinueAsNewError(ctx, DefinedWorkflowType, request, next)
}

// quiet reports whether no handler is at work and no signal waits to be handled.
func (r *definedRun) quiet(ctx workflow.Context) func() bool {
	return func() bool { return r.cancels.Len() == 0 && workflow.AllHandlersFinished(ctx) }
}

// listen registers the query, the update and the signal of a run, and Temporal's own cancel.
func (r *definedRun) listen(ctx workflow.Context) error {
	free, _ := workflow.NewDisconnectedContext(ctx)
	serve(free, "cancel", r.cancels, func(ctx workflow.Context, c agent.CancelRequest) {
		if err := r.cancel(ctx, c); err != nil {
			workflow.GetLogger(ctx).Warn("cancel refused", "error", err)
		}
	})
	workflow.GoNamed(free, "cancelled", func(free workflow.Context) {
		if ctx.Done().Receive(free, nil); ctx.Err() != nil {
			_ = r.cancel(free, agent.CancelRequest{Reason: "the workflow was cancelled"}) // a run that is over needs none
		}
	})
	if err := workflow.SetQueryHandlerWithOptions(ctx, QueryState, func() (RunView, error) { return r.view(), nil },
		workflow.QueryHandlerOptions{Description: "Where the run stands, node by node"}); err != nil {
		return err
	}
	return handleCancel(ctx, "Stops the run; what its nodes have done stays: {reason?, by?}", r.cancel)
}

// cancel begins no more visits and ends those at work.
func (r *definedRun) cancel(workflow.Context, agent.CancelRequest) error {
	if r.finished {
		return errRunOver
	}
	r.cancelled = true
	if r.halt != nil {
		r.halt()
	}
	return nil
}

// errRunOver refuses what comes after the end.
var errRunOver = temporal.NewNonRetryableApplicationError("the run is over", string(agent.CodeConflict), nil)

// tooManyVisits is the failure of a run that made all the visits it may make.
func tooManyVisits() *agent.Failure {
	return &agent.Failure{
		Type: string(agent.CodeOverflow), Message: fmt.Sprintf("the run made %d visits; what repeats for longer is a schedule's work", core.MaxVisits),
	}
}
