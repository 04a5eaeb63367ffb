package activities

import (
	"context"

	"go.temporal.io/sdk/converter"

	"github.com/turnstone-run/turnstone/agent"
)

// ConversationInput starts a Conversation.
type ConversationInput struct {
	SessionID   agent.SessionID         `json:"session_id"`
	Context     agent.InvocationContext `json:"context,omitzero"`
	Agent       string                  `json:"agent,omitempty"`
	IdleTimeout string                  `json:"idle_timeout,omitempty"` // a Go duration; the conversation closes after so long without a message; default 24h
}

// CheckConversation checks the raw input of a Conversation strictly.
func (*Activities) CheckConversation(_ context.Context, raw converter.RawValue) (CheckInputResult, error) {
	return checkInput(raw, new(strictConversation), `a conversation such as {"session_id":"trip-1"}`)
}

// strictConversation is a ConversationInput with a check that conversations of older workers did not have.
type strictConversation ConversationInput

// Check names the field at fault.
func (in *strictConversation) Check() error {
	const want = "want 1 to 128 of A-Z a-z 0-9 . _ -, got %.128q"
	switch {
	case in.Agent != "" && !agent.ValidName(in.Agent):
		return agent.Invalid("agent", want, in.Agent)
	case in.Context.Tenant != "" && !agent.ValidName(in.Context.Tenant):
		return agent.Invalid("context.tenant", want, in.Context.Tenant)
	}
	return (*ConversationInput)(in).Check()
}

// Check names the field at fault. Workflows call it too: it must replay.
func (in *ConversationInput) Check() error {
	if !in.SessionID.Valid() {
		return agent.Invalid("session_id", "want 1 to 128 of A-Z a-z 0-9 . _ -")
	}
	if !isDuration(in.IdleTimeout) {
		return agent.Invalid("idle_timeout", "want a duration such as 30m, got %.128q", in.IdleTimeout)
	}
	return nil
}
