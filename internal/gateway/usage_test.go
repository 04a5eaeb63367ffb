package gateway_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// usageGateway is a gateway with a port of usage.
type usageGateway struct {
	*gatewaytest.Usage

	gateway *testGateway
}

func startWithUsage(t *testing.T) *usageGateway {
	l := &gatewaytest.Usage{}
	return &usageGateway{l, startGateway(t, func(c *gateway.Config) {
		c.Usage = l
		c.Auth = gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "", "usage.read"), "ops": gatewaytest.Caller(agent.AnyTenant, "", "*"),
			"user": gatewaytest.Caller("acme", "ann", agent.UserScopes()...),
		}
	})}
}

func (d *usageGateway) get(key, query string, header ...string) (status int, body map[string]any) {
	a := d.gateway.sendAs(key, http.MethodGet, "/v1/usage?"+query, "", header...)
	return a.status, a.json()
}

func TestUsage(t *testing.T) {
	d := startWithUsage(t)
	d.Rows = []agent.UsageRow{{}, {Day: new("2026-11-21"), User: new(""), Step: new(int64(0)), UsageSums: agent.UsageSums{Calls: 2, CostUSD: 0.5}}, {}}
	since := time.Now().Add(-48 * time.Hour).UTC().Truncate(time.Second)
	status, body := d.get("acme", url.Values{
		"group": {"day, user,step"}, "since": {since.Format(time.RFC3339)}, "until": {since.Add(time.Hour).Format(time.RFC3339)}, "user": {"ann"},
		"agent": {"analyst"}, "model": {"gpt"}, "channel": {"http"}, "session": {"s"}, "turn": {"t"}, "limit": {"1"}, "page_token": {"1"},
	}.Encode())
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, agent.UsageQuery{
		Tenant: "acme", Group: []agent.UsageKey{agent.UsageDay, agent.UsageUser, agent.UsageStep}, Since: since, Until: since.Add(time.Hour), UserID: "ann", Agent: "analyst", Model: "gpt", Channel: "http",
		SessionID: "s", TurnID: "t", PageSize: 1, PageToken: "1",
	}, d.Asked[0])
	require.Equal(t, []any{map[string]any{
		"day": "2026-11-21", "user": "", "step": 0.0, "calls": 2.0, "input_tokens": 0.0, "output_tokens": 0.0, "cached_tokens": 0.0, "reasoning_tokens": 0.0,
		"cost_usd": 0.5, "rebilled_calls": 0.0, "rebilled_tokens": 0.0, "rebilled_cost_usd": 0.0, "estimated_tokens": 0.0, "unpriced_calls": 0.0,
	}}, body["rows"], "the keys of the report, empty ones too, and no others")
	require.Equal(t, "2", body["next_page_token"])

	d.Rows = nil
	status, body = d.get("acme", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []any{}, body["rows"])
	require.Equal(t, []any{}, body["group"])
	q := d.Asked[1]
	require.Equal(t, agent.UsageRows, q.PageSize)
	require.True(t, q.Until.IsZero())
	require.Zero(t, q.Since.Unix()%86400, "whole days are cheap")
}

func TestUsageTenants(t *testing.T) {
	d := startWithUsage(t)
	for _, c := range []struct{ key, query, header, want string }{
		{"acme", "", "", "acme"},
		{"acme", "tenant=acme", "", "acme"},
		{"ops", "", "", agent.AnyTenant},
		{"ops", "tenant=zoo", "", "zoo"},
		{"ops", "", "zoo", "zoo"},
	} {
		status, body := d.get(c.key, c.query, "Turnstone-Tenant", c.header)
		require.Equal(t, http.StatusOK, status, body)
		require.Equal(t, c.want, d.Asked[len(d.Asked)-1].Tenant, c)
	}
	n := len(d.Asked)
	for _, c := range []struct {
		key, query string
		want       int
	}{{"user", "", 403}, {"acme", "tenant=zoo", 403}, {"ops", "tenant=*", 400}} {
		status, body := d.get(c.key, c.query)
		require.Equal(t, c.want, status, "%v: %v", c, body)
	}
	require.Len(t, d.Asked, n, "no refused call reached the port")
}

func TestUsageRefusals(t *testing.T) {
	d := startWithUsage(t)
	for query, field := range map[string]string{
		"group=day,colour": "group",
		"group=day,day":    "group",
		"group=":           "",
		"group=,":          "group",
		"group=day,tenant,user,agent,model,session": "group",
		"since=yesterday":                   "since",
		"since=2020-01-01":                  "since",
		"since=2026-01-02&until=2026-01-01": "since",
		"until=2026-13-01":                  "until",
		"limit=-1":                          "limit",
		"limit=10001":                       "limit",
		"limit=many":                        "limit",
		"user=%00":                          "user",
		"user=" + strings.Repeat("x", 513):  "user",
		"page_token=" + strings.Repeat("x", 8<<10+1): "page_token",
	} {
		status, body := d.get("acme", query)
		if field == "" {
			require.Equal(t, 200, status, query)
			continue
		}
		require.Equal(t, 400, status, query)
		require.Equal(t, field, body["error"].(map[string]any)["field"], query)
	}
	d.Err = agent.Errorf(agent.CodeUnavailable, "", "takes too long")
	status, _ := d.get("acme", "")
	require.Equal(t, 503, status)
}
