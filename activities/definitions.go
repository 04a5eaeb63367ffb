package activities

import (
	"context"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"github.com/turnstone-run/turnstone/internal/definitions"
)

// Definitions are the activities of the workflow DefinedWorkflow.
type Definitions struct{ runner *definitions.Runner }

// NewDefinitions returns the activities over the use cases of workflow definitions.
func NewDefinitions(r *definitions.Runner) *Definitions { return &Definitions{runner: r} }

// Registered lists the activities under the names that histories hold.
func (d *Definitions) Registered() []Registration {
	return []Registration{
		{"BeginRun", d.BeginRun},
		{"RunNode", d.RunNode},
		{"BeginAgentNode", d.BeginAgentNode},
		{"StoreAgentNode", d.StoreAgentNode},
		{"EndNode", d.EndNode},
		{"FinishRun", d.FinishRun},
	}
}

// withAttempt tells the use case which attempt this is and when its worker stops.
func withAttempt(ctx context.Context) context.Context {
	if !activity.IsActivity(ctx) {
		return ctx
	}
	return definitions.WithAttempt(ctx, definitions.Attempt{
		Number: int(activity.GetInfo(ctx).Attempt), WorkerStops: activity.GetWorkerStopChannel(ctx),
	})
}

// BeginRun records a run from the raw input of its workflow; see [definitions.Runner.BeginRun].
func (d *Definitions) BeginRun(
	ctx context.Context, raw converter.RawValue, in definitions.BeginRunInput,
) (definitions.BeginRunResult, error) {
	out, err := d.runner.BeginRun(ctx, raw.Payload().GetData(), in)
	return out, TemporalError(err)
}

// RunNode makes one visit of a task, a condition or a timer; see [definitions.Runner.RunNode].
func (d *Definitions) RunNode(ctx context.Context, in definitions.NodeInput) (definitions.NodeResult, error) {
	return long(withAttempt(ctx), d.runner.RunNode, in)
}

// BeginAgentNode queues the turn of an agent node; see [definitions.Runner.BeginAgentNode].
func (d *Definitions) BeginAgentNode(ctx context.Context, in definitions.NodeInput) (definitions.BeginAgentNodeResult, error) {
	return short(withAttempt(ctx), d.runner.BeginAgentNode, in)
}

// StoreAgentNode stores the outcome of the turn of an agent node; see [definitions.Runner.StoreAgentNode].
func (d *Definitions) StoreAgentNode(ctx context.Context, in definitions.NodeInput) (definitions.NodeResult, error) {
	return short(withAttempt(ctx), d.runner.StoreAgentNode, in)
}

// EndNode ends a visit whose activity was cancelled or never answered; see [definitions.Runner.EndNode].
func (d *Definitions) EndNode(ctx context.Context, in definitions.EndNodeInput) (definitions.NodeResult, error) {
	return short(withAttempt(ctx), d.runner.EndNode, in)
}

// FinishRun records how a run ended; see [definitions.Runner.FinishRun].
func (d *Definitions) FinishRun(ctx context.Context, in definitions.FinishRunInput) error {
	return TemporalError(d.runner.FinishRun(ctx, in))
}
