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

// Report has the status of the sweeps, and for each tenant how much data is stored and how long it is kept.
type Report struct {
	Schedule Status         `json:"schedule"`
	Tenants  []TenantReport `json:"tenants"`
	Next     string         `json:"next_page_token"`
}

// Status is the state of the schedule of the sweeps.
type Status struct {
	ID        string     `json:"id"`
	Scheduled bool       `json:"scheduled"` // whether there is a schedule; without one, nothing is swept
	Every     string     `json:"every"`
	Paused    bool       `json:"paused"`
	Note      string     `json:"note"`
	Running   bool       `json:"running"`
	LastRun   *time.Time `json:"last_run"`
	NextRun   *time.Time `json:"next_run"` // null while it is paused
}

// TenantReport is the report of one tenant.
type TenantReport struct {
	Tenant string       `json:"tenant"`
	Kinds  []KindReport `json:"kinds"`
}

// KindReport is the report of one kind of a tenant's data.
type KindReport struct {
	Kind   string     `json:"kind"`
	Keep   string     `json:"keep"`   // a duration; 0s: without end
	Own    bool       `json:"own"`    // whether the policy has a duration for this tenant
	Unit   string     `json:"unit"`   // of the numbers: turns (with data of this kind) or rows
	Stored int64      `json:"stored"` // number that was counted
	More   bool       `json:"more"`   // whether more are stored than were counted
	Due    int64      `json:"due"`    // how many of the counted ones the next sweep may remove
	Oldest *time.Time `json:"oldest"`
}

// StoredKind counts the stored data of a kind.
type StoredKind struct {
	Count  int64
	More   bool       // whether more are stored than were counted
	Due    int64      // how many of the counted ones are older than the time of the query
	Oldest *time.Time // nil if nothing is stored
}

// ReportStore counts stored data.
type ReportStore interface {
	RetentionTenants(ctx context.Context, after string, limit int) ([]string, error)
	StoredKind(ctx context.Context, tenant, kind string, before time.Time) (StoredKind, error)
}

// Schedule runs the sweeps.
type Schedule interface {
	Status(ctx context.Context) (Status, error)
}

// Reporter makes reports. All fields are required.
type Reporter struct {
	Policy   Policy
	Store    ReportStore
	Schedule Schedule
}

// Report returns the report of a tenant, or with [agent.AnyTenant] a page of all tenants: 20 by default, at most 100.
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
		report, err := r.reportTenant(ctx, name)
		if err != nil {
			return Report{}, err
		}
		out.Tenants = append(out.Tenants, report)
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
