package erasure

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/agent"
)

// Limits of one call. The next call continues.
const (
	maxLiveTurns       = 200 // turns that are cancelled
	markBatch          = 50
	contentBatch       = 50
	parallelDeletions  = 8   // of executions; each makes a few requests and waits
	maxFailureBytes    = 500 // of the reason why an erasure failed
	defaultMaxDuration = 30 * time.Second
	defaultSettleTime  = time.Minute
)

// EraserConfig is the configuration of [NewEraser]. Store, Turns and Histories are required. Blobs is nil if there is no blob store.
type EraserConfig struct {
	Store     Store
	Turns     Turns
	Histories HistoryDeleter
	Blobs     Blobs
	Logger    *zap.Logger

	MaxDuration time.Duration // of one call; 0: 30 s
	SettleTime  time.Duration // content that was stored within this time is not removed, because a reference may follow; 0: 1 min
}

// Eraser carries out erasures. Every method may be called again after an error.
type Eraser struct{ EraserConfig }

// NewEraser returns an eraser.
func NewEraser(c EraserConfig) (*Eraser, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("erasure: Store is missing")
	case c.Turns == nil:
		return nil, errors.New("erasure: Turns is missing")
	case c.Histories == nil:
		return nil, errors.New("erasure: Histories is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.MaxDuration = cmp.Or(max(c.MaxDuration, 0), defaultMaxDuration)
	c.SettleTime = cmp.Or(max(c.SettleTime, 0), defaultSettleTime)
	return &Eraser{c}, nil
}

// Ref names an erasure. The histories of workflows contain nothing else about it.
type Ref struct {
	Tenant    string `json:"tenant"`
	ErasureID string `json:"erasure_id"`
}

// BeginResult is the state of an erasure when its workflow begins.
type BeginResult struct {
	DryRun bool   `json:"dry_run,omitempty"`
	Status Status `json:"status"` // if it is final, nothing is left to do
}

// Begin sets the erasure to running and marks the user's data.
func (e *Eraser) Begin(ctx context.Context, in Ref) (BeginResult, error) {
	erasure, err := e.Store.BeginErasure(ctx, in.Tenant, in.ErasureID)
	if err != nil {
		return BeginResult{}, err
	}
	if !erasure.Status.Final() {
		if err := e.Store.MarkErasure(ctx, in.Tenant, in.ErasureID); err != nil {
			return BeginResult{}, err
		}
	}
	return BeginResult{DryRun: erasure.DryRun, Status: erasure.Status}, nil
}

// StopResult has the number of the user's turns that still run or wait.
type StopResult struct {
	Live int `json:"live"`
}

// StopTurns cancels the user's turns. The caller repeats it until none is live.
func (e *Eraser) StopTurns(ctx context.Context, in Ref) (StopResult, error) {
	live, err := e.Store.LiveTurns(ctx, in.Tenant, in.ErasureID, maxLiveTurns)
	if err != nil {
		return StopResult{}, err
	}
	for _, id := range live {
		err := e.Turns.Cancel(ctx, id, agent.CancelRequest{Reason: "erased", By: "erasure/" + in.ErasureID})
		switch agent.CodeOf(err) {
		case "", agent.CodeConflict, agent.CodeNotFound: // it has ended, or will be terminated with its execution
		default:
			e.Logger.Warn("cancel turn to erase", zap.String("erasure", in.ErasureID), zap.String("turn", string(id)), zap.Error(err))
		}
	}
	return StopResult{Live: len(live)}, ctx.Err()
}

// Progress reports whether more is left to erase.
type Progress struct {
	More    bool  `json:"more,omitempty"`
	Pending int64 `json:"pending,omitempty"` // content that was stored within the settle time
}

// EraseSchedules deletes the user's schedules. Their rows must have been erased, because upkeep would create the schedules again from them.
func (e *Eraser) EraseSchedules(ctx context.Context, in Ref, stopping func() bool) (Progress, error) {
	return e.repeat(ctx, stopping, func() (bool, error) {
		names, err := e.Store.Marks(ctx, in.Tenant, in.ErasureID, MarkSchedule, markBatch)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			if err := e.Histories.DeleteSchedule(ctx, in.Tenant, name); err != nil {
				return false, err
			}
			if err := e.Store.MarkDone(ctx, in.Tenant, in.ErasureID, MarkSchedule, []string{name}, 0, 0); err != nil {
				return false, err
			}
		}
		return len(names) == markBatch, nil
	})
}

