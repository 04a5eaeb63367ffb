package retention_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/retention"
)

const day = 24 * time.Hour

func days(n int) *time.Duration { return new(time.Duration(n) * day) }

func everything(n int) retention.Keep {
	return retention.Keep{
		Events: days(n), Transcripts: days(n), Results: days(n), Blobs: days(n), Traces: days(n), Audit: days(n), Usage: days(n),
	}
}

func TestValidate(t *testing.T) {
	good := retention.Policy{
		Every: time.Hour, Keep: everything(40),
		Tenants: []retention.Tenant{{Tenant: "acme", Keep: retention.Keep{Events: days(1), Blobs: days(0)}}, {Tenant: "b", Keep: everything(0)}},
	}
	require.NoError(t, good.Validate("retention"))
	require.NoError(t, new(retention.Policy).Validate("retention"), "nothing is swept")
	for want, spoil := range map[string]func(*retention.Policy){
		"retention.every: ":            func(p *retention.Policy) { p.Every = time.Second },
		"retention.remember: ":         func(p *retention.Policy) { p.Remember = time.Hour },
		"retention.keep.events: ":      func(p *retention.Policy) { p.Keep.Events = new(time.Minute) },
		"retention.keep.audit: ":       func(p *retention.Policy) { p.Keep.Audit = new(-time.Hour) },
		"retention.keep.usage: ":       func(p *retention.Policy) { p.Keep.Usage = days(31) },
		"retention.keep.results: ":     func(p *retention.Policy) { p.Keep.Results = days(37000) },
		"retention.keep.blobs: ":       func(p *retention.Policy) { p.Keep.Blobs = days(39) },
		"retention.tenants[0].blobs: ": func(p *retention.Policy) { p.Tenants[0].Blobs, p.Tenants[0].Transcripts = days(9), days(0) },
		"retention.tenants[1].tenant: ": func(p *retention.Policy) {
			p.Tenants[1].Tenant = "acme"
		},
		"retention.tenants[0].tenant: ": func(p *retention.Policy) { p.Tenants[0].Tenant = "*" },
		"retention.tenants[1].traces: ": func(p *retention.Policy) { p.Tenants[1].Traces = new(time.Second) },
	} {
		bad := good
		bad.Tenants = append([]retention.Tenant{}, good.Tenants...)
		spoil(&bad)
		err := bad.Validate("retention")
		require.ErrorContains(t, err, want)
		require.Equal(t, agent.CodeInvalid, agent.CodeOf(err))
	}
}

func TestSweeps(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	p := retention.Policy{Keep: retention.Keep{Events: days(7), Audit: days(365)}, Tenants: []retention.Tenant{
		{Tenant: "short", Keep: everything(40)},
		{Tenant: "ever", Keep: everything(0)},
		{Tenant: "follows", Keep: retention.Keep{Transcripts: days(10), Results: days(50), Traces: days(20)}},
	}}
	sweeps := func(tenant string) (lines []string) {
		for _, s := range p.Sweeps(tenant, now) {
			require.Equal(t, tenant, s.Tenant)
			line := s.Kind + " " + now.Sub(s.Before).String()
			if s.Follow {
				line += " follow"
			}
			lines = append(lines, line)
		}
		return lines
	}
	require.Equal(t, []string{"events 168h0m0s", "audit 8760h0m0s"}, sweeps("any"))
	require.Equal(t, []string{"events 720h0m0s", "audit 8760h0m0s"}, sweeps(""), "streams without a turn are kept as long as ids")
	require.Empty(t, sweeps("ever"))
	require.Equal(t, []string{
		"events 960h0m0s", "traces 960h0m0s", "results 960h0m0s", "transcripts 960h0m0s", "blobs 960h0m0s", "turns 960h0m0s", "audit 960h0m0s", "usage 960h0m0s",
	}, sweeps("short"))
	require.Equal(t, []string{
		"events 168h0m0s", "traces 480h0m0s", "results 1200h0m0s", "transcripts 240h0m0s", "blobs 1200h0m0s follow", "turns 1200h0m0s", "audit 8760h0m0s",
	}, sweeps("follows"), "content expires with the last data that refers to it, and the turn with its last data")
	require.True(t, p.HasOwn("follows", retention.Traces))
	require.False(t, p.HasOwn("follows", retention.Events))
	p.Tenants[0].Keep = retention.Keep{Events: days(1), Transcripts: days(1), Results: days(1), Traces: days(1)}
	require.Equal(t, "turns 720h0m0s", sweeps("short")[5], "a turn's id is kept longer than Temporal keeps its execution")
}
