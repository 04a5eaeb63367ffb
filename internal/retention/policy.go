// Package retention has the policy of how long each kind of data is kept, by default and for single tenants. It removes older data and reports what is
// stored. The workflow Retention runs it.
package retention

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The kinds of data. Each has its own duration in a policy.
const (
	Events      = "events"      // events that turns streamed
	Transcripts = "transcripts" // messages of sessions, and data that middleware and references store with a session
	Results     = "results"     // answers of turns
	Blobs       = "blobs"       // content to which turns refer
	Traces      = "traces"      // calls of turns and runs
	Audit       = "audit"       // the audit trail
	Usage       = "usage"       // the ledger of model calls
)

// Turns is the kind of the remaining data of a turn, its id and outcome. It has no duration in a policy.
const Turns = "turns"

// Kinds lists the kinds that have a duration.
func Kinds() []string { return []string{Events, Traces, Results, Transcripts, Blobs, Audit, Usage} }

// Bounds of a policy.
const (
	minKeep     = time.Hour
	minUsage    = 32 * 24 * time.Hour // budgets are monthly
	maxKeep     = 100 * 365 * 24 * time.Hour
	minEvery    = time.Minute
	maxEvery    = 30 * 24 * time.Hour
	minRemember = 24 * time.Hour
	// defaultRemember is longer than the usual retention of closed workflow executions in Temporal.
	defaultRemember = 30 * 24 * time.Hour
	maxTenants      = 10_000
)

// Keep has the duration of each kind. 0 keeps it without end; nil means the default for all tenants.
type Keep struct {
	Events      *time.Duration `yaml:"events"`
	Transcripts *time.Duration `yaml:"transcripts"`
	Results     *time.Duration `yaml:"results"`
	Blobs       *time.Duration `yaml:"blobs"`
	Traces      *time.Duration `yaml:"traces"`
	Audit       *time.Duration `yaml:"audit"`
	Usage       *time.Duration `yaml:"usage"`
}

// duration returns the duration of a kind, or nil if it is not set.
func (k *Keep) duration(kind string) *time.Duration {
	switch kind {
	case Events:
		return k.Events
	case Transcripts:
		return k.Transcripts
	case Results:
		return k.Results
	case Blobs:
		return k.Blobs
	case Traces:
		return k.Traces
	case Audit:
		return k.Audit
	case Usage:
		return k.Usage
	default:
		return nil
	}
}

// Tenant has the durations of one tenant that differ from the default.
type Tenant struct {
	Tenant string `yaml:"tenant"`
	Keep   `yaml:",inline"`
}

// Policy is how long data is kept, and how often older data is removed.
type Policy struct {
	Every    time.Duration // interval between two runs of the workflow Retention; 0: nothing is removed
	Remember time.Duration // minimum for which the id of a turn is kept; 0: 720h
	Keep     Keep          // the default for all tenants
	Tenants  []Tenant
}

// Validate returns an error that names each invalid field with path before it. A duration must be 0 or at least an hour, and that of usage at least 32
// days. Blobs must be kept at least as long as transcripts, which refer to them.
func (p *Policy) Validate(path string) error {
	var errs []error
	fail := func(field, format string, args ...any) {
		errs = append(errs, agent.Invalid(path+"."+field, format, args...))
	}
	if p.Every != 0 && (p.Every < minEvery || p.Every > maxEvery) {
		fail("every", "is %s, want 0 or %s to %s", p.Every, minEvery, maxEvery)
	}
	if p.Remember != 0 && (p.Remember < minRemember || p.Remember > maxKeep) {
		fail("remember", "is %s, want %s to %s", p.Remember, minRemember, maxKeep)
	}
	validateKeep("keep", &p.Keep, fail)
	p.validateBlobs("keep", "", fail)
	if len(p.Tenants) > maxTenants {
		fail("tenants", "are %d, at most %d", len(p.Tenants), maxTenants)
		return errors.Join(errs...)
	}
	isListed := make(map[string]bool, len(p.Tenants))
	for i := range p.Tenants {
		t, path := &p.Tenants[i], fmt.Sprintf("tenants[%d]", i)
		switch {
		case !agent.ValidName(t.Tenant):
			fail(path+".tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -, got %.140q", t.Tenant)
			continue
		case isListed[t.Tenant]:
			fail(path+".tenant", "%q is there twice", t.Tenant)
			continue
		}
		isListed[t.Tenant] = true
		validateKeep(path, &t.Keep, fail)
		p.validateBlobs(path, t.Tenant, fail)
	}
	return errors.Join(errs...)
}

