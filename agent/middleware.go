package agent

import "context"

// Middleware decorates the calls of an agent, activity-side, so that changing it never breaks replay. In a list,
// BeforeModel runs in order, AfterModel in reverse, and of the wrappers the first is the outermost. Embed [Pass] to implement
// only some hooks.
type Middleware interface {
	// BeforeModel may change the request of a model call, or jump to the end of the turn where it declares so ([Jumper]): the model is
	// not asked then, and what stands in the request's Answer is the reply.
	BeforeModel(ctx context.Context, inv Invocation, req *ModelRequest) (Jump, error)
	// WrapModel may repeat, replace or observe a model call, ask another profile of the plan by changing the request's, or change what is
	// streamed by passing an emit of its own to next. Each run of next is a new epoch of the stream.
	WrapModel(next ModelFunc) ModelFunc
	// AfterModel may change the reply before it is stored, and may jump where it declares so ([Jumper]). With [JumpModel] it may say in
	// the reply's Feedback why the model is asked again.
	AfterModel(ctx context.Context, inv Invocation, reply *ModelReply) (Jump, error)
	// WrapTool may repeat, replace or observe a tool call.
	WrapTool(next ToolFunc) ToolFunc
}

// ModelFunc is a model call as middleware sees it. emit is given the fragments as they arrive; its error ends the call.
type ModelFunc func(ctx context.Context, inv Invocation, req ModelRequest, emit func(Delta) error) (ModelReply, error)

// PlanChecker is implemented by a middleware that names parts of its plan: profiles, tools. It is asked when a plan is compiled; the
// error's Field is within its options.
type PlanChecker interface {
	CheckPlan(p *Plan) error
}

// ToolFunc is a tool call as middleware sees it.
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
