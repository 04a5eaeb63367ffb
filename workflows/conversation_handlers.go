package workflows

import (
	"errors"
	"fmt"

	"github.com/google/uuid"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// ConversationView answers a conversation's query "state".
type ConversationView struct {
	SessionID agent.SessionID         `json:"session_id"`
	Status    string                  `json:"status"` // idle, running, waiting, closed
	Turns     int                     `json:"turns"`
	TurnID    agent.TurnID            `json:"turn_id,omitempty"` // of the turn at work
	Partial   string                  `json:"partial_text"`      // its answer so far
	Waiting   []agent.PendingApproval `json:"pending"`           // what it waits for
	Queued    []agent.TurnID          `json:"queued"`
	Last      *LastTurn               `json:"last"`
}

func (c *conversation) view() ConversationView {
	v := ConversationView{
		SessionID: c.in.SessionID, Status: "idle", Turns: c.Turns, TurnID: c.child.turn, Partial: c.child.partial,
		Waiting: c.child.pending(), Queued: c.Pending, Last: c.Last,
	}
	switch {
	case len(v.Waiting) > 0:
		v.Status = "waiting"
	case c.child.turn != "":
		v.Status = "running"
	case c.Closed:
		v.Status = "closed"
	}
	if v.Queued == nil {
		v.Queued = []agent.TurnID{}
	}
	return v
}

func (c *conversation) listen(ctx workflow.Context) error {
	c.listenToSignals(ctx)
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, QueryState, func() (ConversationView, error) { return c.view(), nil },
			workflow.QueryHandlerOptions{Description: "The thread's state and the answer so far"}),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateMessage,
			withInput(func(ctx workflow.Context, m turns.Message) (MessageReceipt, error) {
				return c.queueMessage(ctx, messageTurn(ctx, agent.TurnID(workflow.GetInfo(ctx).FirstRunID)), m)
			}), strictUpdate("Says something: {message, on_busy?}", validateMessage)),
		workflow.SetUpdateHandlerWithOptions(ctx, UpdateDecide, withInputOnly(c.decide),
			strictUpdate("Answers an approval of the turn at work", c.checkDecision)),
	)
}

// listenToSignals serves the signals. The id of a message's turn is made of the original run and of the message's number in it, so that it is the
// same after a replay and after a reset.
func (c *conversation) listenToSignals(ctx workflow.Context) {
	n := 0
	serve(ctx, "messages", c.messages, func(ctx workflow.Context, m turns.Message) {
		n++
		name := fmt.Sprintf("%s\x00%d", workflow.GetInfo(ctx).OriginalRunID, n)
		id := agent.TurnID(uuid.NewSHA1(messageNamespace, []byte(name)).String())
		if _, err := c.queueMessage(ctx, id, m); err != nil {
			workflow.GetLogger(ctx).Warn("message refused", "error", err)
		}
	})
	serve(ctx, "decisions", c.decides, func(ctx workflow.Context, d agent.Decision) {
		if err := c.decide(ctx, d); err != nil {
			workflow.GetLogger(ctx).Warn("decision refused", "approval", d.ApprovalID, "error", err)
		}
	})
	serve(ctx, "tokens", c.tokens, func(_ workflow.Context, b agent.TokenBatch) { c.child.receive(b) })
	serve(ctx, "close", c.closes, func(workflow.Context, converter.RawValue) { c.Closed = true })
}

// checkDecision refuses a decision that the turn at work does not wait for, before it is in history.
func (c *conversation) checkDecision(d agent.Decision) error {
	if err := validateDecision(d); err != nil || c.child.mayAwait(d.ApprovalID) {
		return err
	}
	if c.child.turn == "" {
		return errNoTurn
	}
	return conflict(fmt.Sprintf("the turn at work does not wait for the approval %.64q", d.ApprovalID))
}

// errNoTurn refuses decisions while no turn runs.
var errNoTurn = conflict("no turn is at work")

// decide passes a decision on to the turn at work, which judges it.
func (c *conversation) decide(ctx workflow.Context, d agent.Decision) error {
	c.handling++
	defer func() { c.handling-- }()
	if c.child.turn == "" {
		return errNoTurn
	}
	return c.child.passOn(ctx, d)
}
