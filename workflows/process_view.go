package workflows

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
)

// ProcessView is what a [Process] shows of itself.
type ProcessView struct {
	Status    string         `json:"status"`    // idle, running, waiting (for a person)
	Steps     []StepView     `json:"steps"`     // those at work, in the order in which they began
	Questions []QuestionView `json:"questions"` // those open
}

// StepView says where a step stands.
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
		Name: s.name, Status: s.status, TurnID: s.heard.turn, Attempt: s.attempt, Partial: s.heard.partial, Pending: []PendingView{},
	}
	for _, w := range s.heard.waiting {
		input := fmt.Sprintf(`{"approval_id":%q,"decision":"approve","by":"you"}`, w.ApprovalID)
		v.Pending = append(v.Pending, PendingView{PendingApproval: w.PendingApproval, Sent: w.sent, Command: command(s.workflowID, UpdateDecide, input)})
		if w.sent == "" {
			v.Status = statusWaiting
		}
	}
	return v
}

func (q *openQuestion) view() QuestionView {
	choice := "…"
	if len(q.Options) > 0 {
		choice = q.Options[0]
	}
	v := QuestionView{Name: q.Name, Prompt: q.Prompt, Options: q.Options}
	if v.Options == nil {
		v.Options = []string{}
	}
	if !q.expires.IsZero() {
		v.Expires = q.expires.UTC().Format("2006-01-02T15:04:05Z07:00")
	}
	v.Command = command(q.workflowID, UpdateAnswer, fmt.Sprintf(`{"question":%q,"choice":%q,"by":"you"}`, q.Name, choice))
	return v
}

// command is how a person sends an update.
func command(workflowID, update, input string) string {
	return "temporal workflow update execute --workflow-id " + shellWord(workflowID) + " --name " + update + " --input " + shellWord(input)
}

// shellWord quotes what a shell would not take as it is.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9') || strings.ContainsRune("/._-:", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func ownID(ctx workflow.Context) string { return workflow.GetInfo(ctx).WorkflowExecution.ID }
