package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

func TestBadRequests(t *testing.T) {
	d := startGateway(t, nil)
	d.rt.Script = answerWith("never")
	d.rt.Refuse = func(e agent.Envelope) error {
		switch {
		case e.Request.Agent == "nobody":
			return &agent.Error{Code: agent.CodeNotFound, Field: "agent", Err: errors.New(`no agent "nobody"`)}
		case e.Request.SessionID == "busy":
			return agent.Errorf(agent.CodeConflict, "", "session busy is running another turn")
		case e.Request.SessionID == "limited":
			return &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 1500 * time.Millisecond, Err: errors.New("slow down")}
		case e.Request.SessionID == "down":
			return agent.Errorf(agent.CodeUnavailable, "", "storage is away")
		case e.Request.SessionID == "bug":
			return errors.New("dial postgres://user:secret@db")
		}
		return nil
	}
	cases := map[string]struct {
		path, body string
		header     []string
		status     int
		kind       string
		field      string
	}{
		"malformed":            {body: `{"message":`, status: 400, kind: "invalid", field: "message"},
		"empty body":           {body: ``, status: 400, kind: "invalid"},
		"not an object":        {body: `["x"]`, status: 400, kind: "invalid"},
		"null":                 {body: " null\n", status: 400, kind: "invalid"},
		"compressed":           {body: `{"message":"x"}`, header: []string{"Content-Encoding", "gzip"}, status: 415, kind: "invalid"},
		"long value":           {body: `{"message":"x","mode":"` + strings.Repeat("x", 200_000) + `"}`, status: 400, kind: "invalid", field: "mode"},
		"long history":         {body: `{"message":"x","history":"` + strings.Repeat("x", 200_000) + `"}`, status: 400, kind: "invalid", field: "history"},
		"long on_busy":         {body: `{"message":"x","on_busy":"` + strings.Repeat("x", 200_000) + `"}`, status: 400, kind: "invalid", field: "on_busy"},
		"trailing data":        {body: `{"message":"x"} {}`, status: 400, kind: "invalid"},
		"unknown field":        {body: `{"message":"x","nope":1}`, status: 400, kind: "invalid", field: "nope"},
		"unknown, nested":      {body: `{"message":"x","limits":{"tool_cals":1}}`, status: 400, kind: "invalid", field: "limits.tool_cals"},
		"wrong type":           {body: `{"message":7}`, status: 400, kind: "invalid", field: "message"},
		"string for number":    {body: `{"message":"x","limits":{"tool_calls":"9"}}`, status: 400, kind: "invalid", field: "limits.tool_calls"},
		"fraction for integer": {body: `{"message":"x","limits":{"tool_calls":1.5}}`, status: 400, kind: "invalid", field: "limits.tool_calls"},
		"negative limit":       {body: `{"message":"x","limits":{"tokens":-1}}`, status: 400, kind: "invalid", field: "limits.tokens"},
		"twice":                {body: `{"message":"x","message":"y"}`, status: 400, kind: "invalid", field: "message"},
		"wrong role":           {body: `{"messages":[{"role":"king","blocks":[{"type":"text","text":"x"}]}]}`, status: 400, kind: "invalid", field: "messages[0].role"},
		"role is a number":     {body: `{"messages":[{"role":1}]}`, status: 400, kind: "invalid", field: "messages[0].role"},
		"block is wrong":       {body: `{"messages":[{"role":"user","blocks":[{"type":"image"}]}]}`, status: 400, kind: "invalid", field: "messages[0].blocks[0]"},
		"no message":           {body: `{"agent":"analyst"}`, status: 400, kind: "invalid", field: "message"},
		"empty message":        {body: `{"message":""}`, status: 400, kind: "invalid", field: "message"},
		"message is null":      {body: `{"message":null}`, status: 400, kind: "invalid", field: "message"},
		"message and messages": {body: `{"message":"x","messages":[{"role":"user","blocks":[{"type":"text","text":"y"}]}]}`, status: 400, kind: "invalid", field: "messages"},
		"session id":           {body: `{"message":"x","session_id":"a b"}`, status: 400, kind: "invalid", field: "session_id"},
		"stream_to":            {body: `{"message":"x","stream_to":{"workflow_id":"w","signal":"s"}}`, status: 400, kind: "invalid", field: "stream_to"},
		"on_busy":              {body: `{"message":"x","on_busy":"maybe"}`, status: 400, kind: "invalid", field: "on_busy"},
		"content type":         {body: `message=x`, header: []string{"Content-Type", "application/x-www-form-urlencoded"}, status: 415, kind: "invalid"},
		"charset":              {body: `{"message":"x"}`, header: []string{"Content-Type", "application/json; charset=latin1"}, status: 415, kind: "invalid"},
		"no content type":      {body: `{"message":"x"}`, header: []string{"Content-Type", ""}, status: 415, kind: "invalid"},
		"wait":                 {path: "?wait=maybe", body: `{"message":"x"}`, status: 400, kind: "invalid", field: "wait"},
		"two keys":             {body: `{"message":"x","idempotency_key":"a"}`, header: []string{"Idempotency-Key", "b"}, status: 400, kind: "invalid", field: "idempotency_key"},
		"two tenants":          {body: `{"message":"x","context":{"tenant":"a"}}`, header: []string{"Turnstone-Tenant", "b"}, status: 400, kind: "invalid", field: "context.tenant"},
		"tenant":               {body: `{"message":"x"}`, header: []string{"Turnstone-Tenant", "a b"}, status: 400, kind: "invalid", field: "tenant"},
		"unknown agent":        {body: `{"message":"x","agent":"nobody"}`, status: 404, kind: "not_found", field: "agent"},
		"busy":                 {body: `{"message":"x","session_id":"busy"}`, status: 409, kind: "conflict"},
		"limited":              {body: `{"message":"x","session_id":"limited"}`, status: 429, kind: "rate_limited"},
		"down":                 {body: `{"message":"x","session_id":"down"}`, status: 503, kind: "unavailable"},
		"bug":                  {body: `{"message":"x","session_id":"bug"}`, status: 500, kind: "internal"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, accept := range []string{"application/json", "text/event-stream"} {
				a := d.send("POST", "/v1/turns"+c.path, c.body, append(c.header, "Accept", accept)...)
				require.Equal(t, c.status, a.status, "%s", a.body)
				f := a.failure(t)
				require.Equal(t, c.kind, f.Type)
				require.Equal(t, c.field, f.Field)
				require.NotEmpty(t, f.Message)
				require.Less(t, len(f.Message), 300, "a value is not repeated at length")
				require.NotContains(t, f.Message, "secret")
				require.Equal(t, c.status == 429 || c.status == 503, f.Retryable)
				switch c.status {
				case 429:
					require.Equal(t, "2", a.header.Get("Retry-After"))
				case 503:
					require.Equal(t, "1", a.header.Get("Retry-After"))
				default:
					require.Empty(t, a.header.Get("Retry-After"))
				}
			}
		})
	}
	require.Empty(t, d.rt.Submitted(), "a refused request must not start a turn")
}

