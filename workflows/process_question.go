package workflows

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxAnswer = 64 << 10 // bytes of an answer's choice and message: history holds them
	maxPrompt = activities.MaxPrompt
	maxOption = 128 // bytes
)

// Question is a question of a process to a person; see [Process.Ask].
type Question struct {
	Name    string        // 1 to 128 of A-Z a-z 0-9 . _ -; no other open question has it
	Prompt  string        // for the person, Markdown, at most 8 KiB
	Options []string      // what may be chosen, at most 100 of 1 to 128 printable bytes; none: anything
	Timeout time.Duration // 0: none
	// OnTimeout is the choice if nobody has answered in time.
	OnTimeout string
	// Worded lists the choices that need a message; an answer without one is refused.
	Worded []string
}

// Answer answers a question of a process: the update "answer", and a signal of the same name for older tools.
type Answer struct {
	Question string `json:"question"`
	Choice   string `json:"choice"`
	Message  string `json:"message,omitempty"` // at most 64 KiB
	By       string `json:"by,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"` // nobody answered: Choice is the question's OnTimeout
}

// openQuestion is a question in the memory of its workflow.
type openQuestion struct {
	Question

	expires    time.Time
	answer     *Answer
	workflowID string // of the process
}

// Ask waits until a person answers, or until the question's timeout: then the answer has TimedOut set. The wait survives restarts and deploys.
// The error is ctx's, or the question is invalid.
func (p *Process) Ask(ctx workflow.Context, question Question) (Answer, error) {
	if err := p.checkQuestion(&question); err != nil {
		return Answer{}, err
	}
	q := &openQuestion{Question: question, workflowID: workflowID(ctx)}
	if q.Timeout > 0 {
		q.expires = workflow.Now(ctx).Add(q.Timeout)
	}
	p.questions = append(p.questions, q)
	p.show(ctx)
	defer func() {
		p.questions = slices.DeleteFunc(p.questions, func(o *openQuestion) bool { return o == q })
		p.show(ctx)
	}()
	answered := func() bool { return q.answer != nil }
	if q.Timeout == 0 {
		if err := workflow.Await(ctx, answered); err != nil {
			return Answer{}, err
		}
		return *q.answer, nil
	}
	options := workflow.AwaitOptions{Timeout: q.Timeout, TimerOptions: workflow.TimerOptions{Summary: q.Name + ": nobody answers"}}
	ok, err := workflow.AwaitWithOptions(ctx, options, answered)
	switch {
	case err != nil:
		return Answer{}, err
	case !ok:
		return Answer{Question: q.Name, Choice: q.OnTimeout, TimedOut: true}, nil
	}
	return *q.answer, nil
}

func (p *Process) checkQuestion(q *Question) error {
	switch {
	case !agent.ValidName(q.Name):
		return invalidInput("question.name: want 1 to 128 of A-Z a-z 0-9 . _ -")
	case len(q.Prompt) > maxPrompt:
		return invalidInput(fmt.Sprintf("question.prompt: is %d bytes, at most %d", len(q.Prompt), maxPrompt))
	case len(q.Options) > maxAtWork:
		return invalidInput(fmt.Sprintf("question.options: are %d, at most %d", len(q.Options), maxAtWork))
	case slices.ContainsFunc(q.Options, func(o string) bool { return o == "" || len(o) > maxOption || strconv.Quote(o) != `"`+o+`"` }):
		return invalidInput("question.options: want 1 to 128 printable bytes without quotes")
	case q.Timeout < 0:
		return invalidInput("question.timeout: is negative")
	case len(p.questions) >= maxAtWork:
		return conflict(fmt.Sprintf("%d questions are open already", maxAtWork))
	case p.openQuestion(q.Name) != nil:
		return conflict("a question " + q.Name + " is open already")
	}
	return nil
}

// openQuestion returns the unanswered question with a name, nil if there is none.
func (p *Process) openQuestion(name string) *openQuestion {
	for _, q := range p.questions {
		if q.Name == name && q.answer == nil {
			return q
		}
	}
	return nil
}

// checkAnswer refuses an answer that fits no open question, before it is in history.
func (p *Process) checkAnswer(a Answer) error {
	switch {
	case len(a.Choice)+len(a.Message) > maxAnswer:
		return invalidInput(fmt.Sprintf("message: is %d bytes with the choice, at most %d", len(a.Choice)+len(a.Message), maxAnswer))
	case len(a.By) > 256:
		return invalidInput("by: is longer than 256 bytes")
	}
	q := p.openQuestion(a.Question)
	if q == nil {
		return conflict(fmt.Sprintf("no question %.128q is open", a.Question))
	}
	if len(q.Options) > 0 && !slices.Contains(q.Options, a.Choice) {
		return invalidInput("choice: want one of " + strings.Join(q.Options, ", "))
	}
	if slices.Contains(q.Worded, a.Choice) && strings.TrimSpace(a.Message) == "" {
		return invalidInput("message: is empty, and the choice " + a.Choice + " needs one")
	}
	return nil
}

func (p *Process) answer(_ workflow.Context, a Answer) error {
	if err := p.checkAnswer(a); err != nil {
		return err
	}
	a.TimedOut = false
	p.openQuestion(a.Question).answer = &a
	return nil
}
