package workflows

import (
	"errors"
	"strings"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
)

// The choices of a person who is asked whether a step may run.
const (
	ChoiceApprove = "approve"
	ChoiceEdit    = "edit" // it runs, with the answer's message in place of its own
	ChoiceReject  = "reject"
)

// IntelligentProcess is the example of a process workflow (docs/guides/processes.md): it runs agents step by step, passes answers to later steps, asks a
// person if the input says so, retries steps whose failure is retryable, and continues as new when its history gets long. It uses only [Process], so
// that you can copy it to begin a process of your own.
//
// The input, an [IntelligentProcessInput], is taken raw and checked strictly by an activity.
// A process that fails, is rejected or is cancelled completes with that status; the workflow itself fails only when the input is refused.
// carry is only for continue-as-new: leave it out when you start the workflow by hand.
func IntelligentProcess(ctx workflow.Context, input converter.RawValue, carry *IntelligentProcessCarry) (IntelligentProcessResult, error) {
	work, stop := workflow.WithCancel(ctx)
	// The first task may bring this update, which would be refused without its handler.
	err := handleCancel(ctx, "Stops the process; what its steps have done stays: {reason?, by?}", func(workflow.Context, agent.CancelRequest) error {
		stop()
		return nil
	})
	if err != nil {
		return IntelligentProcessResult{}, err
	}
	r, err := newIntelligent(ctx, input, carry)
	if err != nil {
		return IntelligentProcessResult{}, err
	}
	if err := r.listen(ctx, stop); err != nil {
		return IntelligentProcessResult{}, err
	}
	for r.status == statusRunning {
		switch i := len(r.done); {
		case work.Err() != nil:
			r.status = IntelligentCancelled
		case i == len(r.in.Steps):
			r.status = IntelligentCompleted
		case i > r.began && r.Due(ctx, r.events()):
			if err := workflow.Await(work, func() bool { return r.cancels.Len() == 0 && r.Quiet(ctx) }); err == nil {
				return IntelligentProcessResult{}, r.continueAsNew(ctx)
			}
		default:
			r.run(work, &r.in.Steps[i])
		}
	}
	r.Settle(ctx)
	return r.result(), nil
}

// intelligentRun is an intelligent process in the memory of its workflow.
type intelligentRun struct {
	*Process

	in      IntelligentProcessInput
	strict  bool // false for a process that an older worker began, which accepted more inputs
	status  string
	began   int            // the steps that earlier runs did
	current string         // the step at work
	done    []StepResult   // those over, in order
	quotes  []Quote        // the answers that later steps repeat
	failure *agent.Failure // why the process failed
	cancels workflow.ReceiveChannel
}

func newIntelligent(ctx workflow.Context, input converter.RawValue, carry *IntelligentProcessCarry) (*intelligentRun, error) {
	r := &intelligentRun{status: statusRunning, cancels: workflow.GetSignalChannel(ctx, UpdateCancel)}
	r.strict = workflow.GetVersion(ctx, changeStrict, workflow.DefaultVersion, strictSince) >= strictSince
	if err := readInput(ctx, input, carry == nil, r.strict, acts.CheckProcess, &r.in); err != nil {
		return nil, err
	}
	if carry != nil {
		r.done, r.quotes, r.began = carry.Done, carry.Quotes, len(carry.Done)
	}
	var err error
	// Its turns run on its own task queue, because Turnstone's workers run it.
	r.Process, err = NewProcess(ctx, ProcessConfig{TaskQueue: workflow.GetInfo(ctx).TaskQueueName, IntervalMS: r.in.IntervalMS})
	return r, err
}

// listen registers the query of the process's own state, and the signal cancel.
func (r *intelligentRun) listen(ctx workflow.Context, stop workflow.CancelFunc) error {
	free, _ := workflow.NewDisconnectedContext(ctx)
	serve(free, "cancel", r.cancels, func(workflow.Context, agent.CancelRequest) { stop() })
	return workflow.SetQueryHandlerWithOptions(ctx, QueryState, func() (IntelligentProcessView, error) { return r.state(), nil },
		workflow.QueryHandlerOptions{Description: "Where the process stands, the answer so far, and what waits for a person"})
}

