package cli

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// withUsage is a bench whose gateway has a ledger.
func withUsage(t *testing.T, rows ...agent.UsageRow) (*bench, *gatewaytest.Usage) {
	t.Helper()
	l := &gatewaytest.Usage{Rows: rows}
	return setupWith(t, func(cfg *gateway.Config) { cfg.Usage = l }), l
}

func TestUsage(t *testing.T) {
	b, l := withUsage(t,
		agent.UsageRow{Day: new("2026-11-20"), User: new(""), Step: new(int64(0)), UsageSums: agent.UsageSums{Calls: 3, InputTokens: 1000, OutputTokens: 50, CachedTokens: 10, ReasoningTokens: 5, CostUSD: 0.25, EstimatedTokens: 70}},
		agent.UsageRow{Day: new("2026-11-21"), User: new("ann\x1b[2J"), Step: new(int64(2)), UsageSums: agent.UsageSums{
			Calls: 9, InputTokens: 1, CostUSD: 1.5, RebilledCalls: 2, RebilledTokens: 400, RebilledCostUSD: 0.125,
		}},
		agent.UsageRow{Day: new("2026-11-22"), User: new(`=cmd,"x"`), Step: new(int64(-1)), UsageSums: agent.UsageSums{Calls: 1, CostUSD: 1e-7, RebilledCalls: 1, RebilledTokens: 1}},
		agent.UsageRow{Day: new("2026-11-23"), User: new("bob"), Step: new(int64(1)), UsageSums: agent.UsageSums{Calls: 4, InputTokens: 80, UnpricedCalls: 4}},
	)
	b.steps("usage",
		line(0),
		line(0, "--group", "day,user,step", "--since", "2026-11-01", "--until", "2026-11-22T10:00:00Z", "--user", "u", "--agent", "a", "--model", "m", "--channel", "c",
			"--session", "s", "--turn", "t"),
		line(0, "-g", "user", "--sort", "cost"),
		line(0, "-g", "user", "--sort", "calls", "--limit", "1"),
		line(0, "-g", "user", "--sort", "rebilled"),
		line(0, "-g", "day,user,step", "-o", "csv"),
		line(0, "--group", ""),
		line(0, "--limit", "2"),
	)
	golden(t, "usage", b.screen.String())
	q := l.Asked[1]
	require.Equal(t, agent.UsageQuery{
		Tenant: agent.AnyTenant, Group: []agent.UsageKey{agent.UsageDay, agent.UsageUser, agent.UsageStep}, Since: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		Until: time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC), UserID: "u", Agent: "a", Model: "m", Channel: "c", SessionID: "s", TurnID: "t", PageSize: defaultLimit,
	}, q)
	require.Empty(t, l.Asked[6].Group)
	require.Equal(t, agent.MaxUsageRows, l.Asked[2].PageSize, "sorting needs all rows")

	p := answer[agent.UsagePage](b, "usage", "--tenant", "zoo")
	require.Len(t, p.Rows, 4)
	require.EqualValues(t, 17, p.Totals.Calls)
	require.Equal(t, "zoo", l.Asked[len(l.Asked)-1].Tenant)
	b.show(0, "usage", "--tenant", "*", "-o", "json")
	require.Equal(t, agent.AnyTenant, l.Asked[len(l.Asked)-1].Tenant)
}

// A report with several pages is complete, with the totals of the first page.
func TestUsagePages(t *testing.T) {
	var rows []agent.UsageRow
	for i := range 25 {
		rows = append(rows, agent.UsageRow{Day: new(strconv.Itoa(i)), UsageSums: agent.UsageSums{Calls: int64(i)}})
	}
	b, l := withUsage(t, rows...)
	l.MaxPage = 10
	for args, want := range map[string]int{"--limit 0": 25, "--limit 12": 12, "--sort calls --limit 0": 25, "--sort calls --limit 3": 3} {
		l.Asked = nil
		p := answer[agent.UsagePage](b, append([]string{"usage"}, strings.Fields(args)...)...)
		require.Len(t, p.Rows, want, args)
		require.EqualValues(t, 300, p.Totals.Calls, args)
		require.Equal(t, want < 25, strings.Contains(b.screen.String(), "there are more"), args)
		if strings.Contains(args, "calls") {
			require.EqualValues(t, 24, p.Rows[0].Calls)
		}
	}
}

func TestUsageFlags(t *testing.T) {
	b, l := withUsage(t)
	b.refuses("usage", map[string]string{
		"--output is":     "-o yaml",
		"--sort is":       "--sort age",
		"--limit is -1":   "--limit -1",
		"--since is":      "--since soon",
		"--until is":      "--until later",
		"colour":          "--group colour",
		"has day twice":   "--group day,day",
		"at most 5":       "--group day,tenant,user,agent,model,turn",
		"at most 400":     "--since 500d",
		"not before":      "--since 2d --until 3d",
		"unknown command": "extra",
	})
	require.Empty(t, l.Asked)
}

func TestReadTime(t *testing.T) {
	now := time.Date(2026, 11, 22, 13, 14, 15, 0, time.FixedZone("", 3600))
	for text, want := range map[string]string{
		"0d": "2026-11-22T00:00:00Z", "30d": "2026-10-23T00:00:00Z", "90m": "2026-11-22T10:44:15Z", "2026-11-01": "2026-11-01T00:00:00Z",
		"2026-11-01T08:00:00+02:00": "2026-11-01T06:00:00Z",
	} {
		at, err := readTime("--since", text, now)
		require.NoError(t, err)
		require.Equal(t, want, at.UTC().Format(time.RFC3339), text)
	}
	for _, text := range []string{"-1h", "d", "-3d", "9999999d", "2026", "2026-02-30"} {
		_, err := readTime("--since", text, now)
		require.Error(t, err, text)
	}
}

func TestCostText(t *testing.T) {
	for want, u := range map[string]agent.Usage{
		"":                         {InputTokens: 1},
		"$0.2500":                  {CostUSD: 0.25},
		"<$0.0001":                 {CostUSD: 1e-7},
		"not priced":               {InputTokens: 1, Unpriced: true},
		"$0.2500, some not priced": {CostUSD: 0.25, Unpriced: true},
	} {
		require.Equal(t, want, costText(&u))
	}
}
