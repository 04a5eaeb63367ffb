package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	pb "github.com/turnstone-run/turnstone/proto/turnstone/v1"
)

// startWithScopes starts a gateway with a credential of tenant acme and user ann for each list of scopes. The credential is the list. The credential
// "robot" has no subject.
func startWithScopes(t *testing.T, scopes ...string) (*testGateway, *gatewaytest.Trail) {
	t.Helper()
	trail := &gatewaytest.Trail{}
	auth := gatewaytest.Credentials{
		"robot": {Method: agent.MethodKey, Tenant: "acme", Role: "robot", Scopes: []string{"*"}, Credential: "key/robot"},
		"any":   gatewaytest.Caller(agent.AnyTenant, "root", "*"),
	}
	for _, s := range scopes {
		p := gatewaytest.Caller("acme", "ann", strings.Split(s, ",")...)
		p.Role, p.Flags = "clerk", map[string]any{"beta": true}
		auth[s] = p
	}
	return startGateway(t, func(c *gateway.Config) { c.Auth, c.Audit = auth, trail }), trail
}

// User, role and flags come from the credential, and those of the body are dropped.
func TestWhoComesFromTheCredential(t *testing.T) {
	d, _ := startWithScopes(t, "*")
	var routed agent.RouteContext
	d.catalog.Decide = func(r agent.RouteContext) (agent.RouteDecision, error) {
		routed = r
		return agent.RouteDecision{Agent: "analyst"}, nil
	}
	var decided agent.Decision
	var cancelled agent.CancelRequest
	d.rt.Decided = func(_ agent.TurnID, v agent.Decision) error { decided = v; return nil }
	d.rt.Cancelled = func(_ agent.TurnID, v agent.CancelRequest) error { cancelled = v; return nil }
	lie := `"context":{"user_id":"bob","user_role":"admin","flags":{"root":true},"ui_page":"p","metadata":{"k":"v"}}`
	ann := agent.InvocationContext{
		Tenant: "acme", UserID: "ann", UserRole: "clerk", Flags: map[string]any{"beta": true}, UIPage: "p", Metadata: map[string]any{"k": "v"},
	}
	id := []string{"X-Request-Id", "mine-1"}
	require.Equal(t, 202, d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"t",`+lie+`}`, append(bearer("*"), id...)...).status)
	require.Equal(t, ann, d.lastSubmitted().Request.Context)
	require.Equal(t, "ann", d.lastSubmitted().Sender)
	require.Equal(t, "mine-1", d.lastSubmitted().RequestID)
	require.Equal(t, "key/acme-ann", d.lastSubmitted().Principal.Credential)
	require.Equal(t, []string{"*"}, d.lastSubmitted().Principal.Scopes)
	require.Equal(t, 202, d.send("POST", "/v1/turns/t/messages", `{"message":"x",`+lie+`}`, append(bearer("*"), id...)...).status)
	require.Equal(t, ann, d.lastSubmitted().Request.Context)
	require.Equal(t, "key/acme-ann", d.lastSubmitted().Principal.Credential)
	require.Equal(t, "mine-1", d.lastSubmitted().RequestID)
	d.rt.Finish("t", agent.TurnCompleted, "said")
	require.Equal(t, 202, d.send("POST", "/v1/turns/t/rerun?wait=false", `{`+lie+`}`, append(bearer("*"), id...)...).status)
	require.Equal(t, ann, d.lastSubmitted().Request.Context)
	require.Equal(t, "ann key/acme-ann mine-1", d.lastSubmitted().Sender+" "+d.lastSubmitted().Principal.Credential+" "+d.lastSubmitted().RequestID)
	require.Equal(t, 200, d.send("POST", "/v1/routes/dry-run", `{`+lie+`}`, bearer("*")...).status)
	require.Equal(t, ann, routed.InvocationContext)
	d.rt.Script = answerWith("ok")
	require.Equal(t, 200, d.send("POST", "/test/chat", `{"prompt":"x","job_id":"j","user_id":"bob"}`, bearer("*")...).status)
	require.Equal(t, "ann", d.lastSubmitted().Request.Context.UserID)
	require.Equal(t, "ann", d.lastSubmitted().Sender)

	rt := pb.NewAgentRuntimeClient(d.dial())
	p := &pb.InvocationContext{UserId: "bob", UserRole: "admin"}
	_, err := rt.Invoke(withBearer(t.Context(), "*", "x-request-id", "mine-2"), &pb.TurnRequest{Message: "x", Context: p})
	require.NoError(t, err)
	require.Equal(t, "ann", d.lastSubmitted().Request.Context.UserID)
	require.Equal(t, "clerk", d.lastSubmitted().Request.Context.UserRole)
	require.Equal(t, map[string]any{"beta": true}, d.lastSubmitted().Request.Context.Flags)
	require.Equal(t, "mine-2", d.lastSubmitted().RequestID)
	_, err = rt.AskAgent(withBearer(t.Context(), "*"), &pb.AgentRequest{Query: "x", Context: p})
	require.NoError(t, err)
	require.Equal(t, "clerk", d.lastSubmitted().Request.Context.UserRole)
	_, err = rt.Route(withBearer(t.Context(), "*"), &pb.RouteRequest{Context: p})
	require.NoError(t, err)
	require.Equal(t, "clerk", routed.UserRole)

	// With a credential without a subject, requests may name the user, and nothing else.
	d.send("POST", "/v1/turns", `{"message":"x",`+lie+`}`, bearer("robot")...)
	require.Equal(t, "bob", d.lastSubmitted().Request.Context.UserID)
	require.Equal(t, "robot", d.lastSubmitted().Request.Context.UserRole)
	require.Nil(t, d.lastSubmitted().Request.Context.Flags)
	require.Equal(t, "key/robot", d.lastSubmitted().Sender)

	for credential, by := range map[string]string{"*": "ann", "robot": "key/robot"} {
		require.Equal(t, 200, d.send("POST", "/v1/turns/t/decisions", `{"approval_id":"a","decision":"approve","by":"boss"}`, bearer(credential)...).status)
		require.Equal(t, by, decided.By)
		require.Equal(t, 202, d.send("POST", "/v1/turns/t/cancel", `{"by":"boss"}`, bearer(credential)...).status)
		require.Equal(t, by, cancelled.By)
		_, err = rt.Decide(withBearer(t.Context(), credential), &pb.DecideRequest{TurnId: "t", ApprovalId: "b", Decision: "reject", By: "boss"})
		require.NoError(t, err)
		require.Equal(t, by, decided.By)
		_, err = rt.Cancel(withBearer(t.Context(), credential), &pb.CancelRequest{TurnId: "t", By: "boss"})
		require.NoError(t, err)
		require.Equal(t, by, cancelled.By)
		body := `{"documents":[{"kind":"AgentInstance","name":"` + credential[:1] + `x","tenant":"acme"}],"by":"boss"}`
		a := d.send("POST", "/v1/catalog/apply", body, bearer(credential)...)
		require.Equal(t, 200, a.status, "%s", a.body)
		applied := d.catalog.Applied()
		require.Equal(t, by, applied[len(applied)-1].By)
		require.False(t, applied[len(applied)-1].DryRun)
		a = d.send("PUT", "/v1/workflows/w?by=boss", strings.Replace(mainFlow, "watch prices", credential, 1), bearer(credential)...)
		require.Equal(t, 200, a.status, "%s", a.body)
		require.Contains(t, string(d.send("GET", "/v1/workflows/w", "", bearer(credential)...).body), `"updated_by":"`+by+`"`)
	}
}

// stream_to is refused for every caller.
func TestStreamToIsRefused(t *testing.T) {
	d, _ := startWithScopes(t, "*")
	d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"t"}`, bearer("*")...)
	for _, path := range []string{"/v1/turns", "/v1/turns/t/messages"} {
		for _, credential := range []string{"*", "any"} {
			a := d.send("POST", path, `{"message":"x","stream_to":{"workflow_id":"w","signal":"s"}}`, bearer(credential)...)
			require.Equal(t, 400, a.status)
			require.Equal(t, "stream_to", a.failure(t).Field)
		}
	}
	// A job ignores unknown fields except this one.
	d.rt.Script = answerWith("ok")
	for _, body := range []string{`{"prompt":"x","stream_to":{"workflow_id":"w","signal":"s"}}`, `{"prompt":"x","context":{"stream_to":{}}}`} {
		a := d.send("POST", "/test/chat", body, bearer("*")...)
		require.Equal(t, 400, a.status)
		require.Equal(t, "stream_to", a.failure(t).Field)
	}
	require.Len(t, d.rt.Submitted(), 1)
}

