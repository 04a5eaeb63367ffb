package gateway_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

func TestGetTurn(t *testing.T) {
	d := startGateway(t, nil)
	d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"t","context":{"tenant":"acme"}}`)
	d.rt.Emit("t", gatewaytest.Status(agent.StatusRunning))
	a := d.send("GET", "/v1/turns/t", "")
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"turn_id":"t","session_id":"t","stream_id":"t","agent":"analyst","state":"running","status":"running",
		"started_at":"2026-11-21T12:00:00Z","last_event_index":1}`, string(a.body))
	d.rt.Finish("t", agent.TurnCompleted, "done")
	a = d.send("GET", "/v1/turns/t?tenant=acme", "")
	require.Contains(t, string(a.body), `"output":"done"`)
	require.Contains(t, string(a.body), `"state":"completed"`)
	for _, path := range []string{"/v1/turns/unknown", "/v1/turns/%20%20", "/v1/turns/t?tenant=other", "/v1/turns/t/events?tenant=other"} {
		require.Equal(t, "not_found", d.send("GET", path, "").failure(t).Type, path)
	}
	require.Equal(t, "not_found", d.send("GET", "/v1/turns/t", "", "Turnstone-Tenant", "other").failure(t).Type)
}

func TestActions(t *testing.T) {
	d := startGateway(t, nil)
	var decided agent.Decision
	var provided agent.ProvidedResult
	var cancelled agent.CancelRequest
	d.rt.Decided = func(_ agent.TurnID, v agent.Decision) error {
		decided = v
		if v.ApprovalID == "twice" {
			return agent.Errorf(agent.CodeConflict, "", "approval twice is decided already")
		}
		return nil
	}
	d.rt.Provided = func(_ agent.TurnID, v agent.ProvidedResult) error { provided = v; return nil }
	d.rt.Cancelled = func(_ agent.TurnID, v agent.CancelRequest) error { cancelled = v; return nil }
	d.send("POST", "/v1/turns?wait=false", `{"message":"x","turn_id":"t","session_id":"s"}`)
	cases := []struct {
		path, body string
		status     int
		want       string // within the body; for errors the field
	}{
		{"decisions", `{"approval_id":"a","decision":"approve","by":"ops"}`, 200, `"decision":"approve"`},
		{"decisions", `{"approval_id":"a","decision":"edit","args":{"k":3},"by":"ops"}`, 200, `"decision":"edit"`},
		{"decisions", `{"approval_id":"a","decision":"respond","message":"42"}`, 200, `"decision":"respond"`},
		{"decisions", `{"approval_id":"twice","decision":"reject"}`, 409, ``},
		{"decisions", `{"approval_id":"a","decision":"edit"}`, 400, `args`},
		{"decisions", `{"approval_id":"a","decision":"edit","args":[1]}`, 400, `args`},
		{"decisions", `{"approval_id":"a","decision":"respond"}`, 400, `message`},
		{"decisions", `{"approval_id":"a","decision":"perhaps"}`, 400, `decision`},
		{"decisions", `{"decision":"approve"}`, 400, `approval_id`},
		{"decisions", `{"approval_id":"a","decision":"approve","extra":1}`, 400, `extra`},
		{"decisions", ``, 400, ``},
		{"results", `{"tool_call_id":"c","result":{"rows":[1,2]}}`, 200, `"tool_call_id":"c"`},
		{"results", `{"tool_call_id":"c","error":"no camera"}`, 200, `"tool_call_id":"c"`},
		{"results", `{"tool_call_id":"c"}`, 400, `result`},
		{"results", `{"tool_call_id":"c","result":1,"error":"x"}`, 400, `error`},
		{"results", `{"result":1}`, 400, `tool_call_id`},
		{"cancel", ``, 202, `"turn_id":"t"`},
		{"cancel", `{"reason":"changed my mind","by":"me"}`, 202, `"session_id":"s"`},
		{"cancel", `{"reasons":1}`, 400, `reasons`},
		{"messages", `{"message":"and now?","on_busy":"interrupt"}`, 202, `"position":1`},
		{"messages", `{"message":"and now?","session_id":"other"}`, 400, `session_id`},
		{"messages", `{"message":"x","context":{"tenant":"other"}}`, 400, `context.tenant`},
		{"messages", `{"message":"x","stream_to":{"workflow_id":"w","signal":"s"}}`, 400, `stream_to`},
		{"messages", `{}`, 400, `message`},
	}
	for _, c := range cases {
		t.Run(c.path+c.body, func(t *testing.T) {
			a := d.send("POST", "/v1/turns/t/"+c.path, c.body)
			require.Equal(t, c.status, a.status, "%s", a.body)
			if c.status >= 400 {
				require.Equal(t, c.want, a.failure(t).Field, "%s", a.body)
				return
			}
			require.Contains(t, string(a.body), c.want)
			require.Equal(t, 404, d.send("POST", "/v1/turns/unknown/"+c.path, c.body).status)
		})
	}
	require.Equal(t, "twice", decided.ApprovalID)
	require.Equal(t, "no camera", provided.Error)
	require.Equal(t, agent.CancelRequest{Reason: "changed my mind", By: "me"}, cancelled)
	sent := d.rt.Submitted()
	require.Equal(t, agent.SessionID("s"), sent[1].Request.SessionID)
	require.Equal(t, agent.OnBusyInterrupt, sent[1].Request.OnBusy)
}

