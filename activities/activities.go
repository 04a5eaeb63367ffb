package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/turns"
)

// Activities are the activities of the workflows AgentTurn, Conversation and IntelligentProcess.
type Activities struct{ turns *turns.Turns }

// New returns the activities over the use cases of turns.
func New(t *turns.Turns) *Activities { return &Activities{turns: t} }

// Registration is an activity under the name that histories hold.
type Registration struct {
	Name string
	Func any
}

// Registered lists the activities under the names that histories hold.
func (a *Activities) Registered() []Registration {
	return []Registration{
		{"BeginTurn", a.BeginTurn},
		{"RouteTurn", a.RouteTurn},
		{"LoadPlan", a.LoadPlan},
		{"CallModel", a.CallModel},
		{"CallTool", a.CallTool},
		{"RequestApproval", a.RequestApproval},
		{"Decide", a.Decide},
		{"Provide", a.Provide},
		{"CancelTurn", a.CancelTurn},
		{"StoreTurn", a.StoreTurn},
		{"QueueMessage", a.QueueMessage},
		{"Retrieve", a.Retrieve},
		{"ExpireApprovals", a.ExpireApprovals},
		{"LookForDecisions", a.LookForDecisions},
		{"BeginChild", a.BeginChild},
		{"StoreChild", a.StoreChild},
		{"CheckProcess", a.CheckProcess},
		{"CheckConversation", a.CheckConversation},
	}
}

// short calls a use case.
func short[In, Out any](ctx context.Context, do func(context.Context, In) (Out, error), in In) (Out, error) {
	out, err := do(withTurnAttempt(ctx), in)
	return out, TemporalError(err)
}

// long calls a use case that may take minutes: the activity heartbeats.
func long[In, Out any](ctx context.Context, do func(context.Context, In) (Out, error), in In) (Out, error) {
	defer Heartbeat(ctx)()
	return short(ctx, do, in)
}

// withTurnAttempt returns a context that tells the use case and its observers which attempt this is.
func withTurnAttempt(ctx context.Context) context.Context {
	if !activity.IsActivity(ctx) {
		return ctx
	}
	return turns.WithAttempt(ctx, int(activity.GetInfo(ctx).Attempt))
}

// BeginTurn records a turn from the raw input of its workflow; see [turns.Turns.BeginTurn].
func (a *Activities) BeginTurn(ctx context.Context, raw converter.RawValue, in turns.BeginTurnInput) (turns.BeginTurnResult, error) {
	out, err := a.turns.BeginTurn(withTurnAttempt(ctx), raw.Payload().GetData(), in)
	return out, TemporalError(err)
}

// CancelTurn marks the streams of a turn and of its child turns, which ends their model calls within a second.
func (a *Activities) CancelTurn(ctx context.Context, in turns.CancelTurnInput) error {
	return TemporalError(a.turns.MarkCancelled(ctx, in.TurnID))
}

// RouteTurn returns the route that the turn was recorded with; see [turns.Turns.RouteTurn].
func (a *Activities) RouteTurn(ctx context.Context, in turns.TurnInput) (turns.RouteTurnResult, error) {
	return short(ctx, a.turns.RouteTurn, in)
}

// LoadPlan builds the plan that the turn was recorded with; see [turns.Turns.LoadPlan].
func (a *Activities) LoadPlan(ctx context.Context, in turns.TurnInput) (turns.LoadPlanResult, error) {
	return short(ctx, a.turns.LoadPlan, in)
}

// CallModel makes the model call of a step; see [turns.Turns.CallModel].
func (a *Activities) CallModel(ctx context.Context, in turns.CallModelInput) (agent.ModelVerdict, error) {
	return long(ctx, a.turns.CallModel, in)
}

// CallTool runs a tool call of a step; see [turns.Turns.CallTool].
func (a *Activities) CallTool(ctx context.Context, in turns.CallToolInput) (agent.ToolVerdict, error) {
	return long(ctx, a.turns.CallTool, in)
}

// Retrieve prepares a turn before its first model call; see [turns.Turns.Retrieve].
func (a *Activities) Retrieve(ctx context.Context, in turns.RetrieveInput) (agent.PrepareVerdict, error) {
	return long(ctx, a.turns.Retrieve, in)
}

// RequestApproval asks a person about the calls of a step; see [turns.Turns.RequestApproval].
func (a *Activities) RequestApproval(ctx context.Context, in turns.RequestApprovalInput) (turns.RequestApprovalResult, error) {
	return short(ctx, a.turns.RequestApproval, in)
}

// Decide stores a decision; see [turns.Turns.Decide].
func (a *Activities) Decide(ctx context.Context, in turns.DecideInput) (turns.DecideResult, error) {
	return short(ctx, a.turns.Decide, in)
}

// Provide stores the result of a client-side call; see [turns.Turns.Provide].
func (a *Activities) Provide(ctx context.Context, in turns.ProvideInput) (turns.DecideResult, error) {
	return short(ctx, a.turns.Provide, in)
}

// ExpireApprovals closes approvals whose time is over; see [turns.Turns.ExpireApprovals].
func (a *Activities) ExpireApprovals(ctx context.Context, in turns.ExpireApprovalsInput) (turns.ExpireApprovalsResult, error) {
	return short(ctx, a.turns.ExpireApprovals, in)
}

// LookForDecisions reads what was decided while nobody told the workflow; see [turns.Turns.LookForDecisions].
func (a *Activities) LookForDecisions(ctx context.Context, in turns.LookForDecisionsInput) (turns.LookForDecisionsResult, error) {
	return short(ctx, a.turns.LookForDecisions, in)
}

// BeginChild records the turn of a sub-agent; see [turns.Turns.BeginChild].
func (a *Activities) BeginChild(ctx context.Context, in turns.BeginChildInput) (turns.BeginChildResult, error) {
	return short(ctx, a.turns.BeginChild, in)
}

// StoreChild stores the outcome of a sub-agent's turn as the result of its call; see [turns.Turns.StoreChild].
func (a *Activities) StoreChild(ctx context.Context, in turns.StoreChildInput) (agent.ToolVerdict, error) {
	return short(ctx, a.turns.StoreChild, in)
}

// StoreTurn ends a turn; see [turns.Turns.StoreTurn].
func (a *Activities) StoreTurn(ctx context.Context, in turns.StoreTurnInput) (turns.StoreTurnResult, error) {
	return short(ctx, a.turns.StoreTurn, in)
}

// QueueMessage puts a message into its session's queue; see [turns.Turns.QueueMessage].
func (a *Activities) QueueMessage(ctx context.Context, in turns.QueueMessageInput) (turns.QueueMessageResult, error) {
	return short(ctx, a.turns.QueueMessage, in)
}
