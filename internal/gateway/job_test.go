package gateway_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/job"
)

func TestTestChat(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("three flights")
	a := d.send("POST", "/test/chat?prompt="+url.QueryEscape("fetch flights,\nsort by price"), "")
	require.Equal(t, 200, a.status, "%s", a.body)
	r, err := job.ParseResult(a.body)
	require.NoError(t, err)
	require.Equal(t, job.StatusCompleted, r.Status)
	require.Equal(t, "three flights", r.Output)
	require.NotEmpty(t, r.ResultRef)
	require.Equal(t, gatewaytest.Epoch(), r.CompletedAt)
	require.Equal(t, int64(15), r.Metadata.TokensUsed)
	require.True(t, r.Metadata.CacheHit, "what the row of the turn says")
	require.Contains(t, string(r.Metadata.ToolCalls), `"args"`)
	require.Equal(t, "offline", r.Metadata.LLMModel)
	require.Equal(t, a.header.Get("Turnstone-Turn-Id"), string(r.Metadata.TurnID))
	require.Equal(t, "/v1/turns/"+string(r.Metadata.TurnID), a.header.Get("Location"))
	e := d.rt.Submitted()[0]
	require.Equal(t, "fetch flights,\nsort by price", e.Request.Message)
	require.Equal(t, r.JobID, e.Request.Context.Metadata[agent.MetaJobID])

	// Jobs without an id get different ids.
	again := d.send("POST", "/test/chat?prompt=x", "", "Content-Type", "application/x-www-form-urlencoded") // as curl -d '' says
	require.Equal(t, 200, again.status)
	require.NotEqual(t, r.JobID, decode[job.Result](t, again).JobID)
}

// A complete job message submits the envelope of the job queue, and so does the short form.
func TestTestChatIsAJob(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("done")
	const message = `{"version":"1.7","job_id":"job 7","run_id":"run-1","node_id":"n","workflow_tag":"main","workflow_owner":"ann","prompt":"go",
		"context":{"session_id":"s-1","agent":"analyst","workflow_state":{"step":5},"unheard_of":1,
		"previous_results":[{"node_id":"f","result_ref":"cas://x","preview":{"count":150}}]},"timeout_sec":60,"retry_count":2,"priority":"high"}`
	a := d.send("POST", "/test/chat", message, "Content-Type", "application/json", "Turnstone-Tenant", "acme")
	require.Equal(t, 200, a.status, "%s", a.body)
	j, err := job.Parse([]byte(message))
	require.NoError(t, err)
	require.Equal(t, withCaller(j.Envelope("acme"), d.rt.Submitted()[0]), d.rt.Submitted()[0])

	// A request with the same job joins its turn.
	again := d.send("POST", "/test/chat", message, "Turnstone-Tenant", "acme")
	require.Equal(t, 200, again.status)
	first, second := decode[job.Result](t, a), decode[job.Result](t, again)
	require.Equal(t, gatewaytest.Epoch().Add(1200*time.Millisecond), second.CompletedAt, "about then")
	second.CompletedAt = first.CompletedAt
	require.Equal(t, first, second)

	a = d.send("POST", "/test/chat", `{"prompt":"go","session_id":"s-2","agent":"analyst","timeout_sec":9,"job_id":"j2","context":{"workflow_state":{"a":1}}}`)
	require.Equal(t, 200, a.status, "%s", a.body)
	j, err = job.Parse([]byte(`{"version":"1.0","job_id":"j2","prompt":"go","timeout_sec":9,
		"context":{"session_id":"s-2","agent":"analyst","workflow_state":{"a":1}}}`))
	require.NoError(t, err)
	require.Equal(t, withCaller(j.Envelope("default"), d.lastSubmitted()), d.lastSubmitted())
}

// Jobs of different tenants may have the same id.
func TestTestChatOfTwoTenants(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		rt.Say(id, "for "+r.Context.Tenant)
	}
	ids := map[string]string{}
	for _, tenant := range []string{"acme", "zeta", "default", "acme"} {
		a := d.send("POST", "/test/chat", `{"prompt":"go","job_id":"daily"}`, "Turnstone-Tenant", tenant)
		require.Equal(t, 200, a.status, "%s", a.body)
		require.Equal(t, "for "+tenant, decode[job.Result](t, a).Output)
		ids[tenant] = a.header.Get("Turnstone-Turn-Id")
	}
	require.Equal(t, "job-daily", ids["default"])
	require.NotEqual(t, ids["acme"], ids["zeta"])
	require.Len(t, d.rt.Submitted(), 4, "the fourth joins the first")
}

