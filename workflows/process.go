package workflows

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// maxAtWork bounds the steps that a process has at work, and the questions that it has open, at once.
	maxAtWork = 100
	// maxIDTries bounds the tries at a free turn id: after a reset ids may be taken. Each try skips twice as many.
	maxIDTries = 20
)

// processNamespace is the namespace of the turn ids of a process, which are made of its run and a number.
var processNamespace = uuid.MustParse("6a9b41de-07d5-5c0e-9a7e-2f0c5b7d8e11") //nolint:gochecknoglobals // a constant in all but syntax

// ProcessConfig configures a [Process].
type ProcessConfig struct {
	// TaskQueue is the queue of Turnstone's workers; empty: [TaskQueue]. The process itself may run on any other.
	TaskQueue string
	// IntervalMS is the time between two token batches, 100 to 1,000; 0: 250.
	IntervalMS int
}

// Process is the part of a process workflow that uses agents as steps: [Process.RunAgent] runs one, [Process.Ask] waits for a person,
// [Process.ContinueAsNew] keeps histories short. It serves
//
//   - the query "state", a [ProcessView], unless the workflow sets a handler of its own for it afterwards,
//   - the update and signal "decide", an [agent.Decision] for a tool call that a step waits with,
//   - the update and signal "answer", an [Answer] to a question of the process,
//   - the signal "tokens", the token batches of steps that stream,
//
// and shows in the Web UI which steps are at work and which command answers what waits. Payloads are plain JSON.
// It belongs to one run: a workflow creates one when it begins, and again after it continued as new.
type Process struct {
	cfg       ProcessConfig
	named     int // turns, since this run began
	steps     []*stepAtWork
	questions []*openQuestion
	handling  int // handlers at work

	tokens, decides, answers workflow.ReceiveChannel
}

// NewProcess returns a process and registers its handlers. Fail the workflow with its error: cfg is invalid, or the SDK refused a handler.
func NewProcess(ctx workflow.Context, cfg ProcessConfig) (*Process, error) {
	if cfg.IntervalMS != 0 && (cfg.IntervalMS < 100 || cfg.IntervalMS > 1000) {
		return nil, invalidInput(fmt.Sprintf("interval_ms: is %d, want 100 to 1,000", cfg.IntervalMS))
	}
	if cfg.TaskQueue == "" {
		cfg.TaskQueue = TaskQueue
	}
	p := &Process{
		cfg: cfg, tokens: workflow.GetSignalChannel(ctx, SignalTokens), decides: workflow.GetSignalChannel(ctx, UpdateDecide),
		answers: workflow.GetSignalChannel(ctx, UpdateAnswer),
	}
	return p, p.listen(ctx)
}

func (p *Process) listen(ctx workflow.Context) error {
	// Handlers outlive a cancel of the workflow: cancelled turns still send signals, and every signal has to be received.
	free, _ := workflow.NewDisconnectedContext(ctx)
	serve(free, "tokens", p.tokens, func(ctx workflow.Context, b agent.TokenBatch) { p.receive(ctx, b) })
	serve(free, "decisions", p.decides, func(ctx workflow.Context, d agent.Decision) {
		if err := p.decide(ctx, d); err != nil {
			workflow.GetLogger(ctx).Warn("decision refused", "approval", d.ApprovalID, "error", err)
		}
	})
	serve(free, "answers", p.answers, func(ctx workflow.Context, a Answer) {
		if err := p.answer(ctx, a); err != nil {
			workflow.GetLogger(ctx).Warn("answer refused", "question", a.Question, "error", err)
		}
	})
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, QueryState, func() (ProcessView, error) { return p.View(), nil },
			workflow.QueryHandlerOptions{Description: "The steps at work with their answers so far, and what waits for a person"}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateDecide, withInputOnly(p.decide), strictUpdate(
			"Answers an approval of a step: {approval_id, decision: approve|edit|reject|respond, args?, message?, remember?, by}", p.checkDecision)),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateAnswer, withInputOnly(p.answer), strictUpdate(
			"Answers a question of the process: {question, choice, message?, by?}", p.checkAnswer)),
	)
}

// Quiet reports whether nothing is at work: no step, no question, no handler, no signal that waits to be handled.
func (p *Process) Quiet(ctx workflow.Context) bool {
	return len(p.steps) == 0 && len(p.questions) == 0 && p.handling == 0 && p.tokens.Len() == 0 && p.decides.Len() == 0 &&
		p.answers.Len() == 0 && workflow.AllHandlersFinished(ctx)
}

