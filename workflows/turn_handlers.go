package workflows

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// maxHandlers bounds the handlers of one turn that may be at work at once.
const maxHandlers = 64

// messageNamespace is the namespace of the turn ids of messages, which are made of the update that brought them.
var messageNamespace = uuid.MustParse("0d7b3a7e-52c8-5a44-8a39-3f6a6f2f5f02") //nolint:gochecknoglobals // a constant in all but syntax

// errTurnOver refuses requests after the turn's end.
var errTurnOver = temporal.NewNonRetryableApplicationError("the turn is over", string(agent.CodeConflict), nil)

// listen registers the query, the updates and the signals of a turn.
func (t *agentTurn) listen(ctx workflow.Context) error {
	// Handlers outlive a cancel of the workflow, because they handle it.
	free, _ := workflow.NewDisconnectedContext(ctx)
	t.listenToSignals(ctx, free)
	const decide = "Answers an approval: {approval_id, decision: approve|edit|reject|respond, args?, message?, remember?, by}"
	const provide = "Gives the result of a client-side tool: {tool_call_id, result | error}"
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, QueryState, func() (TurnView, error) { return t.view(), nil },
			workflow.QueryHandlerOptions{Description: "Where the turn stands and what it waits for"}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateDecide, withInput(t.decide), strictUpdate(decide, validateDecision)),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateProvide, withInput(t.provide), strictUpdate(provide, validateProvided)),
		handleCancel(ctx, "Stops the turn; what it produced is stored: {reason?, by?}", t.cancel),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateMessage, withInput(t.message),
			strictUpdate("Sends a message to the turn's session: {message, on_busy?}", validateMessage)),
	)
}

// listenToSignals serves the signals of the same names, for tools that know no updates, and Temporal's own cancel.
func (t *agentTurn) listenToSignals(ctx, free workflow.Context) {
	serve(free, "decide", t.decides, func(ctx workflow.Context, d agent.Decision) {
		if _, err := t.decide(ctx, d); err != nil {
			workflow.GetLogger(ctx).Warn("decision refused", "approval", d.ApprovalID, "error", err)
		}
	})
	serve(free, "provide", t.provides, func(ctx workflow.Context, r agent.ProvidedResult) {
		if _, err := t.provide(ctx, r); err != nil {
			workflow.GetLogger(ctx).Warn("result refused", "call", r.ToolCallID, "error", err)
		}
	})
	serve(free, "cancel", t.cancels, func(ctx workflow.Context, c agent.CancelRequest) {
		_ = t.cancel(ctx, c) // an error means that the log cannot be reached; the turn is cancelled all the same
	})
	workflow.GoNamed(free, "cancelled", func(free workflow.Context) {
		if ctx.Done().Receive(free, nil); ctx.Err() != nil {
			_ = t.cancel(free, agent.CancelRequest{Reason: "the workflow was cancelled"}) // as above
		}
	})
}

// validateDecision refuses an invalid decision before it is in history.
func validateDecision(d agent.Decision) error {
	if err := d.Check(); err != nil {
		return refusalError(agent.FailureOf(err))
	}
	return nil
}

// validateProvided refuses an invalid result before it is in history.
func validateProvided(r agent.ProvidedResult) error {
	if err := r.Check(); err != nil {
		return refusalError(agent.FailureOf(err))
	}
	return nil
}

// validateMessage refuses an empty message before it is in history. QueueMessage judges the rest.
func validateMessage(m turns.Message) error {
	if strings.TrimSpace(m.Message) == "" {
		return refusalError(agent.FailureOf(agent.Invalid("message", "is empty")))
	}
	return nil
}

// decide judges a decision in an activity and gives the verdict to the core.
func (t *agentTurn) decide(ctx workflow.Context, d agent.Decision) (agent.DecisionVerdict, error) {
	return t.judge(ctx, "decide", acts.Decide, func() any { return turns.DecideInput{TurnID: t.Turn.TurnID, Decision: d} })
}

// provide stores the result of a client-side call in an activity and gives the verdict to the core.
func (t *agentTurn) provide(ctx workflow.Context, r agent.ProvidedResult) (agent.DecisionVerdict, error) {
	return t.judge(ctx, "provide", acts.Provide, func() any { return turns.ProvideInput{TurnID: t.Turn.TurnID, Provided: r} })
}

