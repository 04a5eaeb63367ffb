package ws_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/access"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
	"github.com/turnstone-run/turnstone/internal/gateway/ws"
)

// openWithAuth starts a server that requires credentials.
func openWithAuth(t *testing.T, trail *gatewaytest.Trail) *server {
	t.Helper()
	return open(t, func(c *gateway.Config, _ *ws.Config) {
		c.Audit = trail
		c.Auth = gatewaytest.Credentials{
			"ada":     gatewaytest.Caller("acme", "ada", "*"),
			"reader":  gatewaytest.Caller("acme", "reader", "turns.read"),
			"runner":  gatewaytest.Caller("acme", "runner", "turns.read", "turns.run:analyst"),
			"mallory": gatewaytest.Caller("evil", "mallory", "*"),
			"nobody":  gatewaytest.Caller("acme", "nobody", "results.read"),
		}
	})
}

func TestHandshakeNeedsCredential(t *testing.T) {
	h := openWithAuth(t, &gatewaytest.Trail{})
	for token, want := range map[string]int{
		"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, "nobody": http.StatusForbidden, "reader": http.StatusSwitchingProtocols,
	} {
		header := http.Header{}
		if token != "" {
			header.Set("Authorization", "Bearer "+token)
		}
		conn, resp, err := websocket.Dial(t.Context(), h.url(""), &websocket.DialOptions{HTTPHeader: header})
		require.Equal(t, want, resp.StatusCode, token)
		if err == nil {
			_ = conn.CloseNow()
		}
	}
	_, resp, err := websocket.Dial(t.Context(), h.url("?access_token=ada&tenant=evil"), nil)
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
}

func TestFramesUseTheCredential(t *testing.T) {
	h := openWithAuth(t, &gatewaytest.Trail{})
	var by []string
	h.rt.Decided = func(_ agent.TurnID, d agent.Decision) error { by = append(by, d.By); return nil }
	h.rt.Cancelled = func(_ agent.TurnID, c agent.CancelRequest) error { by = append(by, c.By); return nil }
	c := h.dial("?access_token=ada")
	c.send(`{"type":"turn","id":"a","request":{"turn_id":"t","message":"x","context":{"user_id":"boss","user_role":"root","flags":{"x":true}}}}`)
	c.want("accepted", "a")
	e := h.rt.Submitted()[0]
	require.Equal(t, "acme", e.Request.Context.Tenant)
	require.Equal(t, "ada", e.Request.Context.UserID)
	require.Empty(t, e.Request.Context.UserRole)
	require.Empty(t, e.Request.Context.Flags)
	require.Equal(t, "ada", e.Principal.Subject)
	require.NotEmpty(t, e.RequestID)
	c.send(`{"type":"decide","id":"d","turn_id":"t","decision":{"approval_id":"x","decision":"approve","by":"boss"}}`)
	c.want("ok", "d")
	c.send(`{"type":"cancel","id":"d","turn_id":"t","by":"boss"}`)
	c.want("ok", "d")
	require.Equal(t, []string{"ada", "ada"}, by)
	c.send(`{"type":"turn","id":"b","request":{"message":"x","context":{"tenant":"evil"}}}`)
	c.wantError("b", "denied", "context.tenant")
}

// everyCall has a frame of each type about the turn t, and whether it only reads.
var everyCall = map[string]bool{
	`{"type":"follow","id":"x","turn_id":"t"}`:                                                                true,
	`{"type":"get","id":"x","turn_id":"t"}`:                                                                   true,
	`{"type":"message","id":"x","turn_id":"t","request":{"message":"x"}}`:                                     false,
	`{"type":"decide","id":"x","turn_id":"t","decision":{"approval_id":"a1","decision":"approve","by":"me"}}`: false,
	`{"type":"provide","id":"x","turn_id":"t","provided":{"tool_call_id":"x","result":1}}`:                    false,
	`{"type":"cancel","id":"x","turn_id":"t"}`:                                                                false,
}

