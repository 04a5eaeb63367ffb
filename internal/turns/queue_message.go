package turns

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
)

// QueueMessage adds a message to its session's queue as a new turn, so that the workflow that has received the message only needs to keep the turn's id.
// It is idempotent on that id.
func (ts *Turns) QueueMessage(ctx context.Context, in QueueMessageInput) (QueueMessageResult, error) {
	out := QueueMessageResult{TurnID: in.TurnID, ContinueAsNew: ts.ConversationEvents, SearchAttributes: ts.SearchAttributes()}
	if in.SessionID == "" { // the turn that received the message was refused
		out.Refusal = agent.FailureOf(agent.Errorf(agent.CodeConflict, "", "the turn was refused, so that the message has no session"))
		return out, nil
	}
	req := agent.TurnRequest{
		TurnID: in.TurnID, Agent: in.Agent, SessionID: in.SessionID, Context: in.Context, Message: in.Message.Message,
		OnBusy: in.Message.OnBusy, Channel: "workflow",
	}
	begun, err := ts.Begin(ctx, req, BeginTurnInput{WorkflowID: in.TurnID.WorkflowID()})
	if err != nil {
		if agent.CodeOf(err).Retryable() && agent.CodeOf(err) != agent.CodeRateLimited {
			return out, err
		}
		out.Refusal = agent.FailureOf(err)
		return out, nil
	}
	out.Position = begun.Position
	if in.Start {
		return out, ts.Runs.Start(ctx, begun.Turn)
	}
	return out, nil
}
