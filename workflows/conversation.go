package workflows

import (
	"time"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

const (
	defaultIdle = 24 * time.Hour
	// maxPending bounds the messages that a conversation holds beyond the one it is answering.
	maxPending = 100
	// conversationEvents is the number of events after which a conversation continues as new, unless an activity returned another one.
	conversationEvents = 2000

	// changeConversation names the changes of this workflow, by version: 1 checks the input strictly, 2 queues messages by a normal activity.
	changeConversation  = "conversation-strict"
	conversationStrict  = 1
	conversationOrdered = 2
)

// ConversationInput starts a thread of turns. An activity checks it, so the type is declared there.
type ConversationInput = activities.ConversationInput

// ConversationCarry is the part of a conversation that it continues as new with: references and counters.
type ConversationCarry struct {
	Turns   int            `json:"turns"`
	Pending []agent.TurnID `json:"pending,omitempty"` // queued turns whose workflow has not been started
	Last    *LastTurn      `json:"last,omitempty"`
	Closed  bool           `json:"closed,omitempty"`
	Limit   int            `json:"continue_as_new_events,omitempty"` // number of events after which it continues as new
}

// LastTurn says how the latest turn of a conversation ended.
type LastTurn struct {
	TurnID    agent.TurnID     `json:"turn_id"`
	Status    agent.TurnStatus `json:"status"`
	ResultRef string           `json:"result_ref"`
}

// ConversationResult is what a closed conversation returns.
type ConversationResult struct {
	SessionID agent.SessionID `json:"session_id"`
	Turns     int             `json:"turns"`
	Last      *LastTurn       `json:"last"`
}

// Conversation is a long-lived, addressable thread of turns: messages come by update or signal, each runs as a child [AgentTurn],
// tokens come back as signals so that the query "state" shows the answer growing, and pauses for a person are surfaced. It
// continues as new after a number of events, between two turns.
//
// The input, a [ConversationInput], is taken raw and checked strictly by an activity. carry is for continue-as-new alone.
func Conversation(ctx workflow.Context, input converter.RawValue, carry *ConversationCarry) (ConversationResult, error) {
	c := newConversation(ctx, carry)
	if err := c.begin(ctx, input, carry == nil); err != nil {
		c.refusal = err
		_ = workflow.Await(ctx, c.quiet(ctx)) // whoever sent a message along gets the reason
		return ConversationResult{}, err
	}
	for {
		switch {
		case c.due(ctx):
			return ConversationResult{}, c.continueAsNew(ctx)
		case len(c.Pending) > 0:
			next := c.Pending[0]
			c.Pending = c.Pending[1:]
			if err := c.run(ctx, next); err != nil {
				return ConversationResult{}, err
			}
		case c.Closed:
			_ = workflow.Await(ctx, c.quiet(ctx)) // only a cancel interrupts it, and then the conversation ends anyway
			if len(c.Pending) > 0 {
				continue
			}
			return ConversationResult{SessionID: c.in.SessionID, Turns: c.Turns, Last: c.Last}, nil
		default:
			if err := c.idle(ctx); err != nil {
				return ConversationResult{}, err
			}
		}
	}
}

// conversation is a conversation in the memory of its workflow.
type conversation struct {
	ConversationCarry

	in      ConversationInput
	timeout time.Duration
	ran     bool  // a turn, since this run began
	attrs   bool  // the search attributes are set
	refusal error // of the input

	child    childTurn // the child at work; without a turn if there is none
	handling int
	order    workflow.Mutex // messages enter the session's queue in the order in which their turns are started

	messages, decides, tokens, closes workflow.ReceiveChannel
}

func newConversation(ctx workflow.Context, carry *ConversationCarry) *conversation {
	c := &conversation{
		timeout: defaultIdle, order: workflow.NewMutex(ctx),
		messages: workflow.GetSignalChannel(ctx, UpdateMessage), decides: workflow.GetSignalChannel(ctx, UpdateDecide),
		tokens: workflow.GetSignalChannel(ctx, SignalTokens), closes: workflow.GetSignalChannel(ctx, SignalClose),
	}
	if carry != nil {
		c.ConversationCarry, c.attrs = *carry, true
	}
	if c.Limit == 0 {
		c.Limit = conversationEvents
	}
	return c
}

// begin registers the handlers and reads the input. The first task may bring an update, which would be refused without its handler; its message
// waits until the input is read.
func (c *conversation) begin(ctx workflow.Context, input converter.RawValue, first bool) error {
	if err := c.order.Lock(ctx); err != nil {
		return err
	}
	defer c.order.Unlock()
	if err := c.listen(ctx); err != nil {
		return err
	}
	strict := first && conversationVersion(ctx) >= conversationStrict
	if err := readInput(ctx, input, first, strict, acts.CheckConversation, &c.in); err != nil {
		return err
	}
	if d := duration(c.in.IdleTimeout); d > 0 {
		c.timeout = d
	}
	return nil
}

func conversationVersion(ctx workflow.Context) workflow.Version {
	return workflow.GetVersion(ctx, changeConversation, workflow.DefaultVersion, conversationOrdered)
}

func invalidInput(message string) error {
	return temporal.NewNonRetryableApplicationError(message, string(agent.CodeInvalid), nil)
}

// run runs one turn as a child and waits for its end. The conversation goes on if the child fails.
func (c *conversation) run(ctx workflow.Context, id agent.TurnID) error {
	c.child = childTurn{turn: id}
	defer func() { c.child = childTurn{partial: c.child.partial} }() // the query still shows the last answer
	child := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: id.WorkflowID(), StaticSummary: "turn of " + string(c.in.SessionID), WaitForCancellation: true,
	})
	request := agent.TurnRequest{
		TurnID: id, SessionID: c.in.SessionID, Context: agent.InvocationContext{Tenant: c.in.Context.Tenant},
		StreamTo: &agent.StreamTo{WorkflowID: workflow.GetInfo(ctx).WorkflowExecution.ID, Signal: SignalTokens},
	}
	var out agent.AgentStepOutput
	err := workflow.ExecuteChildWorkflow(child, AgentTurnType, request, nil).Get(ctx, &out)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.Turns, c.ran = c.Turns+1, true
	if err != nil {
		workflow.GetLogger(ctx).Warn("turn failed", "turn", id, "error", err)
		c.Last = &LastTurn{TurnID: id, Status: agent.TurnFailed}
		return nil
	}
	c.Last = &LastTurn{TurnID: id, Status: out.Status, ResultRef: out.ResultRef}
	return nil
}