// Only credentials of every tenant get data about all tenants.
func TestWhatIsAboutEveryTenant(t *testing.T) {
	trail := &gatewaytest.Trail{}
	d := startGateway(t, func(c *gateway.Config) {
		c.Audit = trail
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("turns 1")) })
		c.Auth = gatewaytest.Credentials{
			"acme": gatewaytest.Caller("acme", "ann", "*"), "any": gatewaytest.Caller(agent.AnyTenant, "", "*"),
			"scrape": gatewaytest.Caller(agent.AnyTenant, "", "metrics.read"),
		}
	})
	d.catalog.Sources = []agent.SourceStatus{{Name: "folder", Detail: "secret", Faults: []agent.Fault{{Document: "AgentInstance other/x", Message: "secret"}}}}
	d.rt.Break("postgres")
	for _, caller := range [][]string{nil, bearer("acme"), bearer("scrape")} {
		require.JSONEq(t, `{"status":"failing","workers":0,"dependencies":[{"name":"temporal","ok":true,"state":"ok","took_ms":0},
			{"name":"postgres","ok":false,"state":"down","hint":"Nothing listens at that address.","took_ms":0}]}`,
			string(d.send("GET", "/health", "", caller...).body), "what to do, and nothing internal")
	}
	require.Contains(t, string(d.send("GET", "/health", "", bearer("any")...).body), "10.1.2.3:5432")
	d.rt.Break("")
	require.Contains(t, string(d.send("GET", "/health", "", bearer("any")...).body), `"dependencies":[{`)
	require.Equal(t, 401, d.send("GET", "/health", "", bearer("wrong")...).status)
	require.Equal(t, 401, d.send("GET", "/metrics", "").status)
	require.Equal(t, 403, d.send("GET", "/metrics", "", bearer("acme")...).status)
	require.Equal(t, 200, d.send("GET", "/metrics", "", bearer("scrape")...).status)
	require.Equal(t, 401, d.send("GET", "/v1/nope", "").status)
	require.Equal(t, 404, d.send("GET", "/v1/nope", "", bearer("scrape")...).status)
	require.NotContains(t, string(d.send("GET", "/v1/catalog/status", "", bearer("acme")...).body), "secret")
	require.Contains(t, string(d.send("GET", "/v1/catalog/status", "", bearer("any")...).body), "secret")
	own, err := pb.NewCatalogClient(d.dial()).GetStatus(withBearer(t.Context(), "acme"), &pb.GetStatusRequest{})
	require.NoError(t, err)
	require.Empty(t, own.GetSources()[0].GetDetail())

	caller := decode[agent.Principal](t, d.send("GET", "/v1/whoami", "", bearer("acme")...))
	require.Equal(t, gatewaytest.Caller("acme", "ann", "*"), caller)
}
