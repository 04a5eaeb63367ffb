package notifications_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/egress"
	"github.com/turnstone-run/turnstone/internal/notifications"
)

func egressTo(t *testing.T, server string, private bool) *egress.Client {
	t.Helper()
	u, err := url.Parse(server)
	require.NoError(t, err)
	c := egress.Config{}
	if private {
		c.AllowPrivate = []string{u.Host}
	}
	out, err := egress.New(c)
	require.NoError(t, err)
	return out
}

func webhooksTo(t *testing.T, server string, private bool) *notifications.Webhooks {
	t.Helper()
	return &notifications.Webhooks{HTTP: egressTo(t, server, private)}
}

func hook(u string) notifications.Webhook {
	return notifications.Webhook{
		Tenant: "acme", Method: http.MethodPost, URL: u, Header: map[string]string{"X-A": "b"}, Body: []byte(`{"a":1}`), Key: "k1",
	}
}

func TestWebhook(t *testing.T) {
	var got *http.Request
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write(bytes.Repeat([]byte("x"), 20<<10))
	}))
	defer s.Close()
	h := webhooksTo(t, s.URL, true)
	n := 0
	answer, err := h.Send(t.Context(), hook(s.URL+"/in"), countMark(&n))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, 429, answer.Status)
	require.Equal(t, 7*time.Second, answer.RetryAfter)
	require.Equal(t, "text/plain", answer.Type)
	require.Len(t, answer.Body, notifications.MaxAnswerBytes)
	require.Equal(t, "k1", got.Header.Get("Idempotency-Key"))
	require.Equal(t, "b", got.Header.Get("X-A"))
	require.JSONEq(t, `{"a":1}`, string(body))
}

func TestRetryAfterDate(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	n := 0
	answer, err := webhooksTo(t, s.URL, true).Send(t.Context(), hook(s.URL), countMark(&n))
	require.NoError(t, err)
	require.InDelta(t, time.Hour.Seconds(), answer.RetryAfter.Seconds(), 5)
}

func TestNoConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := "http://" + l.Addr().String()
	require.NoError(t, l.Close())
	n := 0
	_, err = webhooksTo(t, addr, true).Send(t.Context(), hook(addr), countMark(&n))
	require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
	require.NotErrorIs(t, err, notifications.ErrUnknown)

	_, err = webhooksTo(t, addr, false).Send(t.Context(), hook(addr), countMark(&n))
	require.Equal(t, agent.CodeDenied, agent.CodeOf(err), "%v", err)
}

func TestNoAnswer(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	n := 0
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	h := webhooksTo(t, s.URL, true)
	_, err := h.Send(ctx, hook(s.URL), countMark(&n))
	require.ErrorIs(t, err, notifications.ErrUnknown)
}

func TestWebhookIsNotSentAfterMarkError(t *testing.T) {
	var count atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { count.Add(1) }))
	defer s.Close()
	markErr := errors.New("the store is unavailable")
	_, err := webhooksTo(t, s.URL, true).Send(t.Context(), hook(s.URL), func() error { return markErr })
	require.ErrorIs(t, err, markErr)
	require.Zero(t, count.Load())
}

func TestInvalidWebhook(t *testing.T) {
	h := &notifications.Webhooks{HTTP: http.DefaultClient}
	for name, c := range map[string]struct {
		change func(w *notifications.Webhook)
		field  string
		code   agent.Code
	}{
		"a file":             {func(w *notifications.Webhook) { w.URL = "file:///etc/passwd" }, "config.url", agent.CodeInvalid},
		"no host":            {func(w *notifications.Webhook) { w.URL = "https:///x" }, "config.url", agent.CodeInvalid},
		"not a URL":          {func(w *notifications.Webhook) { w.URL = "http://a b" }, "config.url", agent.CodeInvalid},
		"a line in a header": {func(w *notifications.Webhook) { w.Header = map[string]string{"X-A": "b\r\nX-B: c"} }, "config.headers.X-A", agent.CodeInvalid},
		"an invalid name":    {func(w *notifications.Webhook) { w.Header = map[string]string{"X A": "b"} }, "config.headers.X A", agent.CodeInvalid},
		"an invalid method":  {func(w *notifications.Webhook) { w.Method = "PO ST" }, "config", agent.CodeInvalid},
		"a long body":        {func(w *notifications.Webhook) { w.Body = make([]byte, 10<<20+1) }, "config.body", agent.CodeOverflow},
		"a profile":          {func(w *notifications.Webhook) { w.Auth = "crm" }, "config.auth", agent.CodeInvalid},
	} {
		w := hook("https://example.com")
		c.change(&w)
		n := 0
		_, err := h.Send(t.Context(), w, countMark(&n))
		var e *agent.Error
		require.ErrorAs(t, err, &e, name)
		require.Equal(t, c.field, e.Field, name)
		require.Equal(t, c.code, e.Code, name)
		require.Zero(t, n, name)
	}
}

