package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// startWithSchedules starts a gateway with a port of schedules.
func startWithSchedules(t *testing.T) (*testGateway, *gatewaytest.Schedules) {
	k := &gatewaytest.Schedules{}
	return startGateway(t, func(c *gateway.Config) {
		c.Schedules, c.SchedulePlans = k, k
		c.Auth = gatewaytest.Credentials{
			"all":   {Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"*"}, Credential: "k1"},
			"ann":   gatewaytest.Caller("acme", "ann", "schedules.*", "turns.run:analyst"),
			"read":  gatewaytest.Caller("acme", "", "schedules.read"),
			"write": gatewaytest.Caller("acme", "", "schedules.write"),
			"other": gatewaytest.Caller("acme", "", "schedules.*", "turns.run:writer"),
			"ops":   gatewaytest.Caller(agent.AnyTenant, "", "*"),
		}
	}), k
}

const news = `{"name":"news","agent":"analyst","message":"what is new?","cron":["0 9 * * mon-fri"],"time_zone":"Europe/Zurich","model":"large"}`

func TestSchedules(t *testing.T) {
	d, k := startWithSchedules(t)
	a := d.sendAs("all", "POST", "/v1/schedules", news)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	require.Equal(t, "/v1/schedules/news", a.header.Get("Location"))
	require.EqualValues(t, 1, a.json()["revision"])
	require.Equal(t, "k1", k.By[0].Credential)
	require.Equal(t, agent.Schedule{
		Name: "news", Tenant: "acme", Agent: "analyst", Message: "what is new?", Cron: []string{"0 9 * * mon-fri"}, TimeZone: "Europe/Zurich",
		Model: "large",
	}, k.Puts[0])

	// A response can be edited and sent back: read-only fields are dropped.
	whole := `{"name":"news","tenant":"acme","message":"else?","every":"1h","revision":7,"created_by":"x","updated_by":"y",` +
		`"created_at":"2026-11-21T12:00:00Z","updated_at":"2026-11-21T12:00:00Z","next":["2026-11-21T12:00:00Z"],"paused":true}`
	a = d.sendAs("all", "PUT", "/v1/schedules/news", whole)
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	require.Equal(t, agent.Schedule{Name: "news", Tenant: "acme", Message: "else?", Every: "1h", Paused: true}, k.Puts[1])

	for _, c := range []struct {
		method, path, body string
		status             int
		call               string
	}{
		{"GET", "/v1/schedules", "", 200, "list acme "},
		{"GET", "/v1/schedules?page_size=7&page_token=1", "", 200, "list acme 1"},
		{"GET", "/v1/schedules/news", "", 200, "get acme news"},
		{"GET", "/v1/schedules/news/runs", "", 200, "runs acme news "},
		{"POST", "/v1/schedules/news/pause", "", 200, "pause acme news paused by k1"},
		{"POST", "/v1/schedules/news/pause", `{"note":"holidays"}`, 200, "pause acme news holidays"},
		{"POST", "/v1/schedules/news/resume", `{}`, 200, "resume acme news resumed by k1"},
		{"POST", "/v1/schedules/news/trigger", "", 202, "trigger acme news "},
	} {
		k.Calls = nil
		a := d.sendAs("all", c.method, c.path, c.body)
		require.Equal(t, c.status, a.status, "%s %s: %s", c.method, c.path, a.body)
		require.Equal(t, []string{c.call}, k.Calls)
	}
	a = d.sendAs("all", "POST", "/v1/schedules/news/trigger", "", "Idempotency-Key", "k")
	require.Equal(t, map[string]any{"workflow_id": "w3", "run_id": "r3", "joined": false}, a.json())
	require.Equal(t, "trigger acme news k", k.Calls[1])
	a = d.sendAs("ops", "GET", "/v1/schedules/news", "", "Turnstone-Tenant", "zoo")
	require.Equal(t, http.StatusNotFound, a.status)
	require.Equal(t, "get zoo news", k.Calls[2])
	require.Equal(t, http.StatusNoContent, d.sendAs("all", "DELETE", "/v1/schedules/news", "").status)
	require.Equal(t, "delete acme news", k.Calls[3])
	a = d.sendAs("all", "GET", "/v1/schedules", "")
	require.Equal(t, map[string]any{"schedules": []any{}, "next_page_token": ""}, a.json())
}

func TestSchedulesOfEveryTenant(t *testing.T) {
	d, k := startWithSchedules(t)
	in := func(tenant string) string { return strings.TrimSuffix(news, "}") + `,"tenant":"` + tenant + `"}` }
	a := d.sendAs("ops", "POST", "/v1/schedules", in("acme"))
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	require.Equal(t, "acme", k.Puts[0].Tenant, "the body may name the tenant")
	a = d.sendAs("ops", "PUT", "/v1/schedules/news?tenant=acme", in("acme"))
	require.Equal(t, http.StatusOK, a.status, "%s", a.body)
	require.Equal(t, "acme", k.Puts[1].Tenant)
}

