package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/converter"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// MaxStepAttempts bounds how often a step of a process is tried.
	MaxStepAttempts = 100
	// MaxPrompt bounds, in bytes, what a process asks a person.
	MaxPrompt = 8 << 10

	maxProcessSteps = 100
	// maxProcessBytes bounds the words of a process's input: history holds them once for each run.
	maxProcessBytes = 256 << 10
)

// IntelligentProcessInput starts an IntelligentProcess. {{goal}} in a step's message stands for the goal, {{name}} for the answer of the
// earlier step of that name, as its result holds it: capped (turn.history_output_bytes). With a session_id all steps are turns of one
// session, and an agent sees all that was said before.
type IntelligentProcessInput struct {
	Goal                string                  `json:"goal,omitempty"`
	Steps               []IntelligentStep       `json:"steps"`
	Agent               string                  `json:"agent,omitempty"` // of steps that name none; empty: routing decides
	SessionID           agent.SessionID         `json:"session_id,omitempty"`
	Context             agent.InvocationContext `json:"context,omitzero"`
	Model               string                  `json:"model,omitempty"`
	Limits              *agent.Limits           `json:"limits,omitempty"`                 // of each turn
	Attempts            int                     `json:"attempts,omitempty"`               // of each step, at most 100; 0: 1
	IntervalMS          int                     `json:"interval_ms,omitempty"`            // between two batches of words, 100 to 1,000; 0: 250
	ContinueAsNewEvents int                     `json:"continue_as_new_events,omitempty"` // 0: 2,000
}

// IntelligentStep is one step of an IntelligentProcess.
type IntelligentStep struct {
	Name          string `json:"name"` // 1 to 128 of A-Z a-z 0-9 . _ -; not "goal"
	Message       string `json:"message"`
	Agent         string `json:"agent,omitempty"`
	Timeout       string `json:"timeout,omitempty"`        // of one attempt, a Go duration such as 10m
	Attempts      int    `json:"attempts,omitempty"`       // 0: the process's
	NeedsApproval bool   `json:"needs_approval,omitempty"` // a person is asked before it runs
	Question      string `json:"question,omitempty"`       // what the person is asked
	AnswerTimeout string `json:"answer_timeout,omitempty"` // a Go duration; empty: asks for ever
	OnTimeout     string `json:"on_timeout,omitempty"`     // approve or reject, which is the default
}

// CheckProcess holds the raw input of an IntelligentProcess against its shape, strictly, and against its bounds. It repeats nothing of it:
// the workflow has it already, and reads it as leniently as everything.
func (*Activities) CheckProcess(_ context.Context, raw converter.RawValue) (CheckInputResult, error) {
	return checkInput(raw, new(checkedProcess), `a process such as {"steps":[{"name":"a","message":"hello"}]}`)
}

// checkedProcess also refuses what the turns of the process would be refused for. Only the activity calls its Check, so that it may become stricter.
type checkedProcess struct{ IntelligentProcessInput }

// Check names the field at fault.
func (in *checkedProcess) Check() error {
	if err := in.IntelligentProcessInput.Check(); err != nil {
		return err
	}
	turn := agent.TurnRequest{Message: in.Steps[0].Message, Agent: in.Agent, SessionID: in.SessionID, Context: in.Context, Limits: in.Limits}
	if err := turn.Validate(0); err != nil {
		return err
	}
	for i := range in.Steps {
		if name := in.Steps[i].Agent; name != "" && !agent.ValidName(name) {
			return agent.Invalid(fmt.Sprintf("steps[%d].agent", i), "want 1 to 128 of A-Z a-z 0-9 . _ -, got %.128q", name)
		}
	}
	return nil
}

// Check names the field at fault. Workflows that an older worker began call it: what it accepts may not change.
func (in *IntelligentProcessInput) Check() error {
	switch {
	case len(in.Steps) == 0:
		return agent.Invalid("steps", "are none")
	case len(in.Steps) > maxProcessSteps:
		return agent.Invalid("steps", "are %d, at most %d", len(in.Steps), maxProcessSteps)
	case in.SessionID != "" && !in.SessionID.Valid():
		return agent.Invalid("session_id", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	case in.Attempts < 0 || in.Attempts > MaxStepAttempts:
		return agent.Invalid("attempts", "is %d, want 0 to %d", in.Attempts, MaxStepAttempts)
	case in.ContinueAsNewEvents < 0:
		return agent.Invalid("continue_as_new_events", "is negative")
	}
	size := len(in.Goal)
	for i := range in.Steps {
		s := &in.Steps[i]
		if field, err := s.check(in.Steps[:i]); err != nil {
			return agent.Invalid(fmt.Sprintf("steps[%d].%s", i, field), "%w", err)
		}
		size += len(s.Message) + len(s.Question)
	}
	if size > maxProcessBytes {
		return agent.Invalid("steps", "goal, messages and questions are %d bytes, at most %d", size, maxProcessBytes)
	}
	return nil
}

func (s *IntelligentStep) check(earlier []IntelligentStep) (field string, err error) {
	switch {
	case !agent.ValidName(s.Name) || s.Name == goalName:
		return "name", fmt.Errorf(`want 1 to 128 of A-Z a-z 0-9 . _ -, and not "goal": got %.128q`, s.Name)
	case named(earlier, s.Name):
		return "name", fmt.Errorf("%s is an earlier step's", s.Name)
	case strings.TrimSpace(s.Message) == "":
		return "message", errors.New("is empty")
	case s.Attempts < 0 || s.Attempts > MaxStepAttempts:
		return "attempts", fmt.Errorf("is %d, want 0 to %d", s.Attempts, MaxStepAttempts)
	case len(s.Question) > MaxPrompt:
		return "question", fmt.Errorf("is %d bytes, at most %d", len(s.Question), MaxPrompt)
	case s.OnTimeout != "" && s.OnTimeout != string(agent.DecisionApprove) && s.OnTimeout != string(agent.DecisionReject):
		return "on_timeout", fmt.Errorf("want approve or reject, got %.128q", s.OnTimeout)
	case !isDuration(s.Timeout):
		return "timeout", fmt.Errorf("want a duration such as 10m, got %.128q", s.Timeout)
	case !isDuration(s.AnswerTimeout):
		return "answer_timeout", fmt.Errorf("want a duration such as 72h, got %.128q", s.AnswerTimeout)
	}
	for rest := s.Message; ; {
		_, after, found := strings.Cut(rest, "{{")
		if !found {
			return "", nil
		}
		name, _, closed := strings.Cut(after, "}}")
		if closed && agent.ValidName(name) && name != goalName && !named(earlier, name) {
			return "message", fmt.Errorf("{{%s}} is no earlier step", name)
		}
		rest = after
	}
}

// goalName is the one placeholder that is no step.
const goalName = "goal"

func named(steps []IntelligentStep, name string) bool {
	for i := range steps {
		if steps[i].Name == name {
			return true
		}
	}
	return false
}

func isDuration(s string) bool {
	d, err := time.ParseDuration(s)
	return s == "" || (err == nil && d > 0)
}