type profiles map[string]agent.PlanAuth

func (p profiles) AuthProfile(_ context.Context, tenant, name string) (agent.PlanAuth, error) {
	a, ok := p[tenant+"/"+name]
	if !ok {
		return a, agent.Errorf(agent.CodeNotFound, "", "there is no auth profile %q", name)
	}
	return a, nil
}

// bearer adds a token to requests to the hosts of a profile.
type bearer struct{}

func (bearer) Authorise(req *http.Request, list []agent.PlanAuth) error {
	if strings.HasPrefix(list[0].Hosts[0], req.URL.Hostname()) {
		req.Header.Set("Authorization", "Bearer s3cret")
	}
	return nil
}

func TestAuthProfiles(t *testing.T) {
	var got string
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer s.Close()
	h := &notifications.Webhooks{HTTP: egressTo(t, s.URL, true), Auth: bearer{}, Profiles: profiles{
		"acme/here": {Name: "here", Hosts: []string{"127.0.0.1"}}, "acme/elsewhere": {Name: "elsewhere", Hosts: []string{"api.example.com"}},
		"other/theirs": {Hosts: []string{"127.0.0.1"}},
	}}
	n := 0
	w := hook(s.URL)
	w.Auth = "here"
	_, err := h.Send(t.Context(), w, countMark(&n))
	require.NoError(t, err)
	require.Equal(t, "Bearer s3cret", got)
	for name, code := range map[string]agent.Code{"elsewhere": agent.CodeDenied, "theirs": agent.CodeNotFound} {
		w.Auth, n = name, 0
		_, err = h.Send(t.Context(), w, countMark(&n))
		require.Equal(t, code, agent.CodeOf(err), name)
		require.NotContains(t, err.Error(), "s3cret")
		require.Zero(t, n)
	}
}

// A response with a truncated body counts by its status, except that of a GET, which can be repeated.
func TestTruncatedAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		method    string
		status    int
		announced int // Content-Length; 0: the real length
		length    int
		truncated bool
		isError   bool
	}{
		"a complete body":        {http.MethodPost, 200, 0, notifications.MaxAnswerBytes, false, false},
		"more than is kept":      {http.MethodPost, 200, 0, notifications.MaxAnswerBytes + 1, true, false},
		"cut off":                {http.MethodPost, 201, 100, 10, true, false},
		"a PUT cut off":          {http.MethodPut, 200, 100, 10, true, false},
		"a GET cut off":          {http.MethodGet, 200, 100, 10, false, true},
		"a refusal that is cut":  {http.MethodGet, 404, 100, 10, true, false},
		"more of a GET's answer": {http.MethodGet, 200, 0, 20 << 10, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if c.announced > 0 {
					w.Header().Set("Content-Length", strconv.Itoa(c.announced))
				}
				w.WriteHeader(c.status)
				_, _ = w.Write(bytes.Repeat([]byte("x"), c.length))
			}))
			defer s.Close()
			w := hook(s.URL)
			w.Method = c.method
			n := 0
			answer, err := webhooksTo(t, s.URL, true).Send(t.Context(), w, countMark(&n))
			if c.isError {
				require.Equal(t, agent.CodeUnavailable, agent.CodeOf(err), "%v", err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.status, answer.Status)
			require.Equal(t, c.truncated, answer.Truncated)
			require.Len(t, answer.Body, min(c.length, notifications.MaxAnswerBytes))
		})
	}
}

// A redirect of a POST is not followed: it is the answer.
func TestRedirectIsNotFollowed(t *testing.T) {
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		code, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		if err == nil {
			http.Redirect(w, r, "/there", code)
		}
	}))
	defer s.Close()
	n := 0
	for i, code := range []int{301, 302, 303, 307, 308} {
		answer, err := webhooksTo(t, s.URL, true).Send(t.Context(), hook(s.URL+"/"+strconv.Itoa(code)), countMark(&n))
		require.NoError(t, err)
		require.Equal(t, code, answer.Status)
		require.Equal(t, int32(i+1), requests.Load())
	}
}
