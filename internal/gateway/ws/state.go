package ws

import (
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// turnState is what GET /v1/turns/{id} says of a turn that has not ended.
type turnState struct {
	TurnID         agent.TurnID     `json:"turn_id"`
	SessionID      agent.SessionID  `json:"session_id"`
	StreamID       string           `json:"stream_id"`
	Agent          string           `json:"agent,omitempty"`
	Mode           agent.Mode       `json:"mode,omitempty"`
	State          string           `json:"state,omitempty"`
	Status         string           `json:"status,omitempty"`
	StartedAt      *time.Time       `json:"started_at,omitempty"`
	LastEventIndex int64            `json:"last_event_index,omitempty"`
	Pending        []agent.Approval `json:"pending,omitempty"`
}

// turnResult is what it says of one that has.
type turnResult struct {
	agent.AgentStepOutput

	State string     `json:"state"`
	Mode  agent.Mode `json:"mode,omitempty"`
}

// stateOf says of a turn what GET /v1/turns/{id} does.
func stateOf(v *gateway.TurnView) any {
	if v.Output != nil {
		out := *v.Output
		if out.Blocks == nil {
			out.Blocks = []agent.Block{}
		}
		if out.ToolCalls == nil {
			out.ToolCalls = []agent.ToolCallNote{}
		}
		return turnResult{AgentStepOutput: out, State: v.State, Mode: v.Mode}
	}
	s := turnState{
		TurnID: v.TurnID, SessionID: v.SessionID, StreamID: v.StreamID, Agent: v.Agent, Mode: v.Mode, State: v.State, Status: v.State,
		LastEventIndex: v.Tail.LastIndex, Pending: v.Pending,
	}
	if !v.StartedAt.IsZero() {
		s.StartedAt = &v.StartedAt
	}
	return s
}
