package gatewaytest

import (
	"context"
	"fmt"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// Retention is a [gateway.Retention] that deletes nothing. It is not safe for concurrent use.
type Retention struct {
	Status retention.Status
	Calls  []string
	Err    error // if not nil, the error of every call
}

// NewRetention returns a Retention with a schedule.
func NewRetention() *Retention {
	return &Retention{Status: retention.Status{
		ID: "turnstone-retention", Scheduled: true, Every: "1h0m0s", LastRun: new(Epoch()), NextRun: new(Epoch().Add(time.Hour)),
	}}
}

// Report implements [gateway.Retention]. There are two tenants, each on its own page.
func (r *Retention) Report(_ context.Context, tenant string, p agent.Page) (retention.Report, error) {
	r.Calls = append(r.Calls, fmt.Sprintf("report %s %s %d", tenant, p.Token, p.Size))
	week := Epoch().Add(-7 * 24 * time.Hour)
	one := retention.TenantReport{Tenant: "acme", Kinds: []retention.KindReport{
		{Kind: retention.Events, Keep: "168h0m0s", Unit: "turns", Stored: 41, Due: 3, Oldest: &week},
		{Kind: retention.Transcripts, Keep: "0s", Unit: "turns", Stored: 100_000, More: true, Oldest: &week},
		{Kind: retention.Usage, Keep: "0s", Unit: "rows"},
	}}
	next := ""
	switch {
	case tenant != agent.AnyTenant:
		one.Tenant = tenant
	case p.Token == "acme":
		one = retention.TenantReport{Tenant: "zoo\x1b[2J", Kinds: []retention.KindReport{
			{Kind: retention.Events, Keep: "36h30m0s", Own: true, Unit: "turns", Stored: 1},
		}}
	default:
		next = "acme"
	}
	return retention.Report{Schedule: r.Status, Tenants: []retention.TenantReport{one}, Next: next}, r.Err
}

// Trigger implements [gateway.Retention].
func (r *Retention) Trigger(context.Context) (retention.Status, error) {
	r.Calls = append(r.Calls, "trigger")
	r.Status.Running = r.Status.Scheduled
	return r.Status, r.result()
}

// Pause implements [gateway.Retention].
func (r *Retention) Pause(_ context.Context, paused bool, note string) (retention.Status, error) {
	r.Calls = append(r.Calls, fmt.Sprintf("pause %t %s", paused, note))
	r.Status.Paused, r.Status.Note, r.Status.Running = paused, note, false
	return r.Status, r.result()
}

func (r *Retention) result() error {
	if r.Err == nil && !r.Status.Scheduled {
		return agent.Errorf(agent.CodeConflict, "", "there is no schedule: retention.every is 0")
	}
	return r.Err
}
