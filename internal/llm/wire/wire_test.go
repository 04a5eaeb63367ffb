package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestNewClientValidatesItsConfig(t *testing.T) {
	for field, cfg := range map[string]Config{
		"timeout":         {Timeout: -1},
		"max_reply_bytes": {MaxReplyBytes: -1},
		"api_key":         {APIKey: "sk-1\n"},
		"base_url":        {BaseURL: "localhost:8080"},
	} {
		_, err := NewClient("p", "https://example.org", cfg)
		var e *agent.Error
		require.ErrorAs(t, err, &e, field)
		require.Equal(t, agent.CodeInvalid, e.Code)
		require.Equal(t, field, e.Field)
	}
	for _, base := range []string{"ftp://h/", "http://", "/v1", "http://sk-secret@ho st/"} {
		_, err := NewClient("p", "", Config{BaseURL: base})
		require.ErrorContains(t, err, "base_url", base)
		require.NotContains(t, err.Error(), "sk-secret")
	}
	c, err := NewClient("p", "https://example.org", Config{})
	require.NoError(t, err)
	require.Equal(t, Config{BaseURL: "https://example.org", Timeout: DefaultTimeout, MaxReplyBytes: DefaultMaxReplyBytes}, c.Config())
}

func TestConfigDoesNotShowSecrets(t *testing.T) {
	cfg := Config{APIKey: "sk-secret", BaseURL: "https://user:sk-secret@example.org/v1?key=sk-secret"}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("config", "cfg", cfg)
	for _, text := range []string{fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), cfg.String(), log.String()} {
		require.NotContains(t, text, "sk-secret")
		require.Contains(t, text, "example.org/v1")
	}
}

func TestBodyRefinesStatus(t *testing.T) {
	c := &Client{provider: "p"}
	for _, row := range []struct {
		status int
		body   string
		code   agent.Code
		text   string
	}{
		{429, `{"error":{"message":"You exceeded your quota","type":"insufficient_quota","code":"insufficient_quota"}}`, agent.CodeDenied, "You exceeded your quota"},
		{400, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`, agent.CodeOverflow, "too long"},
		{400, `{"message":"This model's maximum context length is 4096 tokens"}`, agent.CodeOverflow, "4096"},
		{404, `{"error":"model \"x\" not found"}`, agent.CodeNotFound, `model "x" not found`},
		{422, `{"detail":"field required"}`, agent.CodeInvalid, "field required"},
		{402, `{"error":{"message":"no credit","code":402}}`, agent.CodeDenied, "402 Payment Required: no credit"},
		{500, ``, agent.CodeUnavailable, "500 Internal Server Error"},
		{529, `null`, agent.CodeUnavailable, "529 Overloaded"},
		{503, `{"error":{"message":` + `"` + strings.Repeat("x", 5000) + `"}}`, agent.CodeUnavailable, "…"},
	} {
		e := c.statusError(row.status, nil, []byte(row.body))
		require.Equal(t, row.code, e.Code, row.body)
		require.Contains(t, e.Error(), row.text)
		require.Less(t, len(e.Error()), maxMessage+64)
	}
}

// With HideAnswers, errors do not quote the server.
func TestAnswersAreHidden(t *testing.T) {
	const body = "internal words"
	c := &Client{provider: "p", cfg: Config{HideAnswers: true}}
	call := c.Begin(t.Context(), nil)
	defer call.End()
	for want, err := range map[string]error{
		"call model: p: 500 Internal Server Error":               c.statusError(500, nil, []byte(`{"error":"`+body+`"}`)),
		"call model: p: 400 Bad Request (invalid_request_error)": c.statusError(400, nil, []byte(`{"error":{"message":"`+body+`","type":"invalid_request_error"}}`)),
		"call model: p: 404 Not Found":                           c.statusError(404, nil, []byte(`{"error":{"message":"x","code":"`+body+`"}}`)),
		"call model: p: in mid-stream: an error without a text":  call.StreamError([]byte(`{"error":{"message":"` + body + `"}}`)),
		"call model: p: malformed stream":                        call.Malformed(errors.New(body)),
		"call model: p: the answer cannot be read":               call.Failure(errors.New(body)),
		"call model: p: 10.0.0.1 is not a public address":        c.unavailableError(agent.Errorf(agent.CodeDenied, "request h", "10.0.0.1 is not a public address")),
	} {
		require.EqualError(t, err, want)
	}
	require.Equal(t, agent.CodeOverflow, c.statusError(400, nil, []byte(`{"message":"maximum context length is 4096"}`)).Code, "the message still determines the code")
	require.Equal(t, agent.CodeDenied, c.unavailableError(agent.Errorf(agent.CodeDenied, "request h", "no")).Code)
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "0.5": 500 * time.Millisecond, "-3": 0, "soon": 0, "NaN": 0, "Inf": maxRetryAfter,
		"Fri, 02 Jan 2026 03:05:05 GMT": time.Minute, "Fri, 02 Jan 2026 03:00:00 GMT": 0, "999999999999": maxRetryAfter,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {text}}, now), text)
	}
	require.Equal(t, 1500*time.Millisecond, retryAfter(http.Header{"Retry-After-Ms": {"1500"}, "Retry-After": {"2"}}, now))
}

// A connection is used again although the reader stops at the end of the reply, before the end of the body.
func TestConnectionIsReused(t *testing.T) {
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "data: x\n\n")
			w.(http.Flusher).Flush()
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	c, err := NewClient("p", s.URL, Config{})
	require.NoError(t, err)
	for range 5 {
		call := c.Begin(t.Context(), nil)
		req, err := http.NewRequestWithContext(call.Context(), http.MethodGet, s.URL, nil)
		require.NoError(t, err)
		res, err := c.HTTP().Do(req)
		require.NoError(t, err)
		_, err = io.ReadFull(res.Body, make([]byte, 27)) // the whole reply, but not the end of the body
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		call.End()
	}
	require.EqualValues(t, 1, connections.Load())
}

func FuzzParseError(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"m","type":"t","code":"c"}}`))
	f.Add([]byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
	f.Add([]byte(`{"error":"m"}`))
	f.Add([]byte(`{"detail":[{"msg":"m"}]}`))
	f.Add([]byte(`<html>`))
	c := &Client{provider: "p", cfg: Config{APIKey: "sk-secret"}}
	f.Fuzz(func(t *testing.T, body []byte) {
		e := c.statusError(http.StatusBadGateway, http.Header{"Retry-After": {string(body)}}, body)
		require.NotContains(t, e.Error(), "sk-secret")
		require.Less(t, len(e.Error()), maxMessage+64)
		require.GreaterOrEqual(t, e.RetryAfter, time.Duration(0))
		require.LessOrEqual(t, e.RetryAfter, maxRetryAfter)
		require.NotEqual(t, agent.CodeInternal, e.Code)
	})
}

// The timeout of an HTTP client is an [agent.Error] too.
func TestTimeoutOfTheHTTPClient(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer s.Close()
	c, err := NewClient("p", s.URL, Config{HTTPClient: &http.Client{Timeout: 50 * time.Millisecond}})
	require.NoError(t, err)
	call := c.Begin(t.Context(), nil)
	defer call.End()
	req, err := http.NewRequestWithContext(call.Context(), http.MethodGet, s.URL, nil)
	require.NoError(t, err)
	_, err = c.HTTP().Do(req)
	err = call.Failure(err)
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err))
	require.ErrorContains(t, err, "call model: p: ")
}