// run runs a step. If the step does not complete, it ends the process.
func (r *intelligentRun) run(ctx workflow.Context, s *IntelligentStep) {
	r.current = s.Name
	result := StepResult{Name: s.Name}
	message, err := r.askApproval(ctx, s, &result)
	var out agent.AgentStepOutput
	if err == nil && result.Status == "" {
		out, err = r.RunAgent(ctx, stepOf(&r.in, s, message))
		result.setOutput(&out)
	}
	var failed *StepError
	switch {
	case temporal.IsCanceledError(err) && ctx.Err() != nil:
		r.status, result.Status = IntelligentCancelled, IntelligentCancelled
	case errors.As(err, &failed):
		r.status, result.Status = IntelligentFailed, IntelligentFailed
		r.failure = &agent.Failure{Type: failed.Type, Message: failed.Error(), Retryable: failed.Retryable, Step: s.Name}
	case err != nil:
		r.status, result.Status = IntelligentFailed, IntelligentFailed
		r.failure = &agent.Failure{Type: string(agent.CodeInternal), Message: err.Error(), Step: s.Name}
	case result.Status == IntelligentRejected:
		r.status = IntelligentRejected
	default:
		r.rememberAnswer(s.Name, out.Output)
	}
	r.done, r.current = append(r.done, result), ""
}

// askApproval returns the message of a step. If the step needs an approval, it asks a person first; a rejection is in result.
func (r *intelligentRun) askApproval(ctx workflow.Context, s *IntelligentStep, result *StepResult) (string, error) {
	message := r.expand(s.Message)
	if !s.NeedsApproval {
		return message, nil
	}
	prompt := s.Question
	if prompt == "" {
		prompt = "May the step `" + s.Name + "` run?"
	}
	onTimeout := s.OnTimeout
	if onTimeout == "" {
		onTimeout = ChoiceReject
	}
	question := Question{
		Name: s.Name, Prompt: prompt, Options: []string{ChoiceApprove, ChoiceEdit, ChoiceReject}, Timeout: duration(s.AnswerTimeout),
		OnTimeout: onTimeout,
	}
	if r.strict {
		question.Worded = []string{ChoiceEdit}
	}
	answer, err := r.Ask(ctx, question)
	if err != nil {
		return "", err
	}
	if answer.Choice == ChoiceEdit && strings.TrimSpace(answer.Message) != "" {
		message = answer.Message
	}
	if answer.Choice == ChoiceReject {
		result.Status = IntelligentRejected
	}
	answer.Message = "" // history has it in the update
	result.Answer = &answer
	return message, nil
}

// expand replaces {{goal}} and {{name}} by the goal and by the answers of earlier steps.
func (r *intelligentRun) expand(message string) string {
	pairs := []string{"{{goal}}", r.in.Goal}
	for _, q := range r.quotes {
		pairs = append(pairs, "{{"+q.Name+"}}", q.Text)
	}
	return strings.NewReplacer(pairs...).Replace(message)
}

// rememberAnswer keeps an answer if a later step repeats it, and drops the answers that no later step repeats.
func (r *intelligentRun) rememberAnswer(name, text string) {
	var left []Quote
	later := r.in.Steps[len(r.done)+1:]
	for _, q := range append(r.quotes, Quote{Name: name, Text: text}) {
		for i := range later {
			if strings.Contains(later[i].Message, "{{"+q.Name+"}}") {
				left = append(left, q)
				break
			}
		}
	}
	r.quotes = left
}

// events returns the number of history events after which the process continues as new.
func (r *intelligentRun) events() int {
	if r.in.ContinueAsNewEvents > 0 {
		return r.in.ContinueAsNewEvents
	}
	return conversationEvents
}

// continueAsNew starts the next run with references, counters, and the answers that later steps repeat.
func (r *intelligentRun) continueAsNew(ctx workflow.Context) error {
	rest := r.in
	rest.Steps = append([]IntelligentStep(nil), r.in.Steps...)
	for i := range r.done {
		rest.Steps[i] = IntelligentStep{Name: rest.Steps[i].Name} // its message is not needed again
	}
	return workflow.NewContinueAsNewError(ctx, IntelligentProcessType, rest, &IntelligentProcessCarry{Done: r.done, Quotes: r.quotes})
}
