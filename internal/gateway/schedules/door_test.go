package schedules_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/schedules"
)

// keeper keeps schedules in memory.
type keeper struct {
	schedules.Schedules

	puts  []agent.Schedule
	by    []agent.Principal
	calls []string
	err   error
}

func (k *keeper) called(parts ...string) error {
	k.calls = append(k.calls, strings.Join(parts, " "))
	return k.err
}

func (k *keeper) Put(_ context.Context, s agent.Schedule, p agent.Principal, isNew bool) (agent.Schedule, error) {
	k.puts, k.by = append(k.puts, s), append(k.by, p)
	verb := "put"
	if isNew {
		verb = "create"
	}
	s.CreatedAt, s.Revision = new(gatewaytest.Epoch()), 1
	return s, k.called(verb, s.Tenant, s.Name)
}

func (k *keeper) Get(_ context.Context, tenant, name string) (agent.Schedule, error) {
	return agent.Schedule{Name: name, Tenant: tenant, Next: []time.Time{gatewaytest.Epoch()}}, k.called("get", tenant, name)
}

func (k *keeper) List(_ context.Context, tenant string, p agent.Page) (agent.SchedulePage, error) {
	return agent.SchedulePage{Next: "more"}, k.called("list", tenant, p.Token)
}

func (k *keeper) Runs(_ context.Context, tenant, name string, p agent.Page) (agent.ScheduleRunPage, error) {
	return agent.ScheduleRunPage{Runs: []agent.ScheduleRun{{RunID: "r1", Status: "completed"}}}, k.called("runs", tenant, name, p.Token)
}

func (k *keeper) Delete(_ context.Context, tenant, name string) error {
	return k.called("delete", tenant, name)
}

func (k *keeper) Pause(_ context.Context, tenant, name string, paused bool, note string) (agent.Schedule, error) {
	verb := "resume"
	if paused {
		verb = "pause"
	}
	return agent.Schedule{Name: name, Paused: paused, Note: note}, k.called(verb, tenant, name, note)
}

func (k *keeper) Trigger(_ context.Context, tenant, name, key string) (agent.ScheduleTriggered, error) {
	return agent.ScheduleTriggered{WorkflowID: "w1", RunID: "r1"}, k.called("trigger", tenant, name, key)
}

// agents has one agent.
type agents struct{}

func (agents) Resolve(_ context.Context, tenant, name string) (agent.Plan, string, error) {
	if tenant != "acme" || name != "analyst" {
		return agent.Plan{}, "", agent.Errorf(agent.CodeNotFound, "", "none")
	}
	return agent.Plan{Models: []agent.PlanModel{{Profile: "small"}, {Profile: "large"}}}, "hash", nil
}

// keys knows callers by their keys.
type keys map[string]agent.Principal

func (k keys) Authenticate(_ context.Context, c access.Credentials) (agent.Principal, error) {
	if p, ok := k[c.Key]; ok {
		return p, nil
	}
	return agent.Principal{}, agent.Errorf(agent.CodeUnauthenticated, "", "who are you?")
}

type door struct {
	t      *testing.T
	keeper *keeper
	url    string
}

func open(t *testing.T) *door {
	t.Helper()
	k := &keeper{}
	d, err := schedules.New(k, agents{})
	require.NoError(t, err)
	g, err := gateway.New(gateway.Config{
		HTTPAddr: "127.0.0.1:0", Runtime: gatewaytest.New(), Catalog: &gatewaytest.Catalog{}, Doors: []gateway.Door{d},
		Auth: keys{
			"all":   {Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"*"}, Credential: "k1"},
			"ann":   {Method: agent.MethodKey, Tenant: "acme", Subject: "ann", Scopes: []string{"schedules.*", "turns.run:analyst"}},
			"read":  {Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"schedules.read"}},
			"write": {Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"schedules.write"}},
			"other": {Method: agent.MethodKey, Tenant: "acme", Scopes: []string{"schedules.*", "turns.run:writer"}},
			"ops":   {Method: agent.MethodKey, Tenant: agent.AnyTenant, Scopes: []string{"*"}},
		},
	})
	require.NoError(t, err)
	require.NoError(t, g.Start(t.Context()))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
		defer cancel()
		require.NoError(t, g.Shutdown(ctx))
	})
	return &door{t: t, keeper: k, url: "http://" + g.HTTPAddr()}
}

