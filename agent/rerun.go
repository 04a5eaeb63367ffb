package agent

import "encoding/json"

// Fork asks for a session that begins with a copy of another session's transcript.
type Fork struct {
	From      SessionID
	TurnID    TurnID    // the last turn that is copied; empty: all are
	SessionID SessionID // the new session
}

// SessionForked is a session that begins with a copy of another one's transcript.
type SessionForked struct {
	SessionID  SessionID `json:"session_id"`
	ForkedFrom SessionID `json:"forked_from"`
	TurnID     TurnID    `json:"turn_id,omitempty"` // the last turn that was copied; empty if the session had none
	Turns      int       `json:"turns"`             // copied
	Messages   int       `json:"messages"`          // copied
}

// Rerun says which turn a request runs again. The new turn runs in a branch of that turn's session.
type Rerun struct {
	Of       TurnID
	FromStep int    // what came before this step is taken over; 0: nothing is
	Prompt   string // the system prompt instead of the agent's; empty: the agent's

	Input    []Message // of the turn Of, and what is taken over of its steps: the model's replies and the results of its calls
	Prepared *Prepared // that is taken over; nil: none is
}

// RerunRequest is the body of POST /v1/turns/{id}/rerun: the changes to the original request. A member that is left out keeps the original's
// value.
type RerunRequest struct {
	FromStep       int                `json:"from_step,omitempty"` // repeat nothing before this step of the turn; 0: begin anew
	Agent          string             `json:"agent,omitempty"`
	Model          string             `json:"model,omitempty"`
	Prompt         string             `json:"prompt,omitempty"`     // the system prompt instead of the agent's, for this turn alone
	Draft          string             `json:"draft,omitempty"`      // as in [TurnBody]
	SessionID      SessionID          `json:"session_id,omitempty"` // of the branch; empty: named after the new turn
	TurnID         TurnID             `json:"turn_id,omitempty"`
	IdempotencyKey string             `json:"idempotency_key,omitempty"`
	Mode           Mode               `json:"mode,omitempty"`
	History        History            `json:"history,omitempty"`
	Context        *InvocationContext `json:"context,omitempty"`
	Limits         *Limits            `json:"limits,omitempty"`
	OutputSchema   json.RawMessage    `json:"output_schema,omitempty"`
	ClientTools    []ClientTool       `json:"client_tools,omitempty"`
}

// TurnRequest returns the request without what the turn that runs again has.
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
