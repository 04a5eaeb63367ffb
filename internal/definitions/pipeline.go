package definitions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

// rowsOutput is the output of a node whose rows are stored.
type rowsOutput struct {
	Ref      string          `json:"ref"`
	RowCount int64           `json:"row_count"`
	Preview  json.RawMessage `json:"preview,omitempty"` // {type,row_count,sample}
}

// runPipeline runs the steps of a pipeline task on the rows of the input, unless the steps load their own rows.
func (v *nodeVisit) runPipeline(ctx context.Context, in visitInput) (rowsOutput, error) {
	p := v.runner.Pipelines
	if p == nil {
		return rowsOutput{}, asNodeError(agent.Invalid("config.action", "this runtime runs no pipelines"))
	}
	call := PipelineCall{
		Tenant: v.facts.run.Tenant, UserID: v.facts.run.UserID, RunID: v.in.RunID, Steps: v.config.Pipeline, InputRef: v.config.InputRef,
		Key: v.idempotencyKey(), Repeatable: v.config.Repeatable || p.EffectFree(v.config.Pipeline),
	}
	if call.InputRef == "" && !loadsOwnRows(call.Steps) {
		var err error
		if call.InputRef, err = v.storeInputRows(ctx, in); err != nil {
			return rowsOutput{}, err
		}
	}
	var result PipelineResult
	err := v.runEffect(ctx, call.Repeatable, func(ctx context.Context, mark func() error) error {
		if err := mark(); err != nil {
			return err
		}
		var err error
		result, err = p.Run(ctx, call)
		switch {
		case err != nil && ctx.Err() != nil:
			return fmt.Errorf("the pipeline was cut off: %w: %w", err, notifications.ErrUnknown)
		case err != nil:
			return err
		}
		return pipelineError(result.Failure)
	})
	return rowsOutput{Ref: result.Ref, RowCount: result.RowCount, Preview: result.Preview}, err
}

// loadsOwnRows reports whether the first step of a pipeline loads rows, so that the rows of the input are not used.
func loadsOwnRows(steps json.RawMessage) bool {
	var all []struct {
		Step string `json:"step"`
		Left string `json:"left"`
	}
	if json.Unmarshal(steps, &all) != nil || len(all) == 0 {
		return false
	}
	return all[0].Step == "http_request" || (all[0].Step == "join" && all[0].Left != "")
}

// pipelineError returns the error for a failure of a pipeline, nil for nil. A retryable failure had no effect. After any other failure of a
// recipient that was unavailable, the recipient may have received a request, so the outcome is unknown.
func pipelineError(f *agent.Failure) error {
	switch {
	case f == nil:
		return nil
	case f.Retryable:
		return &agent.Error{Code: agent.CodeUnavailable, Err: errors.New(f.Message)}
	case f.Type == string(agent.CodeUnavailable), f.Type == string(agent.CodeCancelled):
		return fmt.Errorf("%s: %w", f.Message, notifications.ErrUnknown)
	default:
		return nodeError{failure: f}
	}
}