type answer struct {
	status int
	header http.Header
	body   map[string]any
}

func (d *door) send(key, method, path, body string, header ...string) answer {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	require.NoError(d.t, err)
	req.Header.Set("Content-Type", "application/json")
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
	a := answer{status: resp.StatusCode, header: resp.Header}
	if len(data) > 0 {
		require.NoError(d.t, json.Unmarshal(data, &a.body), string(data))
	}
	return a
}

const news = `{"name":"news","agent":"analyst","message":"what is new?","cron":["0 9 * * mon-fri"],"time_zone":"Europe/Zurich","model":"large"}`

func TestCalls(t *testing.T) {
	d := open(t)
	a := d.send("all", "POST", "/v1/schedules", news)
	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, "/v1/schedules/news", a.header.Get("Location"))
	require.EqualValues(t, 1, a.body["revision"])
	require.Equal(t, "k1", d.keeper.by[0].Credential)
	require.Equal(t, agent.Schedule{
		Name: "news", Tenant: "acme", Agent: "analyst", Message: "what is new?", Cron: []string{"0 9 * * mon-fri"}, TimeZone: "Europe/Zurich",
		Model: "large",
	}, d.keeper.puts[0])

	// What was answered can be edited and sent back: what is read-only is dropped.
	whole := `{"name":"news","tenant":"acme","message":"else?","every":"1h","revision":7,"created_by":"x","updated_by":"y",` +
		`"created_at":"2026-11-21T12:00:00Z","updated_at":"2026-11-21T12:00:00Z","next":["2026-11-21T12:00:00Z"],"paused":true}`
	a = d.send("all", "PUT", "/v1/schedules/news", whole)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, agent.Schedule{Name: "news", Tenant: "acme", Message: "else?", Every: "1h", Paused: true}, d.keeper.puts[1])

	for _, c := range []struct {
		method, path, body string
		status             int
		call               string
	}{
		{"GET", "/v1/schedules", "", 200, "list acme "},
		{"GET", "/v1/schedules?page_size=7&page_token=t", "", 200, "list acme t"},
		{"GET", "/v1/schedules/news", "", 200, "get acme news"},
		{"GET", "/v1/schedules/news/runs", "", 200, "runs acme news "},
		{"DELETE", "/v1/schedules/news", "", 204, "delete acme news"},
		{"POST", "/v1/schedules/news/pause", "", 200, "pause acme news paused by k1"},
		{"POST", "/v1/schedules/news/pause", `{"note":"holidays"}`, 200, "pause acme news holidays"},
		{"POST", "/v1/schedules/news/resume", `{}`, 200, "resume acme news resumed by k1"},
		{"POST", "/v1/schedules/news/trigger", "", 202, "trigger acme news "},
	} {
		d.keeper.calls = nil
		a := d.send("all", c.method, c.path, c.body)
		require.Equal(t, c.status, a.status, "%s %s: %v", c.method, c.path, a.body)
		require.Equal(t, []string{c.call}, d.keeper.calls)
	}
	a = d.send("all", "POST", "/v1/schedules/news/trigger", "", "Idempotency-Key", "k")
	require.Equal(t, map[string]any{"workflow_id": "w1", "run_id": "r1", "joined": false}, a.body)
	require.Equal(t, "trigger acme news k", d.keeper.calls[1])
	a = d.send("all", "GET", "/v1/schedules", "")
	require.Equal(t, map[string]any{"schedules": []any{}, "next_page_token": "more"}, a.body)
	a = d.send("ops", "GET", "/v1/schedules/news", "", "Turnstone-Tenant", "zoo")
	require.Equal(t, "zoo", a.body["tenant"])
}

