// Package retention says how long each kind of data is kept, by default and for single tenants, removes what is older, and reports what is kept.
// The workflow Retention runs it.
package retention

import (
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The kinds of data. Each has its own duration in a policy.
const (
	Events      = "events"      // what turns streamed
	Transcripts = "transcripts" // what was said, and what middleware and references keep with a session
	Results     = "results"     // what turns answered
	Blobs       = "blobs"       // content that turns refer to
	Traces      = "traces"      // what turns and runs did, call by call
	Audit       = "audit"       // the audit trail
	Usage       = "usage"       // the ledger of model calls
)

// Turns is the kind of what is left of a turn without the other kinds: its id, and how it ended. It has no duration in a policy.
const Turns = "turns"

// Kinds lists the kinds that have a duration.
func Kinds() []string { return []string{Events, Traces, Results, Transcripts, Blobs, Audit, Usage} }

// Bounds of a policy.
const (
	minKeep     = time.Hour
	minUsage    = 32 * 24 * time.Hour // budgets are by the month
	maxKeep     = 100 * 365 * 24 * time.Hour
	minEvery    = time.Minute
	maxEvery    = 30 * 24 * time.Hour
	minRemember = 24 * time.Hour
	// defaultRemember is longer than Temporal usually keeps closed workflow executions.
	defaultRemember = 30 * 24 * time.Hour
	maxTenants      = 10_000
)

// Keep has the duration of each kind: 0 keeps it for ever, nil means the default of all tenants.
type Keep struct {
	Events      *time.Duration `yaml:"events"`
	Transcripts *time.Duration `yaml:"transcripts"`
	Results     *time.Duration `yaml:"results"`
	Blobs       *time.Duration `yaml:"blobs"`
	Traces      *time.Duration `yaml:"traces"`
	Audit       *time.Duration `yaml:"audit"`
	Usage       *time.Duration `yaml:"usage"`
}

// duration returns the duration of a kind, nil if it is not set.
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

// Policy says how long data is kept, and how often older data is removed.
type Policy struct {
	Every    time.Duration // between two runs of the workflow Retention; 0: nothing is removed
	Remember time.Duration // how long the id of a turn is kept at least; 0: 720h
	Keep     Keep          // of all tenants
	Tenants  []Tenant
}

// Validate returns an error that names each wrong field, below path. A duration is 0 or at least an hour; that of usage is at least 32 days, because
// budgets are monthly. Blobs are kept at least as long as transcripts, which refer to them.
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
	seen := make(map[string]bool, len(p.Tenants))
	for i := range p.Tenants {
		t, at := &p.Tenants[i], fmt.Sprintf("tenants[%d]", i)
		switch {
		case !agent.ValidName(t.Tenant):
			fail(at+".tenant", "want 1 to 128 of A-Z a-z 0-9 . _ -, got %.140q", t.Tenant)
			continue
		case seen[t.Tenant]:
			fail(at+".tenant", "%q is there twice", t.Tenant)
			continue
		}
		seen[t.Tenant] = true
		validateKeep(at, &t.Keep, fail)
		p.validateBlobs(at, t.Tenant, fail)
	}
	return errors.Join(errs...)
}

func validateKeep(at string, k *Keep, fail func(field, format string, args ...any)) {
	for _, kind := range Kinds() {
		d, least := k.duration(kind), minKeep
		if kind == Usage {
			least = minUsage
		}
		if d != nil && *d != 0 && (*d < least || *d > maxKeep) {
			fail(at+"."+kind, "is %s, want 0 (for ever) or %s to %s", *d, least, maxKeep)
		}
	}
}

func (p *Policy) validateBlobs(at, tenant string, fail func(field, format string, args ...any)) {
	blobs, transcripts := p.For(tenant, Blobs), p.For(tenant, Transcripts)
	if blobs > 0 && (transcripts == 0 || blobs < transcripts) {
		kept := "for ever"
		if transcripts > 0 {
			kept = "for " + transcripts.String()
		}
		fail(at+"."+Blobs, "is %s, but transcripts, which refer to content, are kept %s", blobs, kept)
	}
}

// For returns how long a kind of a tenant is kept; 0 means for ever.
func (p *Policy) For(tenant, kind string) time.Duration {
	d := p.Keep.duration(kind)
	if t := p.tenant(tenant); t != nil {
		if own := t.duration(kind); own != nil {
			d = own
		}
	}
	if d == nil {
		return 0
	}
	return *d
}

// HasOwn reports whether a tenant has a duration of its own for a kind.
func (p *Policy) HasOwn(tenant, kind string) bool {
	t := p.tenant(tenant)
	return t != nil && t.duration(kind) != nil
}

func (p *Policy) tenant(name string) *Tenant {
	for i := range p.Tenants {
		if p.Tenants[i].Tenant == name {
			return &p.Tenants[i]
		}
	}
	return nil
}

// Sweeps lists the sweeps of a tenant, in order. Tenant "" owns streams without a turn, and audit records of callers without a tenant.
func (p *Policy) Sweeps(tenant string, now time.Time) []Sweep {
	var (
		all     []Sweep
		longest = p.remember()
		forever bool // some kind of a turn's data is kept for ever
		follow  time.Duration
	)
	if tenant == "" {
		return p.withoutTenant(now)
	}
	for _, kind := range []string{Events, Traces, Results, Transcripts} {
		d := p.For(tenant, kind)
		forever, longest = forever || d == 0, max(longest, d)
		if kind != Events {
			follow = max(follow, d)
		}
		if d > 0 {
			all = append(all, Sweep{Tenant: tenant, Kind: kind, Before: now.Add(-d)})
		}
	}
	allExpire := p.For(tenant, Traces) > 0 && p.For(tenant, Results) > 0 && p.For(tenant, Transcripts) > 0
	switch d := p.For(tenant, Blobs); {
	case d > 0:
		all, longest = append(all, Sweep{Tenant: tenant, Kind: Blobs, Before: now.Add(-d)}), max(longest, d)
	case allExpire:
		all = append(all, Sweep{Tenant: tenant, Kind: Blobs, Before: now.Add(-follow), Follow: true})
	}
	if !forever {
		all = append(all, Sweep{Tenant: tenant, Kind: Turns, Before: now.Add(-longest)})
	}
	for _, kind := range []string{Audit, Usage} {
		if d := p.For(tenant, kind); d > 0 {
			all = append(all, Sweep{Tenant: tenant, Kind: kind, Before: now.Add(-d)})
		}
	}
	return all
}

// withoutTenant lists the sweeps of data that has no tenant. It has the default durations.
func (p *Policy) withoutTenant(now time.Time) []Sweep {
	var all []Sweep
	if d := p.For("", Events); d > 0 {
		all = append(all, Sweep{Kind: Events, Before: now.Add(-max(d, p.remember()))})
	}
	if d := p.For("", Audit); d > 0 {
		all = append(all, Sweep{Kind: Audit, Before: now.Add(-d)})
	}
	return all
}

func (p *Policy) remember() time.Duration {
	if p.Remember == 0 {
		return defaultRemember
	}
	return p.Remember
}
