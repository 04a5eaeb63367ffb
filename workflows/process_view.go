package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
)

// ProcessView is what a [Process] shows of itself.
type ProcessView struct {
	Status    string         `json:"status"`    // idle, running, waiting (for a person)
	Steps     []StepView     `json:"steps"`     // those at work, in the order in which they began
	Questions []QuestionView `json:"questions"` // those open
}

// StepView is the state of a step.
type StepView struct {
	Name    string        `json:"name"`
	Status  string        `json:"status"` // starting, running, waiting (for a person), retrying
	TurnID  agent.TurnID  `json:"turn_id"`
	Attempt int           `json:"attempt"`
	Partial string        `json:"partial_text"` // the answer so far, of a step that streams
	Pending []PendingView `json:"pending"`
}

// PendingView is a tool call that waits for a person.
type PendingView struct {
	agent.PendingApproval

	Sent    agent.DecisionKind `json:"sent,omitempty"` // passed on to the turn, which has not gone on yet
	Command string             `json:"command"`        // approves it
}

// QuestionView is an open question of the process.
type QuestionView struct {
	Name    string   `json:"name"`
	Prompt  string   `json:"prompt"`
	Options []string `json:"options"`
	Expires string   `json:"expires,omitempty"`
	Command string   `json:"command"` // answers it with the first option
}

// View is what the query "state" answers; a workflow that sets a handler of its own for it may show it along with more.
func (p *Process) View() ProcessView {
	v := ProcessView{Status: "idle", Steps: []StepView{}, Questions: []QuestionView{}}
	waits := false
	for _, s := range p.steps {
		one := s.view()
		waits = waits || one.Status == statusWaiting
		v.Steps = append(v.Steps, one)
	}
	for _, q := range p.questions {
		if q.answer == nil {
			waits = true
			v.Questions = append(v.Questions, q.view())
		}
	}
	switch {
	case waits:
		v.Status = statusWaiting
	case len(p.steps) > 0:
		v.Status = statusRunning
	}
	return v
}

const (
	statusRunning = "running"
	statusWaiting = "waiting"
)

func (s *stepAtWork) view() StepView {
	v := StepView{
		Name: s.name, Status: s.status, TurnID: s.child.turn, Attempt: s.attempt, Partial: s.child.partial, Pending: []PendingView{},
	}
	for _, w := range s.child.waiting {
		v.Pending = append(v.Pending, PendingView{
			PendingApproval: w.PendingApproval, Sent: w.sent, Command: approval(s.workflowID, w.ApprovalID).line(),
		})
		if w.sent == "" {
			v.Status = statusWaiting
		}
	}
	return v
}

func (q *openQuestion) view() QuestionView {
	v := QuestionView{Name: q.Name, Prompt: q.Prompt, Options: q.Options, Command: q.command().line()}
	if v.Options == nil {
		v.Options = []string{}
	}
	if !q.expires.IsZero() {
		v.Expires = q.expires.UTC().Format("2006-01-02T15:04:05Z07:00")
	}
	return v
}

// command answers with the first option.
func (q *openQuestion) command() command {
	choice := "…"
	if len(q.Options) > 0 {
		choice = q.Options[0]
	}
	return command{q.workflowID, UpdateAnswer, []field{{"question", q.Name}, {"choice", choice}, {"by", "you"}}}
}

func workflowID(ctx workflow.Context) string { return workflow.GetInfo(ctx).WorkflowExecution.ID }
