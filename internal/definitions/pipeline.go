package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// rowsOutput is what a node gives out that has rows behind a reference.
type rowsOutput struct {
	Ref      string          `json:"ref"`
	RowCount int64           `json:"row_count"`
	Preview  json.RawMessage `json:"preview,omitempty"` // {type,row_count,sample}
}

func (v *visit) pipeline(ctx context.Context, in inflow) (rowsOutput, error) {
	p := v.runner.Pipelines
	if p == nil {
		return rowsOutput{}, fault(agent.Invalid("config.action", "this runtime runs no pipelines"))
	}
	call := PipelineCall{
		Tenant: v.facts.run.Tenant, UserID: v.facts.run.UserID, RunID: v.in.RunID, Steps: v.config.Pipeline, InputRef: v.config.InputRef,
		Key: v.key(), Repeatable: v.config.Repeatable || p.EffectFree(v.config.Pipeline),
	}
	if call.InputRef == "" && !bringsRows(call.Steps) {
		var err error
		if call.InputRef, err = v.pooled(ctx, in); err != nil {
			return rowsOutput{}, err
		}
	}
	var got PipelineResult
	err := v.effect(ctx, call.Repeatable, func(ctx context.Context, mark func() error) error {
		if err := mark(); err != nil {
			return err
		}
		var err error
		got, err = p.Run(ctx, call)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("the pipeline was cut off: %w: %w", err, ErrUnknown)
		case err != nil:
			return err
		}
		return failure(got.Failure)
	})
	return rowsOutput{Ref: got.Ref, RowCount: got.RowCount, Preview: got.Preview}, err
}

// bringsRows reports whether a pipeline gets its rows itself: then it takes none.
func bringsRows(steps json.RawMessage) bool {
	var all []struct {
		Step string `json:"step"`
		Left string `json:"left"`
	}
	if json.Unmarshal(steps, &all) != nil || len(all) == 0 {
		return false
	}
	return all[0].Step == "http_request" || all[0].Step == "join" && all[0].Left != ""
}

// failure is a failure of a pipeline's as an error. One that a step may get over is tried again; without that, somebody who went away may have
// got what was posted: only a pipeline that reads is told by it that nothing has happened.
func failure(f *agent.Failure) error {
	switch {
	case f == nil:
		return nil
	case f.Retryable:
		return &agent.Error{Code: agent.CodeUnavailable, Err: errors.New(f.Message)}
	case f.Type == string(agent.CodeUnavailable), f.Type == string(agent.CodeCancelled):
		return fmt.Errorf("%s: %w", f.Message, ErrUnknown)
	default:
		return faultError{failure: f}
	}
}
