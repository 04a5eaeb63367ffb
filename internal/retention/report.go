package retention

import (
	"cmp"
	"context"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// Bounds of a report.
const (
	defaultTenants = 20
	maxReported    = 100
)

// Report says what is kept and for how long, and how the sweeps stand.
type Report struct {
	Schedule Status         `json:"schedule"`
	Tenants  []TenantReport `json:"tenants"`
	Next     string         `json:"next_page_token"`
}

// Status is the state of the schedule of the sweeps.
type Status struct {
	ID        string     `json:"id"`
	Scheduled bool       `json:"scheduled"` // false: there is no schedule, and nothing is swept
	Every     string     `json:"every"`
	Paused    bool       `json:"paused"`
	Note      string     `json:"note"`
	Running   bool       `json:"running"`
	LastRun   *time.Time `json:"last_run"`
	NextRun   *time.Time `json:"next_run"` // null while it is paused
}

// TenantReport is what is kept of one tenant.
type TenantReport struct {
	Tenant string       `json:"tenant"`
	Kinds  []KindReport `json:"kinds"`
}

// KindReport is what is kept of one kind.
type KindReport struct {
	Kind   string     `json:"kind"`
	Keep   string     `json:"keep"` // a duration; 0s: for ever
	Own    bool       `json:"own"`  // the policy has a duration for this tenant alone
	Unit   string     `json:"unit"` // turns that still have data of this kind, or rows
	Stored int64      `json:"stored"`
	More   bool       `json:"more"` // there are more than were counted
	Due    int64      `json:"due"`  // of those counted, what the next sweep may remove
	Oldest *time.Time `json:"oldest"`
}

// StoredKind is a count of what is stored of a kind.
type StoredKind struct {
	Count  int64
	More   bool       // there are more than were counted
	Due    int64      // of those counted, how many are older than the time that was asked about
	Oldest *time.Time // nil: nothing is stored
}

// ReportStore counts what is kept.
type ReportStore interface {
	RetentionTenants(ctx context.Context, after string, limit int) ([]string, error)
	StoredKind(ctx context.Context, tenant, kind string, before time.Time) (StoredKind, error)
}

// Schedule runs the sweeps.
type Schedule interface {
	Status(ctx context.Context) (Status, error)
}

// Reporter makes reports. All its fields are required.
type Reporter struct {
	Policy   Policy
	Store    ReportStore
	Schedule Schedule
}

// Report returns the report of a tenant. With [agent.AnyTenant] it has a page of all tenants: 20 by default, 100 at most.
func (r *Reporter) Report(ctx context.Context, tenant string, p agent.Page) (Report, error) {
	status, err := r.Schedule.Status(ctx)
	if err != nil {
		return Report{}, err
	}
	out := Report{Schedule: status, Tenants: []TenantReport{}}
	tenants := []string{tenant}
	if tenant == agent.AnyTenant {
		size := min(cmp.Or(max(p.Size, 0), defaultTenants), maxReported)
		if tenants, err = r.Store.RetentionTenants(ctx, p.Token, size); err != nil {
			return Report{}, err
		}
		if len(tenants) == size {
			out.Next = tenants[size-1]
		}
	}
	for _, name := range tenants {
		one, err := r.reportTenant(ctx, name)
		if err != nil {
			return Report{}, err
		}
		out.Tenants = append(out.Tenants, one)
	}
	return out, nil
}

func (r *Reporter) reportTenant(ctx context.Context, name string) (TenantReport, error) {
	before := map[string]time.Time{}
	for _, s := range r.Policy.Sweeps(name, time.Now()) {
		before[s.Kind] = s.Before
	}
	out := TenantReport{Tenant: name}
	for _, kind := range Kinds() {
		stored, err := r.Store.StoredKind(ctx, name, kind, before[kind])
		if err != nil {
			return out, err
		}
		unit := "turns"
		if kind == Audit || kind == Usage {
			unit = "rows"
		}
		out.Kinds = append(out.Kinds, KindReport{
			Kind: kind, Keep: r.Policy.For(name, kind).String(), Own: r.Policy.HasOwn(name, kind), Unit: unit, Stored: stored.Count, More: stored.More,
			Due: stored.Due, Oldest: stored.Oldest,
		})
	}
	return out, nil
}