// Settle waits until the process is quiet. A workflow calls it before it returns, so that every update gets an answer. A cancel does not
// interrupt it. Do not defer it: deferred calls that block hang a worker that evicts the workflow from its cache.
func (p *Process) Settle(ctx workflow.Context) {
	free, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(free, func() bool { return p.Quiet(free) }) // a disconnected context is never cancelled
}

// Due reports whether to continue as new: history has at least events events, or the server suggests it; 0 leaves it to the server. Call it
// between two steps, after the run has done something: else a bound that is too small loops.
func (*Process) Due(ctx workflow.Context, events int) bool {
	info := workflow.GetInfo(ctx)
	return info.GetContinueAsNewSuggested() || (events > 0 && info.GetCurrentHistoryLength() >= events)
}

// ContinueAsNew returns the error with which a workflow starts its next run, once the process is quiet: every signal of the process is handled
// and every handler has finished. Handle the workflow's own signals before. fn and args are those of [workflow.NewContinueAsNewError]; args
// should hold references such as [agent.AgentStepOutput.ResultRef], not texts.
func (p *Process) ContinueAsNew(ctx workflow.Context, fn any, args ...any) error {
	if err := workflow.Await(ctx, func() bool { return p.Quiet(ctx) }); err != nil {
		return err
	}
	return workflow.NewContinueAsNewError(ctx, fn, args...)
}

// turnID returns the id of the process's next turn. It is the same after a replay, and after a reset for the turns before it. Ids that the
// earlier run used afterwards are taken; leap skips them.
func (p *Process) turnID(ctx workflow.Context, leap int) agent.TurnID {
	p.named += leap
	name := fmt.Sprintf("%s\x00%d", workflow.GetInfo(ctx).OriginalRunID, p.named)
	return agent.TurnID(uuid.NewSHA1(processNamespace, []byte(name)).String())
}

// receive passes a batch to its step.
func (p *Process) receive(ctx workflow.Context, b agent.TokenBatch) {
	for _, s := range p.steps {
		if s.child.receive(b) {
			if s.onBatch != nil {
				s.onBatch(b)
			}
			if len(b.Pending) > 0 {
				p.show(ctx)
			}
			return
		}
	}
}

// checkDecision refuses a decision that no step at work waits for, before it is in history.
func (p *Process) checkDecision(d agent.Decision) error {
	if err := validateDecision(d); err != nil {
		return err
	}
	if !slices.ContainsFunc(p.steps, func(s *stepAtWork) bool { return s.child.mayAwait(d.ApprovalID) }) {
		return noStepAwaits(d)
	}
	return nil
}

func noStepAwaits(d agent.Decision) error {
	return conflict(fmt.Sprintf("no step at work waits for the approval %.64q", d.ApprovalID))
}

// decide passes a decision on to the step that waits for it.
func (p *Process) decide(ctx workflow.Context, d agent.Decision) error {
	if p.handling >= maxHandlers {
		return conflict("too many decisions are under way")
	}
	p.handling++
	defer func() { p.handling-- }()
	s := p.stepAwaiting(d.ApprovalID)
	if s == nil {
		return noStepAwaits(d)
	}
	err := s.child.passOn(ctx, d)
	p.show(ctx)
	return err
}

// stepAwaiting returns the step that waits for an approval. The signal that it waits is best effort: without one, a turn that is alone is assumed
// to wait, and judges the decision itself.
func (p *Process) stepAwaiting(approvalID string) *stepAtWork {
	var only *stepAtWork
	turns := 0
	for _, s := range p.steps {
		if s.child.awaits(approvalID) {
			return s
		}
		if s.child.turn != "" {
			only = s
			turns++
		}
	}
	if turns != 1 {
		return nil
	}
	return only
}

func conflict(message string) error {
	return temporal.NewNonRetryableApplicationError(message, string(agent.CodeConflict), nil)
}

// show writes to the Web UI what is at work and what waits, in Markdown. It costs no history.
func (p *Process) show(ctx workflow.Context) {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s**\n", p.View().Status)
	for _, s := range p.steps {
		fmt.Fprintf(&b, "\n- `%s`: %s, turn `%s`\n", s.name, s.view().Status, s.child.turn)
		for _, w := range s.child.pending() {
			fmt.Fprintf(&b, "\n`%s` wants to run. To approve:\n\n```\n%s\n```\n", w.ToolName, approval(s.workflowID, w.ApprovalID).lines())
		}
	}
	for _, q := range p.questions {
		if q.answer == nil {
			fmt.Fprintf(&b, "\n%s\n\n```\n%s\n```\n", q.Prompt, q.command().lines())
		}
	}
	workflow.SetCurrentDetails(ctx, b.String())
}