// validateKeep calls fail for each duration out of its bounds.
func validateKeep(path string, k *Keep, fail func(field, format string, args ...any)) {
	for _, kind := range Kinds() {
		d, minimum := k.duration(kind), minKeep
		if kind == Usage {
			minimum = minUsage
		}
		if d != nil && *d != 0 && (*d < minimum || *d > maxKeep) {
			fail(path+"."+kind, "is %s, want 0 (for ever) or %s to %s", *d, minimum, maxKeep)
		}
	}
}

// validateBlobs calls fail if a tenant's blobs are not kept as long as its transcripts.
func (p *Policy) validateBlobs(path, tenant string, fail func(field, format string, args ...any)) {
	blobs, transcripts := p.For(tenant, Blobs), p.For(tenant, Transcripts)
	if blobs > 0 && (transcripts == 0 || blobs < transcripts) {
		kept := "for ever"
		if transcripts > 0 {
			kept = "for " + transcripts.String()
		}
		fail(path+"."+Blobs, "is %s, but transcripts, which refer to content, are kept %s", blobs, kept)
	}
}

// For returns how long a kind of a tenant's data is kept. 0 means without end.
func (p *Policy) For(tenant, kind string) time.Duration {
	d := p.tenantDuration(tenant, kind)
	if d == nil {
		d = p.Keep.duration(kind)
	}
	if d == nil {
		return 0
	}
	return *d
}

// HasOwn reports whether the policy has a duration of a kind for this tenant.
func (p *Policy) HasOwn(tenant, kind string) bool { return p.tenantDuration(tenant, kind) != nil }

// tenantDuration returns a tenant's own duration of a kind, or nil if the default applies.
func (p *Policy) tenantDuration(tenant, kind string) *time.Duration {
	i := slices.IndexFunc(p.Tenants, func(t Tenant) bool { return t.Tenant == tenant })
	if i < 0 {
		return nil
	}
	return p.Tenants[i].duration(kind)
}

// Sweeps returns the sweeps of a tenant, in order. Tenant "" has streams without a turn, and audit records of callers without a tenant.
func (p *Policy) Sweeps(tenant string, now time.Time) []Sweep {
	if tenant == "" {
		return p.sweepsWithoutTenant(now)
	}
	var all []Sweep
	add := func(kind string) (keep time.Duration) {
		if keep = p.For(tenant, kind); keep > 0 {
			all = append(all, Sweep{Tenant: tenant, Kind: kind, Before: now.Add(-keep)})
		}
		return keep
	}
	events, traces, results, transcripts := add(Events), add(Traces), add(Results), add(Transcripts)
	referrersExpire := traces > 0 && results > 0 && transcripts > 0
	if blobs := add(Blobs); blobs == 0 && referrersExpire {
		before := now.Add(-max(traces, results, transcripts))
		all = append(all, Sweep{Tenant: tenant, Kind: Blobs, Before: before, Follow: true})
	}
	if referrersExpire && events > 0 { // no data of a turn is kept without end
		longest := max(p.remember(), events, traces, results, transcripts, p.For(tenant, Blobs))
		all = append(all, Sweep{Tenant: tenant, Kind: Turns, Before: now.Add(-longest)})
	}
	add(Audit)
	add(Usage)
	return all
}

// sweepsWithoutTenant returns the sweeps of data without a tenant, for which the default durations apply.
func (p *Policy) sweepsWithoutTenant(now time.Time) []Sweep {
	var all []Sweep
	if d := p.For("", Events); d > 0 {
		all = append(all, Sweep{Kind: Events, Before: now.Add(-max(d, p.remember()))})
	}
	if d := p.For("", Audit); d > 0 {
		all = append(all, Sweep{Kind: Audit, Before: now.Add(-d)})
	}
	return all
}

func (p *Policy) remember() time.Duration { return cmp.Or(p.Remember, defaultRemember) }