func TestReads(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) {
		c.Metrics = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "up 1\n") })
		c.Limits.MessagePage = 2
	})
	a := d.send("GET", "/health", "")
	require.Equal(t, 200, a.status)
	require.JSONEq(t, `{"status":"ok","version":"test","workers":0,"dependencies":[{"name":"temporal","ok":true,"state":"ok","took_ms":1},
		{"name":"postgres","ok":true,"state":"ok","took_ms":1}]}`, string(a.body))
	require.Equal(t, "up 1\n", string(d.send("GET", "/metrics", "").body))

	big := bytes.Repeat([]byte("0123456789"), 300_000)
	d.rt.Store("artifact://r1", big)
	d.rt.Store("cas://sha256:00", []byte(`{}`))
	for _, path := range []string{"artifact:%2F%2Fr1", "artifact://r1", "cas:%2F%2Fsha256:00"} {
		a = d.send("GET", "/v1/results/"+path, "")
		require.Equal(t, 200, a.status, path)
		require.NotEmpty(t, a.header.Get("Turnstone-Result-Ref"))
		require.NotEmpty(t, a.header.Get("Content-Length"))
	}
	require.Equal(t, big, d.send("GET", "/v1/results/artifact:%2F%2Fr1", "").body)
	for _, path := range []string{"none", "", "%00", strings.Repeat("x", 300)} {
		require.Equal(t, "not_found", d.send("GET", "/v1/results/"+path, "").failure(t).Type, path)
	}

	for range 3 {
		d.send("POST", "/v1/turns?wait=false", `{"message":"hi","session_id":"s"}`)
	}
	page := decode[gateway.MessagePage](t, d.send("GET", "/v1/sessions/s/messages", ""))
	require.Len(t, page.Messages, 2)
	require.True(t, page.More)
	page = decode[gateway.MessagePage](t, d.send("GET", fmt.Sprintf("/v1/sessions/s/messages?after=%d&limit=1000", page.Next), ""))
	require.Len(t, page.Messages, 1)
	require.False(t, page.More)
	require.Equal(t, "limit", d.send("GET", "/v1/sessions/s/messages?limit=-1", "").failure(t).Field)
	require.Equal(t, "after", d.send("GET", "/v1/sessions/s/messages?after=x", "").failure(t).Field)
	require.Equal(t, 404, d.send("GET", "/v1/sessions/a%20b/messages", "").status)
}
