package activities

import (
	"context"

	"github.com/turnstone-run/turnstone/internal/erasure"
)

// Erasure are the activities of the workflow Erasure.
type Erasure struct{ eraser *erasure.Eraser }

// NewErasure returns the activities over an eraser.
func NewErasure(e *erasure.Eraser) *Erasure { return &Erasure{eraser: e} }

// Registered lists the activities under the names that histories hold.
func (e *Erasure) Registered() []Registration {
	return []Registration{
		{"BeginErasure", e.BeginErasure},
		{"StopTurnsToErase", e.StopTurnsToErase},
		{"EraseExecutions", e.EraseExecutions},
		{"EraseRows", e.EraseRows},
		{"EraseSchedules", e.EraseSchedules},
		{"EraseContent", e.EraseContent},
		{"CheckErasure", e.CheckErasure},
		{"FinishErasure", e.FinishErasure},
		{"FailErasure", e.FailErasure},
	}
}

// eraseSome calls a use case that erases until its time is over or the worker stops.
func eraseSome(
	ctx context.Context, erase func(context.Context, erasure.Ref, func() bool) (erasure.Progress, error), in erasure.Ref,
) (erasure.Progress, error) {
	defer Heartbeat(ctx)()
	out, err := erase(ctx, in, func() bool { return workerStopping(ctx) })
	return out, TemporalError(err)
}

// BeginErasure sets the erasure to running and marks the user's data; see [erasure.Eraser.Begin].
func (e *Erasure) BeginErasure(ctx context.Context, in erasure.Ref) (erasure.BeginResult, error) {
	return long(ctx, e.eraser.Begin, in)
}

// StopTurnsToErase cancels the user's turns; see [erasure.Eraser.StopTurns].
func (e *Erasure) StopTurnsToErase(ctx context.Context, in erasure.Ref) (erasure.StopResult, error) {
	return long(ctx, e.eraser.StopTurns, in)
}

// EraseExecutions deletes histories; see [erasure.Eraser.EraseExecutions].
func (e *Erasure) EraseExecutions(ctx context.Context, in erasure.Ref) (erasure.Progress, error) {
	return eraseSome(ctx, e.eraser.EraseExecutions, in)
}

// EraseRows removes rows; see [erasure.Eraser.EraseRows].
func (e *Erasure) EraseRows(ctx context.Context, in erasure.Ref) (erasure.Progress, error) {
	return eraseSome(ctx, e.eraser.EraseRows, in)
}

// EraseSchedules deletes schedules; see [erasure.Eraser.EraseSchedules].
func (e *Erasure) EraseSchedules(ctx context.Context, in erasure.Ref) (erasure.Progress, error) {
	return eraseSome(ctx, e.eraser.EraseSchedules, in)
}

// EraseContent removes stored content; see [erasure.Eraser.EraseContent].
func (e *Erasure) EraseContent(ctx context.Context, in erasure.Ref) (erasure.Progress, error) {
	return eraseSome(ctx, e.eraser.EraseContent, in)
}

// CheckErasure counts what is left; see [erasure.Eraser.Check].
func (e *Erasure) CheckErasure(ctx context.Context, in erasure.Ref) (erasure.CheckResult, error) {
	return long(ctx, e.eraser.Check, in)
}

// FinishErasure stores the report; see [erasure.Eraser.Finish].
func (e *Erasure) FinishErasure(ctx context.Context, in erasure.Ref) (erasure.FinishResult, error) {
	return long(ctx, e.eraser.Finish, in)
}

// FailErasure ends an erasure that failed; see [erasure.Eraser.Fail].
func (e *Erasure) FailErasure(ctx context.Context, in erasure.FailInput) error {
	return TemporalError(e.eraser.Fail(ctx, in))
}
