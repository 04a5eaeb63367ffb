package agent

import "context"

// Middleware decorates the model and tool calls of an agent. It runs in activities, so changing it does not break replay. In a list, BeforeModel runs
// in order, AfterModel in reverse order, and the first wrapper is the outermost. Embed [Pass] to implement only some methods.
type Middleware interface {
	// BeforeModel may change the request of a model call. It may jump to the end of the turn if it declares so ([Jumper]): then the model is not
	// called, and Answer of the request is the reply.
	BeforeModel(ctx context.Context, inv Invocation, req *ModelRequest) (Jump, error)
	// WrapModel may repeat, replace or observe a model call. It may change the request's Profile to another profile of the plan, and may pass
	// its own emit to next to change the stream. Each call of next is a new epoch of the stream.
	WrapModel(next ModelFunc) ModelFunc
	// AfterModel may change the reply before it is stored, and may make the jumps that it declares ([Jumper]). With [JumpModel] it may set
	// Feedback of the reply to tell the model why it is called again.
	AfterModel(ctx context.Context, inv Invocation, reply *ModelReply) (Jump, error)
	// WrapTool may repeat, replace or observe a tool call.
	WrapTool(next ToolFunc) ToolFunc
}

// ModelFunc makes a model call. It calls emit for each fragment of the reply; an error of emit ends the call.
type ModelFunc func(ctx context.Context, inv Invocation, req ModelRequest, emit func(Delta) error) (ModelReply, error)

// PlanChecker is implemented by middleware whose options name parts of the plan, such as profiles or tools. CheckPlan is called when a plan is
// compiled. The Field of its error is relative to the options.
type PlanChecker interface {
	CheckPlan(p *Plan) error
}

// ToolFunc makes a tool call.
type ToolFunc func(ctx context.Context, inv Invocation, call ToolCall) (ToolResult, error)

// Pass is a middleware that does nothing.
type Pass struct{}

// BeforeModel does not change the request.
func (Pass) BeforeModel(context.Context, Invocation, *ModelRequest) (Jump, error) {
	return JumpNone, nil
}

// WrapModel returns next.
func (Pass) WrapModel(next ModelFunc) ModelFunc { return next }

// AfterModel does not change the reply.
func (Pass) AfterModel(context.Context, Invocation, *ModelReply) (Jump, error) { return JumpNone, nil }

// WrapTool returns next.
func (Pass) WrapTool(next ToolFunc) ToolFunc { return next }
