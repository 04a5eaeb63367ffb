package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	// tenantBatch is the number of tenants for which one call of ListDue plans sweeps.
	tenantBatch = 50
	// defaultMaxDuration is how long one call of Sweep may take.
	defaultMaxDuration = 2 * time.Minute
)

// Store finds and removes stored data.
type Store interface {
	// RetentionTenants lists the tenants after a name, in order.
	RetentionTenants(ctx context.Context, after string, limit int) ([]string, error)
	// RetentionDue returns the planned sweeps that would remove something.
	RetentionDue(ctx context.Context, planned []Sweep) ([]Sweep, error)
	// SweepRetention does one short transaction of a sweep. It may be repeated.
	SweepRetention(ctx context.Context, s Sweep, from Cursor) (Batch, error)
	// OldestKept returns the time of the oldest data of a kind, or nil if there is none.
	OldestKept(ctx context.Context, tenant, kind string) (*time.Time, error)
}

// Collector removes data without a tenant, such as unreferenced content, payloads and deleted catalog documents.
type Collector struct {
	Name string
	Run  func(ctx context.Context) (removed, bytes int64, err error)
}

// SweeperConfig is the configuration of [NewSweeper]. Only Store is required.
type SweeperConfig struct {
	Policy      Policy
	Store       Store
	Collectors  []Collector
	Logger      *zap.Logger
	MaxDuration time.Duration // of one call of Sweep; 0: 2 min
	Now         func() time.Time
}

// Sweeper plans sweeps and carries them out.
type Sweeper struct{ SweeperConfig }

// NewSweeper returns a sweeper. The policy must be valid.
func NewSweeper(c SweeperConfig) (*Sweeper, error) {
	if c.Store == nil {
		return nil, errors.New("retention: Store is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.MaxDuration = cmp.Or(max(c.MaxDuration, 0), defaultMaxDuration)
	return &Sweeper{c}, nil
}

// Sweep removes one kind of data of one tenant, older than a time.
type Sweep struct {
	Tenant string    `json:"tenant,omitempty"` // empty: data without a tenant
	Kind   string    `json:"kind"`
	Before time.Time `json:"before"`
	Follow bool      `json:"follow,omitempty"` // for blobs: remove only those of turns without other data that refers to them
}

// Cursor is where a sweep continues. The zero value is its beginning.
type Cursor struct {
	Stage  int       `json:"stage,omitempty"`
	At     time.Time `json:"at,omitzero"`
	ID     string    `json:"id,omitempty"`
	Behind bool      `json:"behind,omitempty"` // whether a locked row was skipped, so that the next sweep must begin before it
}

// Batch is the result of one transaction of a sweep.
type Batch struct {
	Removed int64
	Bytes   int64
	Next    Cursor
	Done    bool // whether nothing is left to remove
}

// ListDueInput is the input of [Sweeper.ListDue].
type ListDueInput struct {
	After string `json:"after,omitempty"` // the tenants after this one; empty: from the first
}

// ListDueResult has the sweeps of some tenants.
type ListDueResult struct {
	Due  []Sweep `json:"due,omitempty"`
	Next string  `json:"next,omitempty"` // the last of these tenants; empty: there are no more tenants
}

// ListDue returns the due sweeps of the next tenants. Those of data without a tenant come first.
func (s *Sweeper) ListDue(ctx context.Context, in ListDueInput) (ListDueResult, error) {
	tenants, err := s.Store.RetentionTenants(ctx, in.After, tenantBatch)
	if err != nil {
		return ListDueResult{}, err
	}
	var out ListDueResult
	if len(tenants) == tenantBatch {
		out.Next = tenants[len(tenants)-1]
	}
	if in.After == "" {
		tenants = append([]string{""}, tenants...)
	}
	var planned []Sweep
	now := s.Now().UTC().Truncate(time.Second)
	for _, tenant := range tenants {
		planned = append(planned, s.Policy.Sweeps(tenant, now)...)
	}
	out.Due, err = s.Store.RetentionDue(ctx, planned)
	return out, err
}

// SweepInput is a sweep and where it continues.
type SweepInput struct {
	Sweep

	From Cursor `json:"from,omitzero"`
}

// SweepResult is the result of a call of [Sweeper.Sweep].
type SweepResult struct {
	Removed    int64      `json:"removed"`
	Bytes      int64      `json:"bytes,omitempty"`
	Next       *Cursor    `json:"next,omitempty"` // where to continue; nil: nothing is left to remove
	OldestLeft *time.Time `json:"oldest_left,omitempty"`
}

// SweepProgress is how much a sweep has removed so far, and where it continues.
type SweepProgress struct {
	Removed int64  `json:"removed"`
	Bytes   int64  `json:"bytes"`
	From    Cursor `json:"from"`
}

// Sweep removes batches until nothing is left, MaxDuration has passed, or mayContinue returns false. It begins with the progress of an earlier call, and
// calls mayContinue with the progress after each batch.
func (s *Sweeper) Sweep(ctx context.Context, in Sweep, progress SweepProgress, mayContinue func(SweepProgress) bool) (SweepResult, error) {
	until := s.Now().Add(s.MaxDuration)
	for {
		batch, err := s.Store.SweepRetention(ctx, in, progress.From)
		if err != nil {
			return SweepResult{}, err
		}
		progress = SweepProgress{Removed: progress.Removed + batch.Removed, Bytes: progress.Bytes + batch.Bytes, From: batch.Next}
		isAllowed := mayContinue(progress)
		out := SweepResult{Removed: progress.Removed, Bytes: progress.Bytes}
		if batch.Done {
			if out.OldestLeft, err = s.Store.OldestKept(ctx, in.Tenant, in.Kind); err != nil {
				return SweepResult{}, err
			}
			s.Logger.Debug("swept", zap.String("tenant", in.Tenant), zap.String("kind", in.Kind), zap.Int64("removed", out.Removed))
			return out, nil
		}
		if !isAllowed || !s.Now().Before(until) {
			out.Next = &progress.From
			return out, nil
		}
	}
}

// Collect runs all collectors, even if some fail.
func (s *Sweeper) Collect(ctx context.Context) (SweepResult, error) {
	var (
		out  SweepResult
		errs []error
	)
	for _, c := range s.Collectors {
		removed, bytes, err := c.Run(ctx)
		out.Removed, out.Bytes = out.Removed+removed, out.Bytes+bytes
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	if len(errs) > 0 {
		return out, agent.Errorf(agent.CodeUnavailable, "collect", "%w", errors.Join(errs...))
	}
	return out, nil
}
