package gateway

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// turnState is the JSON of a turn that has not ended, and the body of responses with status 202. Status repeats State, so that clients can poll the
// field that the output of an ended turn also has.
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
	Position       *int             `json:"position,omitempty"` // of a message: 0 runs at once, 1 is next in line
	Pending        []agent.Approval `json:"pending,omitempty"`
	turnOrigin
}

// turnOrigin has the members of reruns and of turns of drafts. It is empty for other turns.
type turnOrigin struct {
	RerunOf  agent.TurnID `json:"rerun_of,omitempty"`
	FromStep int          `json:"from_step,omitempty"`
	Draft    bool         `json:"draft,omitempty"`
}

// turnResult is the JSON of a turn that has ended: its output with further members.
type turnResult struct {
	agent.AgentStepOutput

	State    string         `json:"state"`
	Mode     agent.Mode     `json:"mode,omitempty"`
	Fallback agent.Fallback `json:"fallback,omitempty"`
	turnOrigin
}

// turnAnswer is the response to a request that waited for its turn.
type turnAnswer struct {
	*agent.AgentStepOutput
	turnOrigin
}

// outputBody returns a copy of an output whose lists are not nil.
func outputBody(o *agent.AgentStepOutput) *agent.AgentStepOutput {
	c := *o
	c.Blocks, c.ToolCalls = orEmpty(c.Blocks), orEmpty(c.ToolCalls)
	return &c
}

func stateOf(r agent.Receipt, state string) turnState {
	return turnState{TurnID: r.TurnID, SessionID: r.SessionID, StreamID: r.StreamID, State: state, Status: state}
}

// acceptedState returns the state of a turn that the caller does not wait for. A turn whose start is unconfirmed is queued.
func acceptedState(r agent.Receipt, state string) turnState {
	if r.StartUnknown {
		state = agent.StateQueued
	}
	return stateOf(r, state)
}

// Body returns the JSON body of GET /v1/turns/{id}: the output of a turn that has ended, the state of any other.
func (v *TurnView) Body() any {
	if v.Output != nil {
		return turnResult{
			AgentStepOutput: *outputBody(v.Output), State: v.State, Mode: v.Mode, Fallback: v.Fallback, turnOrigin: turnOrigin{v.RerunOf, v.FromStep, v.Draft},
		}
	}
	body := turnState{
		TurnID: v.TurnID, SessionID: v.SessionID, StreamID: v.StreamID, Agent: v.Agent, Mode: v.Mode, Fallback: v.Fallback, State: v.State,
		Status: v.State, LastEventIndex: v.Tail.LastIndex, Pending: v.Pending, turnOrigin: turnOrigin{v.RerunOf, v.FromStep, v.Draft},
	}
	if !v.StartedAt.IsZero() {
		body.StartedAt = &v.StartedAt
	}
	return body
}
