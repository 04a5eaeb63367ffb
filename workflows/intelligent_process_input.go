package workflows

import (
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
)

// How an intelligent process, and each of its steps, ends.
const (
	IntelligentCompleted = string(agent.TurnCompleted)
	IntelligentFailed    = string(agent.TurnFailed)
	IntelligentCancelled = string(agent.TurnCancelled)
	IntelligentRejected  = "rejected" // by the person who was asked
)

// IntelligentProcessInput starts an [IntelligentProcess]. An activity checks it, so the type is declared there.
type IntelligentProcessInput = activities.IntelligentProcessInput

// IntelligentStep is one step of an [IntelligentProcess].
type IntelligentStep = activities.IntelligentStep

// IntelligentProcessCarry is the state with which the process continues as new.
type IntelligentProcessCarry struct {
	Done   []StepResult `json:"done"`
	Quotes []Quote      `json:"quotes,omitempty"`
}

// Quote is the answer of a step that a later one repeats.
type Quote struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

const (
	// changeStrict is the change since which the input of an intelligent process is checked strictly, and an edit needs a message.
	changeStrict = "intelligent-strict"
	// strictSince is the version of changes that check an input strictly.
	strictSince = 1
)

// readInput reads the raw input of a workflow into in. A first run checks it: an activity does so strictly. What an older worker began has no such
// activity, and only in's own check.
func readInput(ctx workflow.Context, raw converter.RawValue, first, strict bool, activity any, in interface{ Check() error }) error {
	if first && strict {
		var out activities.CheckInputResult
		if err := runQuick(ctx, "check the input", activity, &out, raw); err != nil {
			return err
		}
		if out.Refusal != nil {
			return refusalError(out.Refusal)
		}
	}
	if err := converter.GetDefaultDataConverter().FromPayload(raw.Payload(), in); err != nil {
		return invalidInput("the input cannot be read: " + err.Error())
	}
	if first && !strict {
		if err := in.Check(); err != nil {
			return refusalError(agent.FailureOf(err))
		}
	}
	return nil
}

// duration parses a duration that was checked before.
func duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0
	}
	return d
}

// stepOf returns the step that runs the turn of an IntelligentStep.
func stepOf(in *IntelligentProcessInput, s *IntelligentStep, message string) Step {
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
