package keeping

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/activities"
)

// listed is how many tenants are asked about at once.
const listed = 50

// Sweep is one kind of one tenant, from before a time.
type Sweep struct {
	Tenant string    `json:"tenant,omitempty"` // empty: what belongs to none
	Kind   string    `json:"kind"`
	Before time.Time `json:"before"`
	Follow bool      `json:"follow,omitempty"` // blobs: they go with what refers to them
}

// Cursor is where a sweep goes on; the zero value begins.
type Cursor struct {
	Stage  int       `json:"stage,omitempty"`
	At     time.Time `json:"at,omitzero"`
	ID     string    `json:"id,omitempty"`
	Behind bool      `json:"behind,omitempty"`
}

// Batch is what one transaction did.
type Batch struct {
	Removed int64
	Bytes   int64
	Next    Cursor
	Done    bool
}

// Plan says what is to be swept.
type Plan interface {
	// Sweeps lists what is due by a time of the tenants behind one, of at most limit. next is the last of them, "" at the end.
	Sweeps(ctx context.Context, after string, now time.Time, limit int) (due []Sweep, next string, err error)
}

// Sweeper removes.
type Sweeper interface {
	// Sweep does one short transaction. It can be ended anywhere and begun anew.
	Sweep(ctx context.Context, s Sweep, at Cursor) (Batch, error)
	// Oldest is the time of the oldest that is left, nil where there is none.
	Oldest(ctx context.Context, s Sweep) (*time.Time, error)
	// Collect removes content that nobody refers to any more, and what else has no tenant.
	Collect(ctx context.Context) (removed, bytes int64, err error)
}

// Config is what [New] needs.
type Config struct {
	Plan    Plan
	Sweeper Sweeper
	Logger  *zap.Logger // nil: none

	Most time.Duration // of one activity; 0: 2 min
	Now  func() time.Time
}

// Activities holds the functions that sweep. Only the methods listed in [Activities.Registered] are activities.
type Activities struct{ Config }

// New checks the configuration and fills in the bounds.
func New(c Config) (*Activities, error) {
	switch {
	case c.Plan == nil:
		return nil, errors.New("keeping: Plan is missing")
	case c.Sweeper == nil:
		return nil, errors.New("keeping: Sweeper is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Most = cmp.Or(max(c.Most, 0), 2*time.Minute)
	return &Activities{c}, nil
}

// Registered lists the activities under the names that histories hold.
func (a *Activities) Registered() []activities.Registration {
	return []activities.Registration{
		{Name: "ListRetention", Func: a.ListRetention},
		{Name: "SweepRetention", Func: a.SweepRetention},
		{Name: "CollectRetention", Func: a.CollectRetention},
	}
}

// ListInput asks for the tenants behind one.
type ListInput struct {
	After string `json:"after,omitempty"`
}

// ListResult is what is due of some tenants.
type ListResult struct {
	Due  []Sweep `json:"due,omitempty"`
	Next string  `json:"next,omitempty"` // empty: these were all
}

// ListRetention lists what is due.
func (a *Activities) ListRetention(ctx context.Context, in ListInput) (ListResult, error) {
	due, next, err := a.Plan.Sweeps(ctx, in.After, a.Now().UTC().Truncate(time.Second), listed)
	if err != nil {
		return ListResult{}, activities.TemporalError(err)
	}
	return ListResult{Due: due, Next: next}, nil
}

// SweepInput is a sweep and where it goes on.
type SweepInput struct {
	Sweep

	From Cursor `json:"from,omitzero"`
}

// SweepResult is what was removed, and where to go on.
type SweepResult struct {
	Removed    int64      `json:"removed"`
	Bytes      int64      `json:"bytes,omitempty"`
	Next       *Cursor    `json:"next,omitempty"` // nil: there is no more
	OldestLeft *time.Time `json:"oldest_left,omitempty"`
}

// progress is what a heartbeat says: the next attempt goes on there.
type progress struct {
	Removed int64  `json:"removed"`
	Bytes   int64  `json:"bytes"`
	From    Cursor `json:"from"`
}

// SweepRetention sweeps, batch by batch, until there is no more or its time is over.
func (a *Activities) SweepRetention(ctx context.Context, in SweepInput) (SweepResult, error) {
	at := progress{From: in.From}
	alive := activity.IsActivity(ctx)
	if alive && activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &at); err != nil { // of another release: from the beginning, which does no harm
			at = progress{From: in.From}
		}
	}
	until := a.Now().Add(a.Most)
	for {
		batch, err := a.Sweeper.Sweep(ctx, in.Sweep, at.From)
		if err != nil {
			return SweepResult{}, activities.TemporalError(err)
		}
		at.Removed, at.Bytes, at.From = at.Removed+batch.Removed, at.Bytes+batch.Bytes, batch.Next
		if alive {
			activity.RecordHeartbeat(ctx, at)
		}
		out := SweepResult{Removed: at.Removed, Bytes: at.Bytes}
		switch {
		case batch.Done:
			if out.OldestLeft, err = a.Sweeper.Oldest(ctx, in.Sweep); err != nil {
				return SweepResult{}, activities.TemporalError(err)
			}
			a.Logger.Debug("swept", zap.String("tenant", in.Tenant), zap.String("kind", in.Kind), zap.Int64("removed", out.Removed))
			return out, nil
		case !a.Now().Before(until) || stops(ctx):
			out.Next = &at.From
			return out, nil
		}
	}
}

// stops reports whether the worker stops: another one goes on.
func stops(ctx context.Context) bool {
	if !activity.IsActivity(ctx) {
		return ctx.Err() != nil
	}
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return ctx.Err() != nil
	}
}

// CollectRetention removes what nobody refers to any more.
func (a *Activities) CollectRetention(ctx context.Context) (SweepResult, error) {
	defer activities.Heartbeat(ctx)()
	removed, bytes, err := a.Sweeper.Collect(ctx)
	if err != nil {
		return SweepResult{}, activities.TemporalError(err)
	}
	return SweepResult{Removed: removed, Bytes: bytes}, nil
}
