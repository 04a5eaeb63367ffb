package workflows

import (
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"

	"github.com/turnstone-run/turnstone/agent"
)

// ShowPartialText returns an interceptor that adds the answer so far to a running turn's query "state". A workflow holds no content, so read gets it
// from the turn's stream. Queries are not part of a history, so they may read it.
func ShowPartialText(read func(agent.TurnID) string) interceptor.WorkerInterceptor {
	return &partialText{read: read}
}

type partialText struct {
	interceptor.WorkerInterceptorBase

	read func(agent.TurnID) string
}

// InterceptWorkflow implements [interceptor.WorkerInterceptor].
func (p *partialText) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	q := &partialTextQuery{read: p.read}
	q.Next = next
	return q
}

type partialTextQuery struct {
	interceptor.WorkflowInboundInterceptorBase

	read func(agent.TurnID) string
}

// HandleQuery implements [interceptor.WorkflowInboundInterceptor].
func (q *partialTextQuery) HandleQuery(ctx workflow.Context, in *interceptor.HandleQueryInput) (any, error) {
	out, err := q.Next.HandleQuery(ctx, in)
	if v, ok := out.(TurnView); ok && (v.Status == statusRunning || v.Status == statusWaiting) {
		v.Partial = q.read(v.TurnID)
		return v, err
	}
	return out, err
}
