package openai_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// TestCredentials: who is not known, or may not, is told so in the format of the API; what a credential says, the body does not.
func TestCredentials(t *testing.T) {
	trail := &gatewaytest.Trail{}
	d := open(t, func(c *gateway.Config) {
		c.Audit = trail
		c.Auth = gatewaytest.Credentials{
			"ann": gatewaytest.Caller("acme", "ann", "turns.run:analyst"), "robot": gatewaytest.Caller("acme", "", "turns.*"),
			"reader": gatewaytest.Caller("acme", "", "turns.read"), "globex": gatewaytest.Caller("globex", "", "turns.*"),
		}
	})
	d.script(says("model/1", "x"), ends("x", nil))
	d.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", Tenant: "acme"}, {Name: "writer", Tenant: "acme"}, {Name: "spy", Tenant: "globex"}}
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }

	for _, path := range []string{"/v1/models", "/v1/models/analyst"} {
		a := d.send("GET", path, "")
		require.Equal(t, 401, a.status)
		require.Equal(t, "invalid_api_key", a.problem(t).Code)
		a = d.send("GET", path, "", as("nobody")...)
		require.Equal(t, 401, a.status)
		require.Equal(t, "invalid_api_key", a.problem(t).Code, "a wrong key is told in this format too")
		a = d.send("GET", path, "", as("reader")...)
		require.Equal(t, 403, a.status)
		require.Equal(t, "permission_denied", a.problem(t).Code)
	}
	require.Equal(t, 401, d.ask("").status)
	require.Equal(t, 403, d.ask("", as("reader")...).status)
	require.Empty(t, d.rt.Submitted())

	list := d.send("GET", "/v1/models", "", as("robot")...).body
	require.Contains(t, list, `"writer"`)
	require.NotContains(t, list, `"spy"`, "another tenant's agent")
	denied := len(trail.Records())
	list = d.send("GET", "/v1/models", "", as("ann")...).body
	require.Contains(t, list, `"analyst"`)
	require.NotContains(t, list, `"writer"`)
	require.Equal(t, 404, d.send("GET", "/v1/models/writer", "", as("ann")...).status)
	require.Len(t, trail.Records(), denied, "to see a list is no offence")

	a := d.send("POST", "/v1/chat/completions", `{"model":"writer","messages":[{"role":"user","content":"x"}]}`, as("ann")...)
	require.Equal(t, 403, a.status)
	require.Equal(t, "permission_denied", a.problem(t).Code)
	require.Empty(t, d.rt.Submitted())

	require.Equal(t, 200, d.ask(`,"user":"eve"`, as("ann")...).status)
	require.Equal(t, 200, d.ask(`,"user":"eve"`, as("robot")...).status)
	require.Equal(t, 403, d.ask("", append(as("ann"), "Turnstone-Tenant", "globex")...).status)
	seen := d.rt.Submitted()
	require.Len(t, seen, 2)
	require.Equal(t, "ann", seen[0].Request.Context.UserID)
	require.Equal(t, "eve", seen[1].Request.Context.UserID, "a credential that is nobody's own lets the body say who asks")
	for _, e := range seen {
		require.Equal(t, "acme", e.Request.Context.Tenant)
	}
}