func TestScheduleRefusals(t *testing.T) {
	d, k := startWithSchedules(t)
	with := func(more string) string { return strings.TrimSuffix(news, "}") + "," + more + "}" }
	for _, c := range []struct {
		key, method, path, body string
		status                  int
		field                   string
	}{
		{"write", "POST", "/v1/schedules", news, 403, "agent"}, // without turns.run
		{"other", "POST", "/v1/schedules", news, 403, "agent"},
		{"write", "POST", "/v1/schedules", `{"name":"n","message":"m","every":"1h"}`, 403, "agent"},
		{"all", "POST", "/v1/schedules", strings.Replace(news, "analyst", "nobody", 1), 404, "agent"},
		{"all", "POST", "/v1/schedules", strings.Replace(news, "large", "huge", 1), 400, "model"},
		{"all", "POST", "/v1/schedules", with(`"tenant":"zoo"`), 403, "tenant"},
		{"ops", "POST", "/v1/schedules?tenant=acme", with(`"tenant":"zoo"`), 400, "tenant"},
		{"ops", "POST", "/v1/schedules", with(`"tenant":"a/b"`), 400, "tenant"},
		{"ops", "POST", "/v1/schedules", with(`"tenant":"*"`), 400, "tenant"},
		{"all", "POST", "/v1/schedules", strings.Replace(news, `"news"`, `".."`, 1), 400, "name"},
		{"all", "PUT", "/v1/schedules/%2E", strings.Replace(news, `"news"`, `"."`, 1), 400, "name"},
		{"all", "POST", "/v1/schedules", with(`"every":"soon"`), 400, "every"},
		{"all", "POST", "/v1/schedules", with(`"notify":[{"webhook":{"url":"ftp://x"}}]`), 400, "notify[0].webhook.url"},
		{"all", "POST", "/v1/schedules", with(`"notify":[{"webhook":{"url":"https://x/%zz"}}]`), 400, "notify[0].webhook.url"},
		{"all", "POST", "/v1/schedules", with(`"notify":[{"sms":{}}]`), 400, "notify[0].sms"},
		{"all", "POST", "/v1/schedules", with(`"stream_to":{}`), 400, "stream_to"},
		{"all", "POST", "/v1/schedules", "", 400, ""},
		{"all", "PUT", "/v1/schedules/other", news, 400, "name"},
		{"all", "GET", "/v1/schedules?page_size=9999", "", 400, "page_size"},
		{"all", "GET", "/v1/schedules/a%20b", "", 404, "name"},
		{"all", "POST", "/v1/schedules/news/pause", `{"why":"x"}`, 400, "why"},
		{"all", "POST", "/v1/schedules/news/pause", `{"note":"` + strings.Repeat("x", 1001) + `"}`, 400, "note"},
		{"all", "POST", "/v1/schedules/news/trigger", `{"message":"other"}`, 400, "message"},
		{"ann", "POST", "/v1/schedules", with(`"user_id":"bob"`), 403, "user_id"},
		{"ann", "POST", "/v1/schedules", with(`"notify":[{"telegram":{"user":"bob"}}]`), 403, "notify[0].telegram.user"},
	} {
		a := d.sendAs(c.key, c.method, c.path, c.body)
		require.Equal(t, c.status, a.status, "%s %s %s: %s", c.method, c.path, c.body, a.body)
		failure := a.failure(t)
		if c.field != "" {
			require.Equal(t, c.field, failure.Field, "%v", failure)
		}
	}
	require.Empty(t, k.Calls, "no refused call reached the port")
	a := d.sendAs("all", "POST", "/v1/schedules/news/trigger", "", "Idempotency-Key", strings.Repeat("x", 257))
	require.Equal(t, 400, a.status)
	k.Err = &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Minute, Err: io.EOF}
	a = d.sendAs("all", "POST", "/v1/schedules/news/trigger", "")
	require.Equal(t, 429, a.status)
	require.Equal(t, "60", a.header.Get("Retry-After"))
}

func TestSchedulesOfAUsersOwnCredential(t *testing.T) {
	d, k := startWithSchedules(t)
	a := d.sendAs("ann", "POST", "/v1/schedules", news)
	require.Equal(t, http.StatusCreated, a.status, "%s", a.body)
	require.Equal(t, "ann", k.Puts[0].UserID, "it runs on her behalf")
	require.Equal(t, []string{"schedules.*", "turns.run:analyst"}, k.By[0].Scopes, "and with her rights")
}