// withCaller returns an envelope with the caller that the gateway adds to it.
func withCaller(e, got agent.Envelope) agent.Envelope {
	e.Principal = agent.Principal{Method: agent.MethodNone, Tenant: agent.AnyTenant, Scopes: []string{"*"}}
	e.RequestID, e.Remote = got.RequestID, got.Remote
	return e
}

func TestTestChatFaults(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.BodyBytes = 2 << 20; c.AllowedHosts = nil })
	d.rt.Refuse = func(e agent.Envelope) error {
		switch e.Request.Agent {
		case "nobody":
			return &agent.Error{Code: agent.CodeNotFound, Field: "agent", Err: errors.New("no such agent")}
		case "busy":
			return &agent.Error{Code: agent.CodeConflict, Err: errors.New("awaiting_approval: …")}
		case "":
			return nil
		}
		return agent.Errorf(agent.CodeRateLimited, "", "slowly")
	}
	cases := map[string]struct {
		query, body string
		header      []string
		status      int
		field       string
	}{
		"nothing":           {"", "", nil, 400, "prompt"},
		"empty prompt":      {"?prompt=", "", nil, 400, "prompt"},
		"blank prompt":      {"", `{"prompt":" "}`, nil, 400, "prompt"},
		"no prompt":         {"", `{}`, nil, 400, "prompt"},
		"both":              {"?prompt=x", `{"prompt":"x"}`, nil, 400, "prompt"},
		"no object":         {"", `[1]`, nil, 400, ""},
		"null":              {"", `null`, nil, 400, ""},
		"malformed":         {"", `{"prompt":`, nil, 400, "prompt"},
		"given twice":       {"", `{"prompt":"x","prompt":"y"}`, nil, 400, "prompt"},
		"twice, inside":     {"", `{"prompt":"x","context":{"session_id":"a","session_id":"b"}}`, nil, 400, "context.session_id"},
		"wrong type":        {"", `{"prompt":7}`, nil, 400, "prompt"},
		"version":           {"", `{"version":"2.0","prompt":"x"}`, nil, 400, "version"},
		"session":           {"", `{"prompt":"x","session_id":"a/b"}`, nil, 400, "session_id"},
		"session, type":     {"", `{"prompt":"x","session_id":7}`, nil, 400, "session_id"},
		"session, inside":   {"", `{"prompt":"x","context":{"session_id":"a/b"}}`, nil, 400, "context.session_id"},
		"session, two":      {"", `{"prompt":"x","session_id":"a","context":{"session_id":"b"}}`, nil, 400, "session_id"},
		"context":           {"", `{"prompt":"x","session_id":"a","context":[]}`, nil, 400, "context"},
		"timeout":           {"", `{"prompt":"x","timeout_sec":0}`, nil, 400, "timeout_sec"},
		"too large":         {"", `{"prompt":"` + strings.Repeat("x", 300<<10) + `"}`, nil, 413, "prompt"},
		"message too large": {"", `{"prompt":"x","junk":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, ""},
		"body too large":    {"", strings.Repeat(" ", 3<<20), nil, 413, ""},
		"content type":      {"", `{"prompt":"x"}`, []string{"Content-Type", "text/plain"}, 415, ""},
		"tenant":            {"?tenant=a/b&prompt=x", "", nil, 400, "tenant"},
		"two tenants":       {"?tenant=a&prompt=x", "", []string{"Turnstone-Tenant", "b"}, 400, "tenant"},
		"origin":            {"?prompt=x", "", []string{"Origin", "http://evil.example"}, 403, ""},
		"host":              {"?prompt=x", "", []string{"Host", "evil.example"}, 403, ""},
		"unknown agent":     {"", `{"prompt":"x","agent":"nobody"}`, nil, 404, "agent"},
		"busy session":      {"", `{"prompt":"x","agent":"busy"}`, nil, 409, ""},
		"rate limited":      {"", `{"prompt":"x","agent":"eager"}`, nil, 429, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := d.send("POST", "/test/chat"+c.query, c.body, c.header...)
			require.Equal(t, c.status, a.status, "%s", a.body)
			require.Equal(t, c.field, a.failure(t).Field, "%s", a.body)
		})
	}
	require.Empty(t, d.rt.Submitted(), "nothing ran")
}
