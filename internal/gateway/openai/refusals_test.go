package openai_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		err            error
		status         int
		typ, code      string
		param, message string
		retryAfter     string
	}{
		"unknown agent":   {agent.FieldErrorf(agent.CodeNotFound, "agent", "there is none"), 404, "invalid_request_error", "model_not_found", "model", "model: there is none", ""},
		"unknown profile": {agent.FieldErrorf(agent.CodeNotFound, "model", "there is none"), 404, "invalid_request_error", "model_not_found", "model", "model: there is none", ""},
		"a bad schema": {
			agent.Invalid("output_schema.type", "is odd"), 400, "invalid_request_error", "invalid_value", "response_format.json_schema.schema.type",
			"response_format.json_schema.schema.type: is odd", "",
		},
		"a bad user":     {agent.Invalid("context.user_id", "is long"), 400, "invalid_request_error", "invalid_value", "user", "user: is long", ""},
		"no credential":  {agent.Errorf(agent.CodeUnauthenticated, "", "who?"), 401, "invalid_request_error", "invalid_api_key", "", "who?", ""},
		"not allowed":    {agent.Errorf(agent.CodeDenied, "", "no"), 403, "permission_error", "permission_denied", "", "no", ""},
		"a busy session": {agent.Errorf(agent.CodeConflict, "", "busy"), 409, "conflict_error", "conflict", "", "busy", ""},
		"session waits":  {agent.Errorf(agent.CodeConflict, "", "awaiting_approval: turn t waits"), 400, "awaiting_approval", "awaiting_approval", "", "awaiting_approval: turn t waits", ""},
		"too large":      {agent.Errorf(agent.CodeOverflow, "", "big"), 413, "invalid_request_error", "request_too_large", "", "big", ""},
		"too many": {
			&agent.Error{Code: agent.CodeRateLimited, RetryAfter: 1500 * time.Millisecond, Err: errors.New("many")}, 429,
			"rate_limit_exceeded", "rate_limit_exceeded", "", "many", "2",
		},
		"unavailable": {agent.Errorf(agent.CodeUnavailable, "", "later"), 503, "server_error", "unavailable", "", "later", "1"},
		"internal":    {errors.New("connect to db.internal"), 500, "server_error", "internal_error", "", "internal error; the server's log has the details under this request's id", ""},
		"cancelled":   {agent.Errorf(agent.CodeCancelled, "", "gone"), 499, "server_error", "cancelled", "", "gone", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.rt.Refuse = func(agent.Envelope) error { return c.err }
			for _, stream := range []string{"", `,"stream":true`} {
				a := d.complete(stream)
				require.Equal(t, c.status, a.status, "%s", a.body)
				require.Equal(t, c.retryAfter, a.header.Get("Retry-After"))
				p := a.problem(t)
				want := problem{Type: c.typ, Code: c.code, Message: c.message}
				if c.param != "" {
					want.Param = &c.param
				}
				require.Equal(t, want, p)
			}
		})
	}
}

func TestModels(t *testing.T) {
	d := open(t, nil)
	published := &agent.Artifact{CompiledAt: time.Unix(1_790_000_000, 0)}
	d.catalog.AgentList = []agent.AgentInfo{
		{Name: "analyst", Tenant: agent.SharedTenant, Models: []string{"main", "fast", "x:y"}, Description: "flights", Artifact: published},
		{Name: "broken", Tenant: "default", Fault: "its model is gone", Models: []string{"main"}},
		{Name: "writer", Tenant: "default", Models: []string{"main"}},
	}
	a := d.send("GET", "/v1/models", "")
	require.Equal(t, 200, a.status)
	one := func(id string) string {
		return `{"id":"` + id + `","object":"model","created":1790000000,"owned_by":"turnstone","description":"flights"}`
	}
	writer := `{"id":"writer","object":"model","created":0,"owned_by":"default"}`
	require.Equal(t, `{"object":"list","data":[`+one("analyst")+`,`+one("analyst:fast")+`,`+one("analyst:x:y")+`,`+writer+"]}\n", a.body)
	require.Equal(t, one("analyst:fast")+"\n", d.send("GET", "/v1/models/analyst%3Afast", "").body)
	require.Equal(t, writer+"\n", d.send("GET", "/v1/models/writer", "").body)
	for _, name := range []string{"broken", "nobody", "", "analyst/fast"} {
		a := d.send("GET", "/v1/models/"+name, "")
		require.Equal(t, 404, a.status, name)
		require.Equal(t, "model_not_found", a.problem(t).Code)
	}
	d.catalog.AgentList = nil
	require.JSONEq(t, `{"object":"list","data":[]}`, d.send("GET", "/v1/models", "").body)
	require.Equal(t, 405, d.send("DELETE", "/v1/models", "").status)

	for i := range 1200 {
		d.catalog.AgentList = append(d.catalog.AgentList, agent.AgentInfo{Name: fmt.Sprintf("a%04d", i), Tenant: "default"})
	}
	require.Equal(t, 1200, strings.Count(d.send("GET", "/v1/models", "").body, `"object":"model"`), "every page")
	require.Equal(t, 200, d.send("GET", "/v1/models/a1199", "").status)
}

