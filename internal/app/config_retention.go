package app

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// Retention says how long what was stored is kept, and how often what is older is removed (docs/guides/retention.md).
type Retention struct {
	// Every is the interval of Temporal's schedule turnstone-retention.
	Every time.Duration `yaml:"every" default:"1h" help:"how often what is too old is removed; 0: never"`
	// Remember has to be longer than the namespace keeps histories.
	Remember time.Duration `yaml:"remember" default:"720h" help:"how long turns are known by their ids, whatever else of them is gone"`
	// Keep is for every tenant.
	Keep RetentionKeep `yaml:"keep"`
	// Tenants override Keep for single tenants.
	Tenants []TenantRetention `yaml:"tenants" help:"what is kept otherwise for single tenants (YAML only)"`
}

// RetentionKeep is how long each kind is kept.
type RetentionKeep struct {
	Events      Keep `yaml:"events" help:"finished streams; empty: as in events.retention"`
	Transcripts Keep `yaml:"transcripts" help:"what was said in sessions; 0 or empty: for ever"`
	Results     Keep `yaml:"results" help:"results of turns; 0 or empty: for ever"`
	Blobs       Keep `yaml:"blobs" help:"content; empty: as long as anything refers to it"`
	Traces      Keep `yaml:"traces" help:"what turns did, call by call; 0 or empty: for ever"`
	Audit       Keep `yaml:"audit" help:"the audit trail; empty: as in gateway.audit_keep"`
	Usage       Keep `yaml:"usage" help:"the ledger and its sums; 0 or empty: for ever"`
}

// TenantRetention overrides the retention of one tenant. Empty values are those of all tenants.
type TenantRetention struct {
	Tenant        string `yaml:"tenant"`
	RetentionKeep `yaml:",inline"`
}

// Keep is how long something is kept: a duration that may be in days, such as 90d; 0 is for ever. An empty one is unset.
type Keep string

const day = 24 * time.Hour

func parseKeep(text string) (Keep, error) {
	_, err := keepTime(text)
	return Keep(text), err
}

func keepTime(text string) (time.Duration, error) {
	if text == "" || text == "0" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = errors.New("is negative")
	}
	return d, err
}

// time returns the duration, nil if it is unset.
func (k Keep) time() *time.Duration {
	if k == "" {
		return nil
	}
	d, _ := keepTime(string(k)) // checked when it was read
	return &d
}

func (k *RetentionKeep) policy() retention.Keep {
	return retention.Keep{
		Events: k.Events.time(), Transcripts: k.Transcripts.time(), Results: k.Results.time(), Blobs: k.Blobs.time(), Traces: k.Traces.time(),
		Audit: k.Audit.time(), Usage: k.Usage.time(),
	}
}

// RetentionPolicy returns how long each kind is kept, by all settings together.
func (c *Config) RetentionPolicy() retention.Policy {
	set := &c.Retention
	p := retention.Policy{Every: set.Every, Remember: set.Remember, Keep: set.Keep.policy()}
	if p.Keep.Events == nil {
		events := max(c.Events.Retention, time.Hour) // the sweep runs once an hour
		p.Keep.Events = &events
	}
	if p.Keep.Audit == nil {
		p.Keep.Audit = &c.Gateway.AuditKeep
	}
	for i := range set.Tenants {
		p.Tenants = append(p.Tenants, retention.Tenant{Tenant: set.Tenants[i].Tenant, Keep: set.Tenants[i].policy()})
	}
	return p
}

func (l *loader) checkRetention() {
	p := l.cfg.RetentionPolicy()
	err := p.Validate("retention")
	if err == nil {
		return
	}
	all := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		all = many.Unwrap()
	}
	for _, one := range all {
		path, text := "retention", one.Error()
		if e, ok := errors.AsType[*agent.Error](one); ok {
			path, text = e.Field, e.Err.Error()
		}
		l.addFault(path, "%s", text)
	}
}
