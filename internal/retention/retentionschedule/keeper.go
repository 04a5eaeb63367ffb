// Package retentionschedule keeps the schedule of Retention in Temporal, plans and does its sweeps, and says what is kept.
package retentionschedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"go.uber.org/zap"

	"github.com/turnstone-run/turnstone/activities/keeping"
	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/postgres"
	"github.com/turnstone-run/turnstone/internal/retention"
	"github.com/turnstone-run/turnstone/workflows"
)

// Store keeps what is swept; postgres.Store does.
type Store interface {
	RetentionTenants(ctx context.Context, after string, limit int) ([]string, error)
	RetentionDue(ctx context.Context, all []postgres.Sweep) ([]postgres.Sweep, error)
	SweepRetention(ctx context.Context, w postgres.Sweep, at postgres.SweepCursor) (postgres.Swept, error)
	StoredKind(ctx context.Context, tenant, kind string, before time.Time) (postgres.StoredKind, error)
	OldestKept(ctx context.Context, tenant, kind string) (*time.Time, error)
}

// Collector removes what has no tenant's time: content that nobody refers to, payloads, tombstones.
type Collector struct {
	Name string
	Run  func(ctx context.Context) (removed, bytes int64, err error)
}

// Config is what [New] needs.
type Config struct {
	Policy     retention.Policy
	Store      Store
	Schedules  client.ScheduleClient
	Collectors []Collector
	TaskQueue  string      // empty: the house's
	Logger     *zap.Logger // nil: none
	Now        func() time.Time
}

// Keeper plans, sweeps and reports.
type Keeper struct{ Config }

var (
	_ keeping.Plan    = (*Keeper)(nil)
	_ keeping.Sweeper = (*Keeper)(nil)
)

// New checks the configuration. The policy was checked by whoever read it.
func New(c Config) (*Keeper, error) {
	switch {
	case c.Store == nil:
		return nil, errors.New("retention: Store is missing")
	case c.Schedules == nil:
		return nil, errors.New("retention: Schedules is missing")
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.TaskQueue = cmp.Or(c.TaskQueue, workflows.TaskQueue)
	return &Keeper{c}, nil
}

// Sweeps implements [keeping.Plan]. What belongs to no tenant comes first.
func (k *Keeper) Sweeps(ctx context.Context, after string, now time.Time, limit int) (due []keeping.Sweep, next string, err error) {
	tenants, err := k.Store.RetentionTenants(ctx, after, limit)
	if err != nil {
		return nil, "", err
	}
	if len(tenants) == limit {
		next = tenants[limit-1]
	}
	if after == "" {
		tenants = append([]string{""}, tenants...)
	}
	var all []postgres.Sweep
	for _, tenant := range tenants {
		for _, s := range k.Policy.Sweeps(tenant, now) {
			all = append(all, postgres.Sweep(s))
		}
	}
	found, err := k.Store.RetentionDue(ctx, all)
	if err != nil {
		return nil, "", err
	}
	for _, s := range found {
		due = append(due, keeping.Sweep(s))
	}
	return due, next, nil
}

// Sweep implements [keeping.Sweeper].
func (k *Keeper) Sweep(ctx context.Context, s keeping.Sweep, at keeping.Cursor) (keeping.Batch, error) {
	done, err := k.Store.SweepRetention(ctx, postgres.Sweep(s), postgres.SweepCursor(at))
	if err != nil {
		return keeping.Batch{}, err
	}
	return keeping.Batch{Removed: done.Removed, Bytes: done.Bytes, Next: keeping.Cursor(done.Next), Done: done.Done}, nil
}

// Oldest implements [keeping.Sweeper].
func (k *Keeper) Oldest(ctx context.Context, s keeping.Sweep) (*time.Time, error) {
	return k.Store.OldestKept(ctx, s.Tenant, s.Kind)
}

// Collect implements [keeping.Sweeper]. A collector that fails does not hold up the others.
func (k *Keeper) Collect(ctx context.Context) (removed, bytes int64, err error) {
	var faults []error
	for _, c := range k.Collectors {
		n, size, err := c.Run(ctx)
		removed, bytes = removed+n, bytes+size
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	if len(faults) > 0 {
		return removed, bytes, agent.Errorf(agent.CodeUnavailable, "collect", "%w", errors.Join(faults...))
	}
	return removed, bytes, nil
}

// Bounds of a report.
const (
	usualTenants = 20
	mostTenants  = 100
)

// Report says what a tenant keeps and for how long, and how the sweeps stand; [agent.AnyTenant] is all tenants, a page of them (20 by default,
// 100 at most).
func (k *Keeper) Report(ctx context.Context, tenant string, p agent.Page) (retention.Report, error) {
	status, err := k.Status(ctx)
	if err != nil {
		return retention.Report{}, err
	}
	out := retention.Report{Schedule: status, Tenants: []retention.TenantReport{}}
	names := []string{tenant}
	if tenant == agent.AnyTenant {
		size := min(cmp.Or(max(p.Size, 0), usualTenants), mostTenants)
		if names, err = k.Store.RetentionTenants(ctx, p.Token, size); err != nil {
			return retention.Report{}, err
		}
		if len(names) == size {
			out.Next = names[size-1]
		}
	}
	for _, name := range names {
		one, err := k.tenant(ctx, name)
		if err != nil {
			return retention.Report{}, err
		}
		out.Tenants = append(out.Tenants, one)
	}
	return out, nil
}

func (k *Keeper) tenant(ctx context.Context, name string) (retention.TenantReport, error) {
	before := map[string]time.Time{}
	for _, s := range k.Policy.Sweeps(name, k.Now()) {
		before[s.Kind] = s.Before
	}
	out := retention.TenantReport{Tenant: name}
	for _, kind := range retention.Kinds() {
		there, err := k.Store.StoredKind(ctx, name, kind, before[kind])
		if err != nil {
			return out, err
		}
		unit := "turns"
		if kind == retention.Audit || kind == retention.Usage {
			unit = "rows"
		}
		out.Kinds = append(out.Kinds, retention.KindReport{
			Kind: kind, Keep: k.Policy.For(name, kind).String(), Own: k.Policy.Own(name, kind), Unit: unit, Stored: there.Count, More: there.More,
			Due: there.Due, Oldest: there.Oldest,
		})
	}
	return out, nil
}
