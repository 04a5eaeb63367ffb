// Package retention says how long what is kept for a time is kept: of which kinds it is, for how long by default, and of which tenants
// otherwise. What removes it is the workflow Retention.
package retention

import (
	"errors"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

// The kinds, each with a time of its own.
const (
	Events      = "events"      // what turns streamed
	Transcripts = "transcripts" // what was said, and what middleware and references keep with a session
	Results     = "results"     // what turns answered
	Blobs       = "blobs"       // content that turns refer to
	Traces      = "traces"      // what turns and runs did, call by call
	Audit       = "audit"       // the audit trail
	Usage       = "usage"       // the ledger of model calls
)

// Turns is what remains of a turn without all of that: its id, and how it ended. It has no time of its own.
const Turns = "turns"

// Kinds lists them in the order in which they are swept.
func Kinds() []string { return []string{Events, Traces, Results, Transcripts, Blobs, Audit, Usage} }

// Bounds of a policy.
const (
	leastKeep     = time.Hour
	leastUsage    = 32 * 24 * time.Hour // budgets are by the month
	mostKeep      = 100 * 365 * 24 * time.Hour
	leastEvery    = time.Minute
	mostEvery     = 30 * 24 * time.Hour
	leastRemember = 24 * time.Hour
	// usualRemember is longer than namespaces of Temporal usually keep what has ended.
	usualRemember = 30 * 24 * time.Hour
	maxTenants    = 10_000
)

// Keep is how long each kind is kept; 0 is for ever, nil as it is for all tenants.
type Keep struct {
	Events      *time.Duration `yaml:"events"`
	Transcripts *time.Duration `yaml:"transcripts"`
	Results     *time.Duration `yaml:"results"`
	Blobs       *time.Duration `yaml:"blobs"`
	Traces      *time.Duration `yaml:"traces"`
	Audit       *time.Duration `yaml:"audit"`
	Usage       *time.Duration `yaml:"usage"`
}

// of is the time of a kind, nil where there is none.
func (k *Keep) of(kind string) *time.Duration {
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

// Tenant is what of a policy is otherwise for one tenant.
type Tenant struct {
	Tenant string `yaml:"tenant"`
	Keep   `yaml:",inline"`
}

// Policy is how long everything is kept.
type Policy struct {
	Every    time.Duration // between two sweeps; 0: nothing is swept
	Remember time.Duration // how long a turn's id is known, whatever else is gone; 0: 720h
	Keep     Keep          // of all tenants
	Tenants  []Tenant
}

// Validate checks a policy; errors name fields below path. Times are 0 or at least an hour, those of usage at least 32 days: budgets are by the
// month. What blobs are kept for cannot be less than transcripts are: what a session is to be told again has to be there.
func (p *Policy) Validate(path string) error {
	var errs []error
	fail := func(field, format string, args ...any) {
		errs = append(errs, agent.Invalid(path+"."+field, format, args...))
	}
	if p.Every != 0 && (p.Every < leastEvery || p.Every > mostEvery) {
		fail("every", "is %s, want 0 or %s to %s", p.Every, leastEvery, mostEvery)
	}
	if p.Remember != 0 && (p.Remember < leastRemember || p.Remember > mostKeep) {
		fail("remember", "is %s, want %s to %s", p.Remember, leastRemember, mostKeep)
	}
	checkKeep("keep", &p.Keep, fail)
	p.checkBlobs("keep", "", fail)
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
		checkKeep(at, &t.Keep, fail)
		p.checkBlobs(at, t.Tenant, fail)
	}
	return errors.Join(errs...)
}

func checkKeep(at string, k *Keep, fail func(field, format string, args ...any)) {
	for _, kind := range Kinds() {
		d, least := k.of(kind), leastKeep
		if kind == Usage {
			least = leastUsage
		}
		if d != nil && *d != 0 && (*d < least || *d > mostKeep) {
			fail(at+"."+kind, "is %s, want 0 (for ever) or %s to %s", *d, least, mostKeep)
		}
	}
}

func (p *Policy) checkBlobs(at, tenant string, fail func(field, format string, args ...any)) {
	blobs, transcripts := p.For(tenant, Blobs), p.For(tenant, Transcripts)
	if blobs > 0 && (transcripts == 0 || blobs < transcripts) {
		said := "for ever"
		if transcripts > 0 {
			said = "for " + transcripts.String()
		}
		fail(at+"."+Blobs, "is %s, but transcripts, which refer to content, are kept %s", blobs, said)
	}
}

// For says how long a kind of a tenant is kept; 0 is for ever.
func (p *Policy) For(tenant, kind string) time.Duration {
	d := p.Keep.of(kind)
	if t := p.tenant(tenant); t != nil {
		if own := t.of(kind); own != nil {
			d = own
		}
	}
	if d == nil {
		return 0
	}
	return *d
}

// Own reports whether a kind of a tenant has a time that is not everybody's.
func (p *Policy) Own(tenant, kind string) bool {
	t := p.tenant(tenant)
	return t != nil && t.of(kind) != nil
}

func (p *Policy) tenant(name string) *Tenant {
	for i := range p.Tenants {
		if p.Tenants[i].Tenant == name {
			return &p.Tenants[i]
		}
	}
	return nil
}

// Sweeps lists what is to be swept of a tenant, in order. Tenant "" has streams without a turn, and audit records of callers without a tenant.
func (p *Policy) Sweeps(tenant string, now time.Time) []Sweep {
	var (
		all     []Sweep
		longest = p.remember()
		ever    bool // something of a turn is kept for ever
		follow  time.Duration
	)
	if tenant == "" {
		return p.withoutTenant(now)
	}
	for _, kind := range []string{Events, Traces, Results, Transcripts} {
		d := p.For(tenant, kind)
		ever, longest = ever || d == 0, max(longest, d)
		if kind != Events {
			follow = max(follow, d)
		}
		if d > 0 {
			all = append(all, Sweep{Tenant: tenant, Kind: kind, Before: now.Add(-d)})
		}
	}
	referred := p.For(tenant, Traces) > 0 && p.For(tenant, Results) > 0 && p.For(tenant, Transcripts) > 0
	switch d := p.For(tenant, Blobs); {
	case d > 0:
		all, longest = append(all, Sweep{Tenant: tenant, Kind: Blobs, Before: now.Add(-d)}), max(longest, d)
	case referred:
		all = append(all, Sweep{Tenant: tenant, Kind: Blobs, Before: now.Add(-follow), Follow: true})
	}
	if !ever {
		all = append(all, Sweep{Tenant: tenant, Kind: Turns, Before: now.Add(-longest)})
	}
	for _, kind := range []string{Audit, Usage} {
		if d := p.For(tenant, kind); d > 0 {
			all = append(all, Sweep{Tenant: tenant, Kind: kind, Before: now.Add(-d)})
		}
	}
	return all
}

// withoutTenant is what belongs to nobody: it is kept as it is for all.
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
		return usualRemember
	}
	return p.Remember
}