// EraseExecutions deletes the histories of the user's turns, conversations and runs.
func (e *Eraser) EraseExecutions(ctx context.Context, in Ref, stopping func() bool) (Progress, error) {
	return e.repeat(ctx, stopping, func() (bool, error) {
		ids, err := e.Store.Marks(ctx, in.Tenant, in.ErasureID, MarkExecution, markBatch)
		if err != nil {
			return false, err
		}
		deletions, ctx := errgroup.WithContext(ctx)
		deletions.SetLimit(parallelDeletions)
		for _, id := range ids {
			deletions.Go(func() error { return e.eraseExecution(ctx, in, id) })
		}
		return len(ids) == markBatch, deletions.Wait()
	})
}

// eraseExecution deletes all runs of a workflow id.
func (e *Eraser) eraseExecution(ctx context.Context, in Ref, workflowID string) error {
	deleted, err := e.Histories.Delete(ctx, workflowID)
	if err != nil && deleted > 0 { // store the number now, because the next attempt may find none
		err = errors.Join(err, e.Store.MarkFound(context.WithoutCancel(ctx), in.Tenant, in.ErasureID, MarkExecution, workflowID, int64(deleted)))
	}
	if err != nil {
		return err
	}
	return e.Store.MarkDone(ctx, in.Tenant, in.ErasureID, MarkExecution, []string{workflowID}, int64(deleted), 0)
}

// EraseRows removes the user's rows, batch by batch.
func (e *Eraser) EraseRows(ctx context.Context, in Ref, stopping func() bool) (Progress, error) {
	return e.repeat(ctx, stopping, func() (bool, error) { return e.Store.EraseRows(ctx, in.Tenant, in.ErasureID) })
}

// EraseContent removes the user's stored content to which nothing refers any more.
func (e *Eraser) EraseContent(ctx context.Context, in Ref, stopping func() bool) (Progress, error) {
	var pending int64
	out, err := e.repeat(ctx, stopping, func() (bool, error) {
		free, waiting, err := e.Store.ReleaseContent(ctx, in.Tenant, in.ErasureID, e.SettleTime, contentBatch)
		if err != nil {
			return false, err
		}
		pending = waiting
		if e.Blobs == nil {
			return false, nil
		}
		for _, c := range free {
			if err := e.eraseObject(ctx, in, c); err != nil {
				return false, err
			}
		}
		return len(free) == contentBatch, nil
	})
	out.Pending = pending
	return out, err
}

// eraseObject removes one object and marks it as done.
func (e *Eraser) eraseObject(ctx context.Context, in Ref, c Object) error {
	removed := int64(1)
	switch err := e.Blobs.Remove(ctx, in.Tenant, c.Ref); {
	case agent.CodeOf(err) == agent.CodeConflict: // it was stored again or referred to meanwhile
		removed, c.Bytes = 0, 0
	case err != nil:
		return err
	}
	return e.Store.MarkDone(ctx, in.Tenant, in.ErasureID, MarkContent, []string{c.Ref}, removed, c.Bytes)
}

// CheckResult has the number of rows that are left.
type CheckResult struct {
	Remaining int64 `json:"remaining"`
}

// Check marks data that the user has created meanwhile, and counts the rows that are left.
func (e *Eraser) Check(ctx context.Context, in Ref) (CheckResult, error) {
	if err := e.Store.MarkErasure(ctx, in.Tenant, in.ErasureID); err != nil {
		return CheckResult{}, err
	}
	n, err := e.Store.CheckErasure(ctx, in.Tenant, in.ErasureID)
	return CheckResult{Remaining: n}, err
}

// FinishResult is the outcome of an erasure.
type FinishResult struct {
	Status    Status `json:"status"`
	Digest    string `json:"digest,omitempty"` // of the report
	Remaining int64  `json:"remaining,omitempty"`
}

// Finish stores the report.
func (e *Eraser) Finish(ctx context.Context, in Ref) (FinishResult, error) {
	finished, err := e.Store.FinishErasure(ctx, in.Tenant, in.ErasureID)
	if err != nil {
		return FinishResult{}, err
	}
	out := FinishResult{Status: finished.Status, Digest: finished.Digest}
	if finished.Report != nil {
		out.Remaining = finished.Report.Remaining()
	}
	return out, nil
}

// FailInput is the input of [Eraser.Fail].
type FailInput struct {
	Ref

	Why string `json:"why"`
}

// Fail ends an erasure that failed.
func (e *Eraser) Fail(ctx context.Context, in FailInput) error {
	return e.Store.FailErasure(ctx, in.Tenant, in.ErasureID, in.Why[:min(len(in.Why), maxFailureBytes)])
}

// repeat calls erase until it returns false, MaxDuration has passed, or stopping returns true.
func (e *Eraser) repeat(ctx context.Context, stopping func() bool, erase func() (more bool, err error)) (Progress, error) {
	until := time.Now().Add(e.MaxDuration)
	for {
		more, err := erase()
		if err != nil {
			return Progress{}, err
		}
		if !more || time.Now().After(until) || stopping() {
			return Progress{More: more}, ctx.Err()
		}
	}
}
