package gateway_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/erasure"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// startWithErasures starts a gateway with a port of erasures, and returns a function that sends it a request.
func startWithErasures(t *testing.T) (*gatewaytest.Erasures, *gatewaytest.Trail, func(key, method, path, body string) (int, string)) {
	k, trail := &gatewaytest.Erasures{}, &gatewaytest.Trail{}
	d := startGateway(t, func(c *gateway.Config) {
		c.Erasures, c.Audit = k, trail
		c.Auth = gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "", "erasures.*"), "reads": gatewaytest.Caller("acme", "", "erasures.read"),
			"ops": gatewaytest.Caller(agent.AnyTenant, "", "*"), "user": gatewaytest.Caller("acme", "ann", agent.UserScopes()...),
		}
	})
	return k, trail, func(key, method, path, body string) (int, string) {
		a := d.sendAs(key, method, "/v1/erasures"+path, body)
		return a.status, string(a.body)
	}
}

func TestErasures(t *testing.T) {
	k, trail, ask := startWithErasures(t)
	status, body := ask("acme", http.MethodPost, "", `{"user_id":"ann","reason":"ticket 7","dry_run":true}`)
	require.Equal(t, http.StatusAccepted, status, body)
	require.Contains(t, body, `"erasure_id":"e1"`)
	require.Equal(t, erasure.Request{UserID: "ann", Tenant: "acme", Reason: "ticket 7", DryRun: true}, k.Asked[0])
	records := trail.Records()
	require.Len(t, records, 1)
	require.Equal(t, []string{"acme", "erasures.write", "erasure/e1", `{"dry_run":true}`},
		[]string{records[0].Tenant, string(records[0].Action), records[0].Resource, string(records[0].Detail)})

	status, _ = ask("ops", http.MethodPost, "", `{"user_id":"ann","tenant":"zoo","reason":"r"}`)
	require.Equal(t, http.StatusAccepted, status)
	require.Equal(t, "zoo", k.Asked[1].Tenant)
	require.Equal(t, "zoo", trail.Records()[1].Tenant)

	for range 2 { // the second Get ends it
		status, body = ask("reads", http.MethodGet, "/e1", "")
		require.Equal(t, http.StatusOK, status)
	}
	require.Contains(t, body, `"report":{`)
	status, body = ask("reads", http.MethodGet, "?page_token=p", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `"erasure_id":"e2"`)
	require.Equal(t, []string{"get acme e1", "get acme e1", "list acme p"}, k.Calls)
}

func TestErasuresRefuse(t *testing.T) {
	k, trail, ask := startWithErasures(t)
	for _, c := range []struct {
		key, method, path, body string
		status                  int
		says                    string
	}{
		{"user", http.MethodPost, "", `{"user_id":"ann","reason":"r"}`, 403, "erasures.write"},
		{"user", http.MethodGet, "/e1", "", 403, "erasures.read"},
		{"acme", http.MethodPost, "", `{"user_id":"ann","tenant":"zoo","reason":"r"}`, 403, "tenant"},
		{"acme", http.MethodPost, "", `{"reason":"r"}`, 400, "user_id"},
		{"acme", http.MethodPost, "", `{"user_id":"ann"}`, 400, "reason"},
		{"acme", http.MethodPost, "", `{"user_id":"ann","reason":"ann wants it"}`, 400, "reason"},
		{"acme", http.MethodPost, "", `{"user_id":"ann","reason":"r","force":true}`, 400, "force"},
		{"ops", http.MethodPost, "", `{"user_id":"ann","tenant":"a b","reason":"r"}`, 400, "tenant"},
		{"acme", http.MethodGet, "?page_size=-1", "", 400, "page_size"},
		{"acme", http.MethodGet, "/e2", "", 404, "erasure_id"},
	} {
		status, body := ask(c.key, c.method, c.path, c.body)
		require.Equal(t, c.status, status, "%v: %s", c, body)
		require.Contains(t, body, c.says)
	}
	require.Empty(t, k.Asked)
	for _, r := range trail.Records() {
		require.Equal(t, agent.AuditDenied, r.Outcome, "nothing was changed")
	}
}
