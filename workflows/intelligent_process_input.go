package workflows

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxProcessSteps = 100
	// maxProcessBytes bounds the words of a process's input: history holds them once for each run.
	maxProcessBytes = 256 << 10
)

// How an intelligent process, and each of its steps, ends.
const (
	IntelligentCompleted = string(agent.TurnCompleted)
	IntelligentFailed    = string(agent.TurnFailed)
	IntelligentCancelled = string(agent.TurnCancelled)
	IntelligentRejected  = "rejected" // by the person who was asked
)

// IntelligentProcessInput starts an [IntelligentProcess]. {{goal}} in a step's message stands for the goal, {{name}} for the answer of the
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

// IntelligentStep is one step of an [IntelligentProcess].
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

// IntelligentProcessCarry is what the process takes along when it continues as new.
type IntelligentProcessCarry struct {
	Done   []StepResult `json:"done"`
	Quotes []Quote      `json:"quotes,omitempty"`
}

// Quote is the answer of a step that a later one repeats.
type Quote struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// check names the field at fault.
func (in *IntelligentProcessInput) check() error {
	switch {
	case len(in.Steps) == 0:
		return invalidInput("steps: are none")
	case len(in.Steps) > maxProcessSteps:
		return invalidInput(fmt.Sprintf("steps: are %d, at most %d", len(in.Steps), maxProcessSteps))
	case in.SessionID != "" && !in.SessionID.Valid():
		return invalidInput("session_id: want 1 to 128 of A-Z a-z 0-9 . _ -")
	case in.Attempts < 0 || in.Attempts > maxAttempts:
		return invalidInput(fmt.Sprintf("attempts: is %d, want 0 to %d", in.Attempts, maxAttempts))
	case in.ContinueAsNewEvents < 0:
		return invalidInput("continue_as_new_events: is negative")
	}
	size := len(in.Goal)
	for i := range in.Steps {
		s := &in.Steps[i]
		if err := s.check(in.Steps[:i]); err != nil {
			return invalidInput(fmt.Sprintf("steps[%d].%s", i, err))
		}
		size += len(s.Message) + len(s.Question)
	}
	if size > maxProcessBytes {
		return invalidInput(fmt.Sprintf("steps: goal, messages and questions are %d bytes, at most %d", size, maxProcessBytes))
	}
	return nil
}

func (s *IntelligentStep) check(earlier []IntelligentStep) error {
	switch {
	case !agent.ValidName(s.Name) || s.Name == goalName:
		return fmt.Errorf(`name: want 1 to 128 of A-Z a-z 0-9 . _ -, and not "goal": got %.128q`, s.Name)
	case named(earlier, s.Name):
		return fmt.Errorf("name: %s is an earlier step's", s.Name)
	case strings.TrimSpace(s.Message) == "":
		return errors.New("message: is empty")
	case s.Attempts < 0 || s.Attempts > maxAttempts:
		return fmt.Errorf("attempts: is %d, want 0 to %d", s.Attempts, maxAttempts)
	case len(s.Question) > maxPrompt:
		return fmt.Errorf("question: is %d bytes, at most %d", len(s.Question), maxPrompt)
	case s.OnTimeout != "" && s.OnTimeout != ChoiceApprove && s.OnTimeout != ChoiceReject:
		return fmt.Errorf("on_timeout: want approve or reject, got %.128q", s.OnTimeout)
	case !isDuration(s.Timeout):
		return fmt.Errorf("timeout: want a duration such as 10m, got %.128q", s.Timeout)
	case !isDuration(s.AnswerTimeout):
		return fmt.Errorf("answer_timeout: want a duration such as 72h, got %.128q", s.AnswerTimeout)
	}
	for rest := s.Message; ; {
		_, after, found := strings.Cut(rest, "{{")
		if !found {
			return nil
		}
		name, _, closed := strings.Cut(after, "}}")
		if closed && agent.ValidName(name) && name != goalName && !named(earlier, name) {
			return fmt.Errorf("message: {{%s}} is no earlier step", name)
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

// duration reads what has been checked.
func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return d
}

// step is the turn of a step.
func (in *IntelligentProcessInput) step(s *IntelligentStep, message string) Step {
	name, attempts := in.Agent, in.Attempts
	if s.Agent != "" {
		name = s.Agent
	}
	if s.Attempts > 0 {
		attempts = s.Attempts
	}
	return Step{
		Name: s.Name, Stream: true, Timeout: duration(s.Timeout), Retry: Retry{Attempts: attempts},
		Request: agent.TurnRequest{
			Agent: name, SessionID: in.SessionID, Message: message, Context: in.Context, Model: in.Model, Limits: in.Limits,
		},
	}
}