// checkRoom refuses a request after the turn's end, and one more than may be at work at once.
func (t *agentTurn) checkRoom() error {
	switch {
	case t.finished:
		return errTurnOver
	case t.handling >= maxHandlers:
		return temporal.NewNonRetryableApplicationError(fmt.Sprintf("%d updates of the turn are at work already, which is the limit: try again", maxHandlers),
			string(agent.CodeRateLimited), nil)
	}
	return nil
}

// judge runs the activity that judges an update, once the turn holds its session. input is called then, because the turn has its id only then.
func (t *agentTurn) judge(ctx workflow.Context, summary string, activity any, input func() any) (agent.DecisionVerdict, error) {
	if err := t.checkRoom(); err != nil {
		return agent.DecisionVerdict{}, err
	}
	t.handling++
	defer func() { t.handling-- }()
	if err := workflow.Await(ctx, func() bool { return t.ready || t.finished }); err != nil {
		return agent.DecisionVerdict{}, err
	}
	var out turns.DecideResult
	if err := runQuick(ctx, summary, activity, &out, input()); err != nil {
		return agent.DecisionVerdict{}, err
	}
	if out.Stands != nil {
		t.verdicts = append(t.verdicts, *out.Stands)
	}
	if out.Verdict == nil {
		return agent.DecisionVerdict{}, refusalError(out.Refusal)
	}
	if !out.Elsewhere {
		t.verdicts = append(t.verdicts, *out.Verdict)
	}
	return *out.Verdict, nil
}

// cancel marks the turn's stream, which aborts its model call within a second, and wakes the turn if it waits.
func (t *agentTurn) cancel(ctx workflow.Context, c agent.CancelRequest) error {
	if t.finished {
		return errTurnOver
	}
	t.cancelled = true
	t.wakeup.SendAsync(true)
	if t.Turn.TurnID == "" {
		return nil // begin sees that the turn was cancelled
	}
	t.handling++
	defer func() { t.handling-- }()
	return runQuick(ctx, "cancel", acts.CancelTurn, nil, turns.CancelTurnInput{TurnID: t.Turn.TurnID, Cancel: c})
}

// MessageReceipt answers the update "message".
type MessageReceipt struct {
	TurnID   agent.TurnID `json:"turn_id"`
	Position int          `json:"position"`
}

// message queues a message for the turn's session, as Submit would, and starts its turn.
func (t *agentTurn) message(ctx workflow.Context, m turns.Message) (MessageReceipt, error) {
	if err := t.checkRoom(); err != nil {
		return MessageReceipt{}, err
	}
	t.handling++
	defer func() { t.handling-- }()
	if err := workflow.Await(ctx, func() bool { return t.ready || t.finished }); err != nil {
		return MessageReceipt{}, err
	}
	in := turns.QueueMessageInput{
		TurnID: messageTurn(ctx, t.Turn.TurnID), Agent: t.Turn.Agent, SessionID: t.Turn.SessionID,
		Context: agent.InvocationContext{Tenant: t.Turn.Tenant}, Message: m, Start: true,
	}
	var out turns.QueueMessageResult
	if err := workflow.ExecuteActivity(storeOptions(ctx, "message"), acts.QueueMessage, in).Get(ctx, &out); err != nil {
		return MessageReceipt{}, err
	}
	if out.Refusal != nil {
		return MessageReceipt{}, refusalError(out.Refusal)
	}
	return MessageReceipt{TurnID: out.TurnID, Position: out.Position}, nil
}

// messageTurn returns the turn id for the message of the current update. A retried update has the same one.
func messageTurn(ctx workflow.Context, parent agent.TurnID) agent.TurnID {
	return agent.TurnID(uuid.NewSHA1(messageNamespace, []byte(string(parent)+"\x00"+workflow.GetCurrentUpdateInfo(ctx).ID)).String())
}

func refusalError(f *agent.Failure) error {
	return temporal.NewNonRetryableApplicationError(f.Message, f.Type, nil, f)
}
