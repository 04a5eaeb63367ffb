package gateway

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// turnState is a turn that has not ended as JSON, and the body of a 202. Status repeats State so that a client may poll one
// field, whether or not the turn has ended.
type turnState struct {
	TurnID         agent.TurnID     `json:"turn_id"`
	SessionID      agent.SessionID  `json:"session_id"`
	StreamID       string           `json:"stream_id"`
	Agent          string           `json:"agent,omitempty"`
	Mode           agent.Mode       `json:"mode,omitempty"`
	Fallback       agent.Fallback   `json:"fallback,omitempty"`
	State          string           `json:"state,omitempty"`
	Status         string           `json:"status,omitempty"`
	StartedAt      *time.Time       `json:"started_at,omitempty"`
	LastEventIndex int64            `json:"last_event_index,omitempty"`
	Position       *int             `json:"position,omitempty"` // messages: 0 runs at once, 1 is next in line
	Pending        []agent.Approval `json:"pending,omitempty"`
	turnOrigin
}

// turnOrigin says in the JSON of a turn which turn it reruns, and whether it tries a draft; empty for a turn that does neither.
type turnOrigin struct {
	RerunOf  agent.TurnID `json:"rerun_of,omitempty"`
	FromStep int          `json:"from_step,omitempty"`
	Draft    bool         `json:"draft,omitempty"`
}

// turnResult is the JSON of a turn that has ended: its output with the members below.
type turnResult struct {
	agent.AgentStepOutput

	State    string         `json:"state"`
	Mode     agent.Mode     `json:"mode,omitempty"`
	Fallback agent.Fallback `json:"fallback,omitempty"`
	turnOrigin
}

// turnAnswer is the output of a turn that was waited for as JSON.
type turnAnswer struct {
	*agent.AgentStepOutput
	turnOrigin
}

// outputBody returns a copy of an output in which every list is present, as [agent.AgentStepOutput] promises.
func outputBody(o *agent.AgentStepOutput) *agent.AgentStepOutput {
	c := *o
	c.Blocks, c.ToolCalls = orEmpty(c.Blocks), orEmpty(c.ToolCalls)
	return &c
}

func stateOf(r agent.Receipt, state string) turnState {
	return turnState{TurnID: r.TurnID, SessionID: r.SessionID, StreamID: r.StreamID, State: state, Status: state}
}

// acceptedState returns the state of a turn that the caller does not wait for. A turn whose start is not confirmed is queued.
func acceptedState(r agent.Receipt, state string) turnState {
	if r.StartUnknown {
		state = agent.StateQueued
	}
	return stateOf(r, state)
}

// Body is the turn as JSON, as GET /v1/turns/{id} answers: its output once it has ended, its state before.
func (v *TurnView) Body() any {
	if v.Output != nil {
		return turnResult{
			AgentStepOutput: *outputBody(v.Output), State: v.State, Mode: v.Mode, Fallback: v.Fallback, turnOrigin: turnOrigin{v.RerunOf, v.FromStep, v.Draft},
		}
	}
	body := turnState{
		TurnID: v.TurnID, SessionID: v.SessionID, StreamID: v.StreamID, Agent: v.Agent, Mode: v.Mode, Fallback: v.Fallback, State: v.State,
		Status:         v.State,
		LastEventIndex: v.Tail.LastIndex, Pending: v.Pending, turnOrigin: turnOrigin{v.RerunOf, v.FromStep, v.Draft},
	}
	if !v.StartedAt.IsZero() {
		body.StartedAt = &v.StartedAt
	}
	return body
}
