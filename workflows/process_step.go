package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxAttempts = activities.MaxStepAttempts
	// stopGrace is how long a step that took too long is waited for after its turn was told to stop: it stores what it has, which takes
	// a moment, unless no worker is there to do it.
	stopGrace = time.Minute
)

// Step is one turn of an agent within a process.
type Step struct {
	// Name is what the step is called in the view and the Web UI: 1 to 128 of A-Z a-z 0-9 . _ -; empty: the agent's, or "step".
	Name string
	// Request is the turn's, as in every other way in. TurnID and StreamTo are the helper's. Without a SessionID each turn has a session of
	// its own; with one, the agent sees what was said in it before.
	Request agent.TurnRequest
	// Stream sends the process the answer while it grows, and the calls that wait for a person. Each batch costs about four events of history.
	// Without it only the turn itself shows what it waits for.
	Stream bool
	// OnBatch is called with every batch of a step that streams, in order and once. A batch with a higher Attempt of the same Step replaces
	// what the earlier ones said. It must not block.
	OnBatch func(agent.TokenBatch)
	// Timeout bounds one attempt, pauses for people included; then its turn is cancelled, and the step fails as "timeout". 0: no bound.
	// Request.Limits.WallTimeSec bounds the same without the pauses.
	Timeout time.Duration
	// Retry says whether a step that failed is tried again.
	Retry Retry
}

// Retry says when a step is tried again. Each attempt is a new turn.
type Retry struct {
	Attempts int           // in all, at most 100; 0: 1
	First    time.Duration // the pause before the second attempt, twice as long before each further one; 0: 1 s
	Most     time.Duration // the longest pause; 0: 1 min
	// Types are the [StepError] types that are tried again, for example "model_error"; none: all that are Retryable.
	Types []string
}

// StepError is a step that did not complete.
type StepError struct {
	Step      string
	Type      string // of the turn's failure, an [agent.Code] or [agent.StopReason]; "timeout"
	Message   string
	Retryable bool                   // the same request may succeed later
	Output    *agent.AgentStepOutput // what the turn returned; nil if it was refused or returned nothing
	Err       error                  // Temporal's, when there is no Output
}

func (e *StepError) Error() string { return fmt.Sprintf("step %s: %s: %s", e.Step, e.Type, e.Message) }

func (e *StepError) Unwrap() error { return e.Err }

// The types of a [StepError] that no turn has.
const (
	// StepTimeout: the step took longer than its Timeout.
	StepTimeout = "timeout"
	// StepTerminated: somebody terminated the turn's workflow.
	StepTerminated = string(agent.StopTerminated)
)

// stepAtWork is a step in the memory of its workflow.
type stepAtWork struct {
	name       string
	status     string
	attempt    int
	child      childTurn // of the turn at work
	onBatch    func(agent.TokenBatch)
	workflowID string // of the process
}

// RunAgent runs a turn as a child workflow and waits for its end. A turn that did not complete is a [*StepError], after as many attempts as
// the step has; when ctx is cancelled the turn is too, its end is awaited and the error is ctx's. The output is what the last turn
// returned, also beside an error: capped, with ResultRef for the rest. Several steps may run at once, in coroutines of the workflow.
func (p *Process) RunAgent(ctx workflow.Context, s Step) (agent.AgentStepOutput, error) {
	if err := s.check(); err != nil {
		return agent.AgentStepOutput{}, err
	}
	if len(p.steps) >= maxAtWork {
		return agent.AgentStepOutput{}, conflict(fmt.Sprintf("%d steps are at work already", maxAtWork))
	}
	w := &stepAtWork{name: s.Name, status: "starting", onBatch: s.OnBatch, workflowID: workflowID(ctx)}
	p.steps = append(p.steps, w)
	defer func() {
		p.steps = slices.DeleteFunc(p.steps, func(o *stepAtWork) bool { return o == w })
		p.show(ctx)
	}()
	for {
		w.attempt++
		out, err := p.runAttempt(ctx, w, &s)
		var failed *StepError
		if !errors.As(err, &failed) || w.attempt >= s.Retry.Attempts || !s.Retry.covers(failed) {
			return out, err
		}
		w.status, w.child = "retrying", childTurn{}
		p.show(ctx)
		timer := workflow.NewTimerWithOptions(ctx, s.Retry.pauseAfter(w.attempt), workflow.TimerOptions{Summary: s.Name + ": before the next attempt"})
		if err := timer.Get(ctx, nil); err != nil {
			return out, err
		}
	}
}

// check refuses an invalid step and sets the defaults of a valid one.
func (s *Step) check() error {
	switch {
	case s.Name == "" && s.Request.Agent != "":
		s.Name = s.Request.Agent
	case s.Name == "":
		s.Name = "step"
	}
	r := &s.Retry
	switch {
	case !agent.ValidName(s.Name):
		return invalidInput("name: want 1 to 128 of A-Z a-z 0-9 . _ -")
	case s.Request.TurnID != "":
		return invalidInput("request.turn_id: the process names its turns")
	case s.Request.StreamTo != nil:
		return invalidInput("request.stream_to: set stream: the process itself listens")
	case s.Timeout < 0:
		return invalidInput("timeout: is negative")
	case r.Attempts < 0 || r.Attempts > maxAttempts:
		return invalidInput(fmt.Sprintf("retry.attempts: is %d, at most %d", r.Attempts, maxAttempts))
	case r.First < 0 || r.Most < 0:
		return invalidInput("retry: a pause is negative")
	}
	if r.First == 0 {
		r.First = time.Second
	}
	if r.Most == 0 {
		r.Most = time.Minute
	}
	return nil
}