func TestUnknownPathsAndMethods(t *testing.T) {
	d := startGateway(t, nil)
	for _, path := range []string{"/", "/v1", "/v1/nope", "/v1/turns/x/nope", "/metrics"} {
		a := d.send("GET", path, "")
		require.Equal(t, 404, a.status, path)
		require.Equal(t, "not_found", a.failure(t).Type)
	}
	a := d.send("POST", "/v1/responses", `{"model":"analyst","input":"x"}`)
	require.Equal(t, 404, a.status)
	require.Contains(t, a.failure(t).Message, "use /v1/chat/completions")
	for request, allow := range map[string]string{
		"PUT /v1/turns": "GET, HEAD, POST", "DELETE /v1/turns/t": "GET, HEAD", "POST /v1/turns/t/events": "GET, HEAD",
		"GET /v1/turns/t/decisions": "POST", "PUT /health": "GET, HEAD", "POST /v1/agents": "GET, HEAD",
		"GET /v1/routes/dry-run": "POST", "GET /v1/catalog/apply": "POST", "GET /v1/catalog/publish": "POST",
		"POST /v1/catalog/documents/ModelProfile/m": "GET, HEAD, DELETE", "DELETE /v1/catalog/documents": "GET, HEAD",
		"POST /v1/catalog/stream": "GET, HEAD", "POST /v1/catalog/status": "GET, HEAD", "POST /v1/catalog/plans/x": "GET, HEAD",
	} {
		method, path, _ := strings.Cut(request, " ")
		a := d.send(method, path, "")
		require.Equal(t, 405, a.status, request)
		require.Equal(t, allow, a.header.Get("Allow"), request)
		require.Equal(t, "invalid", a.failure(t).Type)
	}
}

// endlessBody counts the bytes that are read of it.
type endlessBody struct{ read atomic.Int64 }

func (m *endlessBody) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	m.read.Add(int64(len(p)))
	return len(p), nil
}

// sendBeforeReading sends a complete request before it reads the response, and returns the status.
func (d *testGateway) sendBeforeReading(path, contentType string, size int64) int {
	d.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(d.t.Context(), "tcp", d.HTTPAddr())
	require.NoError(d.t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", path, contentType, size)
	require.NoError(d.t, err)
	_, err = io.Copy(conn, io.LimitReader(&endlessBody{}, size))
	require.NoError(d.t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(d.t, err)
	require.NoError(d.t, resp.Body.Close())
	return resp.StatusCode
}

func TestTooLargeBodyIsNotRead(t *testing.T) {
	d := startGateway(t, func(c *gateway.Config) { c.Limits.BodyBytes = 1 << 20 })
	const size = 50 << 20
	for name, length := range map[string]int64{"known length": size, "unknown length": -1} {
		t.Run(name, func(t *testing.T) {
			body := &endlessBody{}
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/turns",
				io.LimitReader(io.MultiReader(strings.NewReader(`{"message":"`), body), size))
			require.NoError(t, err)
			req.ContentLength = length
			req.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, 413, resp.StatusCode)
			data, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Contains(t, string(data), `"type":"overflow"`)
			require.Less(t, body.read.Load(), int64(size-1), "the client should have been stopped early")
		})
	}

	require.Equal(t, 413, d.sendBeforeReading("/v1/turns", "application/json", size))

	d.rt.Script = answerWith("ok")
	a := d.send("POST", "/v1/turns", `{"message":"`+strings.Repeat("x", 1<<19)+`"}`)
	require.Equal(t, 200, a.status, "a body within the bound passes")
}