func TestFramesNeedPermissions(t *testing.T) {
	trail := &gatewaytest.Trail{}
	h := openWithAuth(t, trail)
	_, err := h.rt.Submit(t.Context(), agent.Envelope{Request: agent.TurnRequest{
		TurnID: "t", Message: "x", Context: agent.InvocationContext{Tenant: "acme"},
	}})
	require.NoError(t, err)
	h.rt.Emit("t", agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "a1", TurnID: "t", ToolName: "mail"}})

	mallory, reader := h.dial("?access_token=mallory"), h.dial("?access_token=reader")
	for frame, isRead := range everyCall {
		mallory.send("%s", frame)
		mallory.wantError("x", "not_found", "")
		if !isRead {
			reader.send("%s", frame)
			reader.wantError("x", "denied", "")
		}
	}
	h.dial("?access_token=mallory&turn_id=t").wantError("", "not_found", "")
	reader.send(`{"type":"turn","id":"x","request":{"message":"x"}}`)
	reader.wantError("x", "denied", "")
	runner := h.dial("?access_token=runner")
	runner.send(`{"type":"turn","id":"x","request":{"agent":"clerk","message":"x"}}`)
	runner.wantError("x", "denied", "")
	require.Len(t, h.rt.Submitted(), 1)
	runner.send(`{"type":"turn","id":"x","request":{"agent":"analyst","message":"x"}}`)
	runner.want("accepted", "x")
	denied := 0
	for _, r := range trail.Records() {
		if r.Outcome == agent.AuditDenied {
			denied++
		}
	}
	require.Equal(t, 6, denied, "each denied call is recorded")
	reader.send(`{"type":"follow","id":"x","turn_id":"t"}`)
	reader.want("event", "x")
}

// revocable accepts the credentials until they are revoked.
type revocable struct {
	gatewaytest.Credentials

	revoked atomic.Bool
}

func (r *revocable) Authenticate(ctx context.Context, c access.Credentials) (agent.Principal, error) {
	if r.revoked.Load() {
		return agent.Principal{}, access.Refused("the API key was revoked")
	}
	return r.Credentials.Authenticate(ctx, c)
}

// A socket is closed when its credential is revoked. Its follows get an error, the close frame gives the reason, and queued messages are not submitted.
func TestSocketEndsWithItsCredential(t *testing.T) {
	auth := &revocable{Credentials: gatewaytest.Credentials{"ada": gatewaytest.Caller("acme", "ada", "*")}}
	h := open(t, func(c *gateway.Config, _ *ws.Config) {
		c.Auth = auth
		c.Limits.ReadTimeout = 500 * time.Millisecond // it must not close an idle socket
	})
	entered, release := make(chan struct{}), make(chan struct{})
	h.rt.onMessage = func() { close(entered); <-release }
	c := h.dial("?access_token=ada")
	c.send(`{"type":"turn","id":"a","request":{"turn_id":"t","session_id":"s","message":"x"}}`)
	c.want("accepted", "a")
	c.send(`{"type":"message","id":"m1","turn_id":"t","request":{"message":"in flight"}}`)
	<-entered
	c.send(`{"type":"message","id":"m2","turn_id":"t","request":{"message":"queued"}}`)

	auth.revoked.Store(true)
	start := time.Now()
	f := c.next()
	for f.Type == "event" {
		f = c.next()
	}
	require.Equal(t, "a", f.ID)
	require.Equal(t, "unauthenticated", f.Error.Type)
	require.Contains(t, f.Error.Message, "revoked")
	require.Less(t, time.Since(start), 5*time.Second)
	c.send(`{"type":"turn","id":"b","request":{"message":"too late"}}`)
	c.wantError("b", "unauthenticated", "")
	close(release)
	c.want("accepted", "m1")
	c.wantError("m2", "unauthenticated", "")
	require.Equal(t, websocket.StatusCode(4401), websocket.CloseStatus(c.closeError()))
	for _, e := range h.rt.Submitted() {
		require.NotContains(t, []string{"queued", "too late"}, e.Request.Message)
	}
	t.Logf("closed %s after the key", time.Since(start).Round(time.Millisecond))
}
