package agent

import "encoding/json"

// Fork is a request for a session that begins with a copy of another session's transcript.
type Fork struct {
	From      SessionID
	TurnID    TurnID    // the last turn to copy; empty: all turns
	SessionID SessionID // the new session
}

// SessionForked is the result of a [Fork].
type SessionForked struct {
	SessionID  SessionID `json:"session_id"`
	ForkedFrom SessionID `json:"forked_from"`
	TurnID     TurnID    `json:"turn_id,omitempty"` // the last copied turn; empty if there was none
	Turns      int       `json:"turns"`             // number of copied turns
	Messages   int       `json:"messages"`          // number of copied messages
}

// Rerun identifies the turn that a request reruns. The new turn runs in a branch of that turn's session.
type Rerun struct {
	Of       TurnID
	FromStep int    // earlier steps are reused; 0: none
	Prompt   string // replaces the agent's system prompt; may be empty

	Input    []Message // the input of the turn Of, and the replies and tool results of the reused steps
	Prepared *Prepared // the reused preparation; may be nil
}

// RerunRequest is the body of POST /v1/turns/{id}/rerun: changes to the original request. Members that are left out keep their original value.
type RerunRequest struct {
	FromStep       int                `json:"from_step,omitempty"` // reuse the steps before this step; 0: none
	Agent          string             `json:"agent,omitempty"`
	Model          string             `json:"model,omitempty"`
	Prompt         string             `json:"prompt,omitempty"`     // replaces the agent's system prompt for this turn
	Draft          string             `json:"draft,omitempty"`      // as in [TurnBody]
	SessionID      SessionID          `json:"session_id,omitempty"` // of the branch; empty: the ID of the new turn
	TurnID         TurnID             `json:"turn_id,omitempty"`
	IdempotencyKey string             `json:"idempotency_key,omitempty"`
	Mode           Mode               `json:"mode,omitempty"`
	History        History            `json:"history,omitempty"`
	Context        *InvocationContext `json:"context,omitempty"`
	Limits         *Limits            `json:"limits,omitempty"`
	OutputSchema   json.RawMessage    `json:"output_schema,omitempty"`
	ClientTools    []ClientTool       `json:"client_tools,omitempty"`
}

// TurnRequest returns the request. The values of the original turn are still missing.
func (r *RerunRequest) TurnRequest() TurnRequest {
	t := TurnRequest{
		TurnID: r.TurnID, Agent: r.Agent, SessionID: r.SessionID, History: r.History, Mode: r.Mode, Model: r.Model, Limits: r.Limits,
		IdempotencyKey: r.IdempotencyKey, OutputSchema: r.OutputSchema, ClientTools: r.ClientTools,
		Rerun: &Rerun{FromStep: r.FromStep, Prompt: r.Prompt}, Draft: newDraft(r.Draft),
	}
	if r.Context != nil {
		t.Context = *r.Context
	}
	return t
}