func (r *Retry) covers(e *StepError) bool {
	if len(r.Types) > 0 {
		return slices.Contains(r.Types, e.Type)
	}
	return e.Retryable
}

// pauseAfter returns the pause after a number of attempts.
func (r *Retry) pauseAfter(attempts int) time.Duration {
	d := r.First
	for i := 1; i < attempts && d < r.Most; i++ {
		d *= 2
	}
	return min(d, r.Most)
}

// runAttempt runs one attempt, under an id that no turn has yet.
func (p *Process) runAttempt(ctx workflow.Context, w *stepAtWork, s *Step) (agent.AgentStepOutput, error) {
	request := s.Request
	if s.Stream {
		request.StreamTo = &agent.StreamTo{WorkflowID: workflowID(ctx), Signal: SignalTokens, IntervalMS: p.cfg.IntervalMS}
	}
	leap := 1
	for tries := 1; ; tries++ {
		request.TurnID = p.turnID(ctx, leap)
		w.status, w.child = statusRunning, childTurn{turn: request.TurnID}
		p.show(ctx)
		out, err := p.runTurn(ctx, s, request)
		if tries == maxIDTries || !temporal.IsWorkflowExecutionAlreadyStartedError(err) {
			return out, err
		}
		leap *= 2
	}
}

// runTurn runs one turn within the step's timeout. A turn that did not complete is a [*StepError].
func (p *Process) runTurn(ctx workflow.Context, s *Step, request agent.TurnRequest) (agent.AgentStepOutput, error) {
	work, stop := workflow.WithCancel(ctx)
	defer stop()
	if err := work.Err(); err != nil {
		return agent.AgentStepOutput{}, err
	}
	options := workflow.WithWorkflowTaskQueue(childOptions(work, request.TurnID, s.Name), p.cfg.TaskQueue)
	child := workflow.ExecuteChildWorkflow(options, AgentTurnType, request)
	late := false
	if s.Timeout > 0 {
		late = awaitWithin(ctx, s.Name+": timeout", s.Timeout, child.IsReady) && ctx.Err() == nil
	}
	if late {
		stop()
		if awaitWithin(ctx, s.Name+": stop", stopGrace, child.IsReady) && ctx.Err() == nil {
			return agent.AgentStepOutput{}, &StepError{Step: s.Name, Type: StepTimeout, Message: tookTooLong(s), Retryable: true}
		}
	}
	var out agent.AgentStepOutput
	err := child.Get(ctx, &out)
	switch {
	case ctx.Err() != nil:
		return out, ctx.Err()
	case err != nil && !late:
		return out, lostTurnError(s.Name, err)
	case late && (err != nil || out.Status != agent.TurnCompleted): // it may have completed while it was told to stop
		failed := &StepError{Step: s.Name, Type: StepTimeout, Message: tookTooLong(s), Retryable: true, Err: err}
		if err == nil {
			failed.Output = &out
		}
		return out, failed
	case out.Status != agent.TurnCompleted:
		return out, unfinishedTurnError(s.Name, &out)
	}
	return out, nil
}

func tookTooLong(s *Step) string { return "took longer than " + s.Timeout.String() }

// awaitWithin waits for done and reports whether the time ran out first. A cancel ends the wait too.
func awaitWithin(ctx workflow.Context, summary string, d time.Duration, done func() bool) (late bool) {
	ok, err := workflow.AwaitWithOptions(ctx, workflow.AwaitOptions{Timeout: d, TimerOptions: workflow.TimerOptions{Summary: summary}}, done)
	return !ok && err == nil
}

// unfinishedTurnError returns the error of a turn that returned another status than completed.
func unfinishedTurnError(step string, out *agent.AgentStepOutput) *StepError {
	e := &StepError{Step: step, Type: string(out.StopReason), Message: "the turn " + string(out.Status), Output: out}
	if out.Status == agent.TurnCancelled {
		e.Type, e.Message = string(agent.CodeCancelled), "the turn was cancelled"
	}
	if f := out.Error; f != nil && out.Status != agent.TurnCancelled {
		e.Type, e.Message, e.Retryable = f.Type, f.Message, f.Retryable
	}
	return e
}

// lostTurnError returns the error of a turn that returned nothing: its request was refused, or its workflow was ended from outside.
func lostTurnError(step string, err error) error {
	if temporal.IsWorkflowExecutionAlreadyStartedError(err) {
		return err
	}
	e := &StepError{Step: step, Type: string(agent.CodeInternal), Message: err.Error(), Retryable: true, Err: err}
	var (
		application *temporal.ApplicationError
		terminated  *temporal.TerminatedError
		timeout     *temporal.TimeoutError
	)
	switch {
	case errors.As(err, &application):
		e.Type, e.Message, e.Retryable = application.Type(), application.Message(), !application.NonRetryable()
		var f agent.Failure // of a refusal, which is more precise
		if application.HasDetails() && application.Details(&f) == nil && f.Type != "" {
			e.Type, e.Message, e.Retryable = f.Type, f.Message, f.Retryable
		}
	case errors.As(err, &terminated):
		e.Type, e.Message = StepTerminated, "the turn's workflow was terminated"
	case errors.As(err, &timeout):
		e.Type, e.Message = StepTimeout, "the turn's workflow ran out of time"
	case temporal.IsCanceledError(err):
		e.Type, e.Message, e.Retryable = string(agent.CodeCancelled), "the turn was cancelled", false
	}
	return e
}