// Errors of authentication and permission have the API's format. The user of a credential replaces the user of the body.
func TestCredentials(t *testing.T) {
	trail := &gatewaytest.Trail{}
	d := open(t, func(c *gateway.Config) {
		c.Audit = trail
		c.Auth = gatewaytest.Credentials{
			"ann": gatewaytest.Caller("acme", "ann", "turns.run:analyst"), "robot": gatewaytest.Caller("acme", "", "turns.*"),
			"reader": gatewaytest.Caller("acme", "", "turns.read"), "globex": gatewaytest.Caller("globex", "", "turns.*"),
		}
	})
	d.script(token("model/1", "x"), terminal("x", nil))
	d.catalog.AgentList = []agent.AgentInfo{{Name: "analyst", Tenant: "acme"}, {Name: "writer", Tenant: "acme"}, {Name: "spy", Tenant: "globex"}}
	withKey := func(key string) []string { return []string{"Authorization", "Bearer " + key} }

	for _, path := range []string{"/v1/models", "/v1/models/analyst"} {
		a := d.send("GET", path, "")
		require.Equal(t, 401, a.status)
		require.Equal(t, "invalid_api_key", a.problem(t).Code)
		a = d.send("GET", path, "", withKey("nobody")...)
		require.Equal(t, 401, a.status)
		require.Equal(t, "invalid_api_key", a.problem(t).Code, "an unknown key")
		a = d.send("GET", path, "", withKey("reader")...)
		require.Equal(t, 403, a.status)
		require.Equal(t, "permission_denied", a.problem(t).Code)
	}
	require.Equal(t, 401, d.complete("").status)
	require.Equal(t, 403, d.complete("", withKey("reader")...).status)
	require.Empty(t, d.rt.Submitted())

	list := d.send("GET", "/v1/models", "", withKey("robot")...).body
	require.Contains(t, list, `"writer"`)
	require.NotContains(t, list, `"spy"`, "another tenant's agent")
	denied := len(trail.Records())
	list = d.send("GET", "/v1/models", "", withKey("ann")...).body
	require.Contains(t, list, `"analyst"`)
	require.NotContains(t, list, `"writer"`)
	require.Equal(t, 404, d.send("GET", "/v1/models/writer", "", withKey("ann")...).status)
	require.Len(t, trail.Records(), denied, "listing models records no denied action")

	a := d.send("POST", "/v1/chat/completions", `{"model":"writer","messages":[{"role":"user","content":"x"}]}`, withKey("ann")...)
	require.Equal(t, 403, a.status)
	require.Equal(t, "permission_denied", a.problem(t).Code)
	require.Empty(t, d.rt.Submitted())

	require.Equal(t, 200, d.complete(`,"user":"eve"`, withKey("ann")...).status)
	require.Equal(t, 200, d.complete(`,"user":"eve"`, withKey("robot")...).status)
	require.Equal(t, 403, d.complete("", append(withKey("ann"), "Turnstone-Tenant", "globex")...).status)
	submitted := d.rt.Submitted()
	require.Len(t, submitted, 2)
	require.Equal(t, "ann", submitted[0].Request.Context.UserID)
	require.Equal(t, "eve", submitted[1].Request.Context.UserID, "a credential without a user takes the user of the body")
	for _, e := range submitted {
		require.Equal(t, "acme", e.Request.Context.Tenant)
	}
}
