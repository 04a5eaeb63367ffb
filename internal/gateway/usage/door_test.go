package usage_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/usage"
)

// ledger notes what it is asked.
type ledger struct {
	asked []agent.UsageQuery
	page  agent.UsagePage
	err   error
}

func (l *ledger) Usage(_ context.Context, q agent.UsageQuery) (agent.UsagePage, error) {
	l.asked = append(l.asked, q)
	return l.page, l.err
}

type door struct {
	*ledger
	t   *testing.T
	url string
}

func open(t *testing.T) *door {
	t.Helper()
	l := &ledger{}
	d, err := usage.New(l)
	require.NoError(t, err)
	g, err := gateway.New(gateway.Config{
		HTTPAddr: "127.0.0.1:0", Runtime: gatewaytest.New(), Catalog: &gatewaytest.Catalog{}, Doors: []gateway.Door{d},
		Auth: gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "", "usage.read"), "ops": gatewaytest.Caller(agent.AnyTenant, "", "*"),
			"user": gatewaytest.Caller("acme", "ann", agent.UserScopes()...),
		},
	})
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
	})
	return &door{ledger: l, t: t, url: "http://" + g.HTTPAddr() + "/v1/usage"}
}

func (d *door) get(key, query string, header ...string) (status int, body map[string]any) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.url+"?"+query, nil)
	require.NoError(d.t, err)
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(d.t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(d.t, err)
	require.NoError(d.t, json.Unmarshal(data, &body), string(data))
	return resp.StatusCode, body
}

func TestReport(t *testing.T) {
	d := open(t)
	d.page = agent.UsagePage{
		Group: []agent.UsageKey{agent.UsageDay, agent.UsageUser, agent.UsageStep}, Next: "more",
		Rows:   []agent.UsageRow{{Day: new("2026-11-21"), User: new(""), Step: new(int64(0)), UsageSums: agent.UsageSums{Calls: 2, CostUSD: 0.5}}},
		Totals: &agent.UsageSums{Calls: 7},
	}
	since := time.Now().Add(-48 * time.Hour).UTC().Truncate(time.Second)
	status, body := d.get("acme", url.Values{
		"group": {"day, user,step"}, "since": {since.Format(time.RFC3339)}, "until": {since.Add(time.Hour).Format(time.RFC3339)}, "user": {"ann"},
		"agent": {"analyst"}, "model": {"gpt"}, "channel": {"http"}, "session": {"s"}, "turn": {"t"}, "limit": {"7"}, "page_token": {"p"},
	}.Encode())
	require.Equal(t, http.StatusOK, status, body)
	require.Equal(t, agent.UsageQuery{
		Tenant: "acme", Group: d.page.Group, Since: since, Until: since.Add(time.Hour), UserID: "ann", Agent: "analyst", Model: "gpt", Channel: "http",
		SessionID: "s", TurnID: "t", PageSize: 7, PageToken: "p",
	}, d.asked[0])
	require.Equal(t, []any{map[string]any{
		"day": "2026-11-21", "user": "", "step": 0.0, "calls": 2.0, "input_tokens": 0.0, "output_tokens": 0.0, "cached_tokens": 0.0, "reasoning_tokens": 0.0,
		"cost_usd": 0.5, "rebilled_calls": 0.0, "rebilled_tokens": 0.0, "rebilled_cost_usd": 0.0, "estimated_tokens": 0.0,
	}}, body["rows"], "the keys of the report, empty ones too, and no others")
	require.Equal(t, "more", body["next_page_token"])

	d.page = agent.UsagePage{}
	status, body = d.get("acme", "")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, []any{}, body["rows"])
	require.Equal(t, []any{}, body["group"])
	q := d.asked[1]
	require.Equal(t, agent.UsageRows, q.PageSize)
	require.True(t, q.Until.IsZero())
	require.Zero(t, q.Since.Unix()%86400, "whole days are cheap")
}

func TestWhoseUsage(t *testing.T) {
	d := open(t)
	for _, c := range []struct{ key, query, header, want string }{
		{"acme", "", "", "acme"},
		{"acme", "tenant=acme", "", "acme"},
		{"ops", "", "", agent.AnyTenant},
		{"ops", "tenant=zoo", "", "zoo"},
		{"ops", "", "zoo", "zoo"},
	} {
		status, body := d.get(c.key, c.query, "Turnstone-Tenant", c.header)
		require.Equal(t, http.StatusOK, status, body)
		require.Equal(t, c.want, d.asked[len(d.asked)-1].Tenant, c)
	}
	n := len(d.asked)
	for _, c := range []struct {
		key, query string
		want       int
	}{{"", "", 401}, {"user", "", 403}, {"acme", "tenant=zoo", 403}, {"ops", "tenant=*", 400}} {
		status, body := d.get(c.key, c.query)
		require.Equal(t, c.want, status, "%v: %v", c, body)
	}
	require.Len(t, d.asked, n, "nothing of that reached the ledger")
}

func TestRefusals(t *testing.T) {
	d := open(t)
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
		"users=ann":                         "users",
		"user=a&user=b":                     "user",
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
	d.err = agent.Errorf(agent.CodeUnavailable, "", "takes too long")
	status, _ := d.get("acme", "")
	require.Equal(t, 503, status)
	_, err := usage.New(nil)
	require.Error(t, err)
}