func TestACredentialOfEveryTenant(t *testing.T) {
	d := open(t)
	in := func(tenant string) string { return strings.TrimSuffix(news, "}") + `,"tenant":"` + tenant + `"}` }
	a := d.send("ops", "POST", "/v1/schedules", in("acme"))
	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, "acme", d.keeper.puts[0].Tenant, "the body may name the tenant")
	a = d.send("ops", "PUT", "/v1/schedules/news?tenant=acme", in("acme"))
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, "acme", d.keeper.puts[1].Tenant)
}

func TestRefusals(t *testing.T) {
	d := open(t)
	with := func(more string) string { return strings.TrimSuffix(news, "}") + "," + more + "}" }
	for _, c := range []struct {
		key, method, path, body string
		status                  int
		field                   string
	}{
		{"", "GET", "/v1/schedules", "", 401, ""},
		{"write", "GET", "/v1/schedules", "", 403, ""},
		{"read", "POST", "/v1/schedules", news, 403, ""},
		{"read", "POST", "/v1/schedules/news/trigger", "", 403, ""},
		{"read", "DELETE", "/v1/schedules/news", "", 403, ""},
		{"write", "POST", "/v1/schedules", news, 403, "agent"}, // it may write schedules, and run nothing
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
		{"all", "POST", "/v1/schedules?dry_run=1", news, 400, "dry_run"},
		{"all", "GET", "/v1/schedules?page_size=9999", "", 400, "page_size"},
		{"all", "GET", "/v1/schedules?page_size=1&page_size=2", "", 400, "page_size"},
		{"all", "GET", "/v1/schedules/a%20b", "", 404, "name"},
		{"all", "POST", "/v1/schedules/news/pause", `{"why":"x"}`, 400, "why"},
		{"all", "POST", "/v1/schedules/news/pause", `{"note":"` + strings.Repeat("x", 1001) + `"}`, 400, "note"},
		{"all", "POST", "/v1/schedules/news/trigger", `{"message":"other"}`, 400, "message"},
		{"ann", "POST", "/v1/schedules", with(`"user_id":"bob"`), 403, "user_id"},
		{"ann", "POST", "/v1/schedules", with(`"notify":[{"telegram":{"user":"bob"}}]`), 403, "notify[0].telegram.user"},
	} {
		a := d.send(c.key, c.method, c.path, c.body)
		require.Equal(t, c.status, a.status, "%s %s %s: %v", c.method, c.path, c.body, a.body)
		failure, ok := a.body["error"].(map[string]any)
		require.True(t, ok, a.body)
		if c.field != "" {
			require.Equal(t, c.field, failure["field"], "%v", failure)
		}
	}
	require.Empty(t, d.keeper.calls, "nothing of that reached the keeper")
	a := d.send("all", "POST", "/v1/schedules/news/trigger", "", "Idempotency-Key", strings.Repeat("x", 257))
	require.Equal(t, 400, a.status)
	d.keeper.err = &agent.Error{Code: agent.CodeRateLimited, RetryAfter: time.Minute, Err: io.EOF}
	a = d.send("all", "POST", "/v1/schedules/news/trigger", "")
	require.Equal(t, 429, a.status)
	require.Equal(t, "60", a.header.Get("Retry-After"))
}

func TestACredentialOfSomebodysOwn(t *testing.T) {
	d := open(t)
	a := d.send("ann", "POST", "/v1/schedules", news)
	require.Equal(t, http.StatusCreated, a.status, a.body)
	require.Equal(t, "ann", d.keeper.puts[0].UserID, "it runs on her behalf")
	require.Equal(t, []string{"schedules.*", "turns.run:analyst"}, d.keeper.by[0].Scopes, "and with her rights")
}

func TestNew(t *testing.T) {
	_, err := schedules.New(nil, agents{})
	require.Error(t, err)
	_, err = schedules.New(&keeper{}, nil)
	require.Error(t, err)
}