// idle waits for a message, for the signal close, or for the idle timeout.
func (c *conversation) idle(ctx workflow.Context) error {
	ok, err := workflow.AwaitWithTimeout(ctx, c.timeout, func() bool { return len(c.Pending) > 0 || c.Closed || c.due(ctx) })
	if err == nil && !ok {
		c.Closed = true
	}
	return err
}

// due reports whether to continue as new. It is false before a turn has run, so that a bound that is too small does not loop.
func (c *conversation) due(ctx workflow.Context) bool {
	info := workflow.GetInfo(ctx)
	return c.ran && (info.GetCurrentHistoryLength() >= c.Limit || info.GetContinueAsNewSuggested())
}

// continueAsNew starts the next run once every signal is handled and every handler has finished. Messages that were queued by then are carried
// by reference.
func (c *conversation) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, c.quiet(ctx)); err != nil {
		return err
	}
	c.drainTokens()
	return workflow.NewContinueAsNewError(ctx, ConversationType, c.in, &c.ConversationCarry)
}

func (c *conversation) quiet(ctx workflow.Context) func() bool {
	return func() bool {
		return c.handling == 0 && c.messages.Len() == 0 && c.decides.Len() == 0 && c.closes.Len() == 0 && workflow.AllHandlersFinished(ctx)
	}
}

// drainTokens drops batches of turns that are over: their text is in the transcript.
func (c *conversation) drainTokens() {
	for c.tokens.ReceiveAsync(nil) {
		continue
	}
}

// queueMessage puts a message into the session's queue. The text goes to the store; the conversation keeps the turn's id. Messages are queued one at
// a time: two turns in the reverse order would wait for each other.
func (c *conversation) queueMessage(ctx workflow.Context, id agent.TurnID, m turns.Message) (MessageReceipt, error) {
	c.handling++
	defer func() { c.handling-- }()
	if err := c.order.Lock(ctx); err != nil {
		return MessageReceipt{}, err
	}
	defer c.order.Unlock()
	if c.refusal != nil {
		return MessageReceipt{}, c.refusal
	}
	if c.Closed {
		return MessageReceipt{}, temporal.NewNonRetryableApplicationError("the conversation is closed", string(agent.CodeConflict), nil)
	}
	if len(c.Pending) >= maxPending {
		return MessageReceipt{}, temporal.NewNonRetryableApplicationError("too many messages are waiting", string(agent.CodeRateLimited), nil)
	}
	in := turns.QueueMessageInput{TurnID: id, Agent: c.in.Agent, SessionID: c.in.SessionID, Context: c.in.Context, Message: m}
	out, err := queueInOrder(ctx, in)
	if err != nil {
		return MessageReceipt{}, err
	}
	if out.Refusal != nil {
		return MessageReceipt{}, refusalError(out.Refusal)
	}
	if out.SearchAttributes && !c.attrs {
		c.attrs = true
		index(ctx, attributeTenant.ValueSet(c.in.Context.TenantName()), attributeSession.ValueSet(string(c.in.SessionID)))
	}
	if out.ContinueAsNew > 0 {
		c.Limit = out.ContinueAsNew
	}
	c.Pending = append(c.Pending, id)
	return MessageReceipt{TurnID: id, Position: out.Position}, nil
}

// queueInOrder runs QueueMessage as a normal activity. A local one could queue a message in a workflow task that is then lost; the repeated task may
// take another message first, and the turns would wait for each other.
func queueInOrder(ctx workflow.Context, in turns.QueueMessageInput) (out turns.QueueMessageResult, err error) {
	if conversationVersion(ctx) < conversationOrdered {
		return out, runQuick(ctx, "message", acts.QueueMessage, &out, in)
	}
	err = workflow.ExecuteActivity(storeOptions(ctx, "message"), acts.QueueMessage, in).Get(ctx, &out)
	return out, err
}
