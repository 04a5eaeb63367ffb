package erasing

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnstone-run/turnstone/activities"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
)

// Bounds of one activity; what is left is for the next.
const (
	maxLive       = 200 // turns that are stopped at once
	marksAtOnce   = 50
	contentAtOnce = 50
	deletedAtOnce = 8   // executions: each is a few calls to Temporal, and a wait
	maxWhy        = 500 // bytes
)

// Config is what [New] needs; Blobs may be nil where there is no blob store, all others are required.
type Config struct {
	Store      Store
	Turns      Turns
	Executions Executions
	Blobs      Blobs
	Logger     *zap.Logger

	Slice   time.Duration // how long one activity goes on; 0: 30 s
	Settled time.Duration // content that was put since may yet be referred to; 0: 1 min
}

// Activities holds the functions that touch the world on behalf of an erasure. Only the methods listed in [Activities.Registered] are
// activities.
type Activities struct{ Config }

// New checks the configuration and fills in the bounds.
func New(c Config) (*Activities, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("erasing: Store is missing")
	case c.Turns == nil:
		return nil, errors.New("erasing: Turns is missing")
	case c.Executions == nil:
		return nil, errors.New("erasing: Executions is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	c.Slice = cmp.Or(max(c.Slice, 0), 30*time.Second)
	c.Settled = cmp.Or(max(c.Settled, 0), time.Minute)
	return &Activities{c}, nil
}

// Registered lists the activities under the names that histories hold.
func (a *Activities) Registered() []activities.Registration {
	return []activities.Registration{
		{Name: "BeginErasure", Func: a.BeginErasure},
		{Name: "StopTurnsToErase", Func: a.StopTurnsToErase},
		{Name: "EraseExecutions", Func: a.EraseExecutions},
		{Name: "EraseRows", Func: a.EraseRows},
		{Name: "EraseSchedules", Func: a.EraseSchedules},
		{Name: "EraseContent", Func: a.EraseContent},
		{Name: "CheckErasure", Func: a.CheckErasure},
		{Name: "FinishErasure", Func: a.FinishErasure},
		{Name: "FailErasure", Func: a.FailErasure},
	}
}

// Ref names an erasure. It is all that a history knows of it.
type Ref struct {
	Tenant    string `json:"tenant"`
	ErasureID string `json:"erasure_id"`
}

// BeginResult says what is to be done.
type BeginResult struct {
	DryRun bool           `json:"dry_run,omitempty"`
	Status erasure.Status `json:"status"` // a final one: nothing is
}

// BeginErasure says that an erasure is under way, and looks for what is the user's.
func (a *Activities) BeginErasure(ctx context.Context, in Ref) (BeginResult, error) {
	defer activities.Heartbeat(ctx)()
	e, err := a.Store.BeginErasure(ctx, in.Tenant, in.ErasureID)
	if err != nil {
		return BeginResult{}, activities.TemporalError(err)
	}
	if !e.Status.Final() {
		if err := a.Store.MarkErasure(ctx, in.Tenant, in.ErasureID); err != nil {
			return BeginResult{}, activities.TemporalError(err)
		}
	}
	return BeginResult{DryRun: e.DryRun, Status: e.Status}, nil
}

// StopResult says how many of the user's turns still run or wait.
type StopResult struct {
	Live int `json:"live"`
}

// StopTurnsToErase asks the user's turns to stop. It may be asked again until none is left.
func (a *Activities) StopTurnsToErase(ctx context.Context, in Ref) (StopResult, error) {
	defer activities.Heartbeat(ctx)()
	live, err := a.Store.LiveTurns(ctx, in.Tenant, in.ErasureID, maxLive)
	if err != nil {
		return StopResult{}, activities.TemporalError(err)
	}
	for _, id := range live {
		err := a.Turns.Cancel(ctx, id, agent.CancelRequest{Reason: "erased", By: "erasure/" + in.ErasureID})
		switch agent.CodeOf(err) {
		case "", agent.CodeConflict, agent.CodeNotFound: // it has ended meanwhile, or will be terminated
		default:
			a.Logger.Warn("cancel turn to erase", zap.String("erasure", in.ErasureID), zap.String("turn", string(id)), zap.Error(err))
		}
	}
	return StopResult{Live: len(live)}, ctxErr(ctx)
}

// Progress says whether there is more to do.
type Progress struct {
	More    bool  `json:"more,omitempty"`
	Pending int64 `json:"pending,omitempty"` // content that somebody has just put
}

// EraseSchedules deletes the user's schedules from Temporal, once the rows are gone that they would be made of again.
func (a *Activities) EraseSchedules(ctx context.Context, in Ref) (Progress, error) {
	defer activities.Heartbeat(ctx)()
	return a.slice(ctx, func() (bool, error) {
		names, err := a.Store.Marks(ctx, in.Tenant, in.ErasureID, MarkSchedule, marksAtOnce)
		if err != nil {
			return false, err
		}
		for _, name := range names {
			if err := a.Executions.DeleteSchedule(ctx, in.Tenant, name); err != nil {
				return false, err
			}
			if err := a.Store.MarkDone(ctx, in.Tenant, in.ErasureID, MarkSchedule, []string{name}, 0, 0); err != nil {
				return false, err
			}
		}
		return len(names) == marksAtOnce, nil
	})
}

// EraseExecutions deletes the histories of the user's turns, of the conversations that he was in, of his runs.
func (a *Activities) EraseExecutions(ctx context.Context, in Ref) (Progress, error) {
	defer activities.Heartbeat(ctx)()
	return a.slice(ctx, func() (bool, error) {
		ids, err := a.Store.Marks(ctx, in.Tenant, in.ErasureID, MarkExecution, marksAtOnce)
		if err != nil {
			return false, err
		}
		some, ctx := errgroup.WithContext(ctx)
		some.SetLimit(deletedAtOnce)
		for _, id := range ids {
			some.Go(func() error {
				gone, err := a.Executions.Delete(ctx, id)
				if err != nil && gone > 0 { // the next attempt may find none
					err = errors.Join(err, a.Store.MarkFound(context.WithoutCancel(ctx), in.Tenant, in.ErasureID, MarkExecution, id, int64(gone)))
				}
				if err != nil {
					return err
				}
				return a.Store.MarkDone(ctx, in.Tenant, in.ErasureID, MarkExecution, []string{id}, int64(gone), 0)
			})
		}
		return len(ids) == marksAtOnce, some.Wait()
	})
}

// EraseRows takes rows away.
func (a *Activities) EraseRows(ctx context.Context, in Ref) (Progress, error) {
	defer activities.Heartbeat(ctx)()
	return a.slice(ctx, func() (bool, error) { return a.Store.EraseRows(ctx, in.Tenant, in.ErasureID) })
}

// EraseContent removes stored content that nobody refers to any more.
func (a *Activities) EraseContent(ctx context.Context, in Ref) (Progress, error) {
	defer activities.Heartbeat(ctx)()
	var pending int64
	out, err := a.slice(ctx, func() (bool, error) {
		free, waiting, err := a.Store.ReleaseContent(ctx, in.Tenant, in.ErasureID, a.Settled, contentAtOnce)
		if err != nil {
			return false, err
		}
		pending = waiting
		if a.Blobs == nil {
			return false, nil
		}
		for _, c := range free {
			removed := int64(1)
			switch err := a.Blobs.Remove(ctx, in.Tenant, c.Ref); {
			case agent.CodeOf(err) == agent.CodeConflict: // somebody refers to it, or puts it, after all
				removed, c.Bytes = 0, 0
			case err != nil:
				return false, err
			}
			if err := a.Store.MarkDone(ctx, in.Tenant, in.ErasureID, erasure.MarkContent, []string{c.Ref}, removed, c.Bytes); err != nil {
				return false, err
			}
		}
		return len(free) == contentAtOnce, nil
	})
	out.Pending = pending
	return out, err
}

// CheckResult is what is left.
type CheckResult struct {
	Remaining int64 `json:"remaining"`
}

// CheckErasure looks for what is left: what the user did meanwhile counts too.
func (a *Activities) CheckErasure(ctx context.Context, in Ref) (CheckResult, error) {
	defer activities.Heartbeat(ctx)()
	if err := a.Store.MarkErasure(ctx, in.Tenant, in.ErasureID); err != nil {
		return CheckResult{}, activities.TemporalError(err)
	}
	n, err := a.Store.CheckErasure(ctx, in.Tenant, in.ErasureID)
	return CheckResult{Remaining: n}, activities.TemporalError(err)
}

// FinishResult is how an erasure ended.
type FinishResult struct {
	Status    erasure.Status `json:"status"`
	Digest    string         `json:"digest,omitempty"` // of the report
	Remaining int64          `json:"remaining,omitempty"`
}

// FinishErasure stores the report.
func (a *Activities) FinishErasure(ctx context.Context, in Ref) (FinishResult, error) {
	defer activities.Heartbeat(ctx)()
	e, err := a.Store.FinishErasure(ctx, in.Tenant, in.ErasureID)
	if err != nil {
		return FinishResult{}, activities.TemporalError(err)
	}
	out := FinishResult{Status: e.Status, Digest: e.Digest}
	if e.Report != nil {
		out.Remaining = e.Report.Remaining()
	}
	return out, nil
}

// FailInput says why an erasure broke off.
type FailInput struct {
	Ref

	Why string `json:"why"`
}

// FailErasure ends an erasure that broke off.
func (a *Activities) FailErasure(ctx context.Context, in FailInput) error {
	return activities.TemporalError(a.Store.FailErasure(ctx, in.Tenant, in.ErasureID, in.Why[:min(len(in.Why), maxWhy)]))
}

// slice does pieces of work until there is none left, or it has taken its time, or the worker stops.
func (a *Activities) slice(ctx context.Context, piece func() (more bool, err error)) (Progress, error) {
	until := time.Now().Add(a.Slice)
	for {
		more, err := piece()
		if err != nil {
			return Progress{}, activities.TemporalError(err)
		}
		if !more || time.Now().After(until) || stopping(ctx) {
			return Progress{More: more}, ctxErr(ctx)
		}
	}
}

func stopping(ctx context.Context) bool {
	if !activity.IsActivity(ctx) {
		return ctx.Err() != nil
	}
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

func ctxErr(ctx context.Context) error { return activities.TemporalError(ctx.Err()) }
