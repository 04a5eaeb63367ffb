package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// startWithRetention starts a gateway with a port of retention, and returns a function that sends it a request.
func startWithRetention(t *testing.T) (*gatewaytest.Retention, *gatewaytest.Trail, func(key, method, path, body string) (int, map[string]any)) {
	k, trail := gatewaytest.NewRetention(), &gatewaytest.Trail{}
	d := startGateway(t, func(c *gateway.Config) {
		c.Retention, c.Audit = k, trail
		c.Auth = gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "", "retention.*"), "ops": gatewaytest.Caller(agent.AnyTenant, "", "*"),
			"read": gatewaytest.Caller(agent.AnyTenant, "", "retention.read"), "user": gatewaytest.Caller("acme", "ann", agent.UserScopes()...),
			"named": gatewaytest.Caller(agent.AnyTenant, "olga", "retention.*"),
		}
	})
	return k, trail, func(key, method, path, body string) (int, map[string]any) {
		a := d.sendAs(key, method, "/v1/retention"+path, body)
		return a.status, a.json()
	}
}

func TestRetentionReport(t *testing.T) {
	b, _, do := startWithRetention(t)
	code, out := do("acme", http.MethodGet, "?page_token=t&page_size=3", "")
	require.Equal(t, http.StatusOK, code, out)
	require.Len(t, out["tenants"], 1)
	for _, key := range []string{"ops", "read"} {
		code, out = do(key, http.MethodGet, "", "")
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "acme", out["next_page_token"])
	}
	code, _ = do("ops", http.MethodGet, "?tenant=zoo", "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, []string{"report acme t 3", "report *  20", "report *  20", "report zoo  20"}, b.Calls)

	b.Calls = nil
	for path, key := range map[string]string{
		"?tenant=zoo": "acme", "": "user", "?page_size=101": "ops",
		"?page_token=" + strings.Repeat("x", 200): "ops", "?page_token=%00": "ops",
	} {
		code, _ = do(key, http.MethodGet, path, "")
		require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, code, path)
	}
	require.Empty(t, b.Calls)
	b.Err = agent.Errorf(agent.CodeUnavailable, "", "Temporal is away")
	code, _ = do("acme", http.MethodGet, "", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
}

func TestRetentionSweeps(t *testing.T) {
	b, trail, do := startWithRetention(t)
	code, out := do("ops", http.MethodPost, "/run", "")
	require.Equal(t, http.StatusAccepted, code)
	require.Equal(t, true, out["scheduled"])
	code, out = do("ops", http.MethodPost, "/pause", `{"reason":"a backup"}`)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "a backup", out["note"])
	code, _ = do("named", http.MethodPost, "/resume", "{}")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, []string{"trigger", "pause true a backup", "pause false resumed by olga"}, b.Calls)
	code, _ = do("acme", http.MethodPost, "/run", "")
	require.Equal(t, http.StatusForbidden, code)
	var records []string
	for _, r := range trail.Records() {
		records = append(records, r.Outcome+" "+r.Resource+" by "+r.Subject)
	}
	require.Equal(t, []string{
		"allowed retention/run by ", "allowed retention/pause by ", "allowed retention/resume by olga", "denied retention/run by ",
	}, records)

	b.Calls = nil
	for _, call := range [][3]string{
		{"acme", "/run", ""},
		{"acme", "/pause", ""},
		{"acme", "/resume", ""},
		{"read", "/run", ""},
		{"user", "/pause", ""},
		{"ops", "/pause", `{"note":"x"}`},
		{"ops", "/pause?x=1", ""},
		{"ops", "/run", `{"tenant":"acme"}`},
		{"ops", "/pause", `{"reason":"` + strings.Repeat("x", 1001) + `"}`},
	} {
		code, out = do(call[0], http.MethodPost, call[1], call[2])
		require.Contains(t, []int{http.StatusForbidden, http.StatusBadRequest}, code, "%v %v", call, out)
	}
	require.Empty(t, b.Calls)
	b.Err = agent.Errorf(agent.CodeConflict, "", "there is no schedule")
	code, _ = do("ops", http.MethodPost, "/run", "")
	require.Equal(t, http.StatusConflict, code)
}
