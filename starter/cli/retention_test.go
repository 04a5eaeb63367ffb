package cli

import (
	"context"
	"testing"
	"time"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/retention"
)

// housekeeping has two tenants, one a page.
type housekeeping struct {
	status retention.Status
}

func (h *housekeeping) Report(_ context.Context, tenant string, p agent.Page) (retention.Report, error) {
	week := gatewaytest.Epoch().Add(-7 * 24 * time.Hour)
	acme := retention.TenantReport{Tenant: "acme", Kinds: []retention.KindReport{
		{Kind: "events", Keep: "168h0m0s", Unit: "turns", Stored: 41, Due: 3, Oldest: &week},
		{Kind: "transcripts", Keep: "0s", Unit: "turns", Stored: 100_000, More: true, Oldest: &week},
		{Kind: "usage", Keep: "0s", Unit: "rows"},
	}}
	zoo := retention.TenantReport{Tenant: "zoo\x1b[2J", Kinds: []retention.KindReport{{Kind: "events", Keep: "36h30m0s", Own: true, Unit: "turns", Stored: 1}}}
	out := retention.Report{Schedule: h.status, Tenants: []retention.TenantReport{acme}, Next: "acme"}
	if p.Token == "acme" {
		out.Tenants, out.Next = []retention.TenantReport{zoo}, ""
	}
	if tenant != agent.AnyTenant {
		out.Next = ""
	}
	return out, nil
}

func (h *housekeeping) Trigger(context.Context) (retention.Status, error) {
	if !h.status.Scheduled {
		return h.status, agent.Errorf(agent.CodeConflict, "", "there is no schedule: retention.every is 0")
	}
	h.status.Running = true
	return h.status, nil
}

func (h *housekeeping) Pause(_ context.Context, paused bool, note string) (retention.Status, error) {
	h.status.Paused, h.status.Note, h.status.Running = paused, note, false
	return h.status, nil
}

func TestRetention(t *testing.T) {
	h := &housekeeping{status: retention.Status{
		ID: "turnstone-retention", Scheduled: true, Every: "1h0m0s", LastRun: new(gatewaytest.Epoch()), NextRun: new(gatewaytest.Epoch().Add(time.Hour)),
	}}
	b := setupWith(t, func(cfg *gateway.Config) { cfg.Retention = h })
	line := func(want int, args ...string) commandLine {
		return commandLine{args: append([]string{"retention"}, args...), want: want}
	}
	b.steps(
		line(0),
		line(0, "--limit", "1"),
		line(exitUsage, "--limit", "-1"),
		line(0, "--tenant", "acme"),
		line(0, "run", "--dry-run"),
		line(0, "run"),
		line(0, "pause", "--reason", "restoring a backup"),
		line(0, "resume"),
		line(0, "pause", "-o", "json"),
		line(0, "--tenant", "acme", "-o", "json"),
		line(exitUsage, "run", "now"),
	)
	h.status = retention.Status{}
	b.steps(line(0, "--limit", "1"), line(exitUsage, "run"))
	golden(t, "retention", b.screen.String())
}
