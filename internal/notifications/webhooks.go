package notifications

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// maxRequestBytes bounds what is sent to a webhook.
const maxRequestBytes = 10 << 20

// headerKey is the header by which a receiver recognises a repeated request.
const headerKey = "Idempotency-Key"

// Profiles returns auth profiles by name. The error is [agent.CodeNotFound] if the tenant has none of that name.
type Profiles interface {
	AuthProfile(ctx context.Context, tenant, name string) (agent.PlanAuth, error)
}

// Webhooks sends requests to webhooks.
type Webhooks struct {
	HTTP     tool.HTTP // a client that enforces the egress rules, without a timeout: the context has one
	Auth     tool.Auth // nil: webhooks with an auth profile are refused
	Profiles Profiles  // nil: as for Auth
}

// Send sends one request. It calls mark before it connects, because the request may arrive as soon as there is a connection.
func (h *Webhooks) Send(ctx context.Context, w Webhook, mark func() error) (WebhookAnswer, error) {
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	req, err := h.request(ctx, &w)
	if err != nil {
		return WebhookAnswer{}, err
	}
	if err := mark(); err != nil {
		return WebhookAnswer{}, err
	}
	answer, err := h.HTTP.Do(req)
	if err != nil {
		return WebhookAnswer{}, noAnswerError(err, connected.Load())
	}
	defer func() { _ = answer.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(answer.Body, MaxAnswerBytes+1))
	if err != nil && w.Method == http.MethodGet && answer.StatusCode/100 == 2 {
		return WebhookAnswer{}, agent.Errorf(agent.CodeUnavailable, "call webhook", "the answer was cut off: %w", err)
	}
	// A truncated body is not an error, because the status says whether the request succeeded.
	return WebhookAnswer{
		Status: answer.StatusCode, Type: answer.Header.Get("Content-Type"), Body: body[:min(len(body), MaxAnswerBytes)],
		Truncated: err != nil || len(body) > MaxAnswerBytes, RetryAfter: retryAfter(answer.Header.Get("Retry-After"), time.Now()),
	}, nil
}

func (h *Webhooks) request(ctx context.Context, w *Webhook) (*http.Request, error) {
	u, err := url.Parse(w.URL)
	switch {
	case err != nil:
		return nil, agent.Invalid("config.url", "is not a URL")
	case (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return nil, agent.Invalid("config.url", "want http:// or https:// and a host")
	case len(w.Body) > maxRequestBytes:
		return nil, agent.FieldErrorf(agent.CodeOverflow, "config.body", "is %d bytes, at most %d", len(w.Body), maxRequestBytes)
	}
	req, err := http.NewRequestWithContext(ctx, w.Method, w.URL, bytes.NewReader(w.Body))
	if err != nil {
		return nil, agent.Invalid("config", "%w", err)
	}
	if w.Method != http.MethodGet && w.Method != http.MethodPut {
		// Go's transport repeats a request with an Idempotency-Key if it can read the body again. Only the workflow may repeat it.
		req.Body, req.GetBody = io.NopCloser(bytes.NewReader(w.Body)), nil
	}
	for name, value := range w.Header {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return nil, agent.Invalid("config.headers."+name, "cannot be sent")
		}
		req.Header.Set(name, value)
	}
	req.Header.Set(headerKey, w.Key)
	return req, h.authorise(ctx, req, w)
}

// authorise adds the credentials of the webhook's auth profile.
func (h *Webhooks) authorise(ctx context.Context, req *http.Request, w *Webhook) error {
	if w.Auth == "" {
		return nil
	}
	if h.Auth == nil || h.Profiles == nil {
		return agent.Invalid("config.auth", "there are no auth profiles here")
	}
	profile, err := h.Profiles.AuthProfile(ctx, w.Tenant, w.Auth)
	if err != nil {
		return agent.FieldErrorf(agent.CodeOf(err), "config.auth", "%w", err)
	}
	before := len(req.Header) + len(req.URL.RawQuery)
	if err := h.Auth.Authorise(req, []agent.PlanAuth{profile}); err != nil {
		return agent.FieldErrorf(agent.CodeOf(err), "config.auth", "%w", err)
	}
	if len(req.Header)+len(req.URL.RawQuery) == before && req.Header.Get("Authorization") == "" {
		return agent.FieldErrorf(agent.CodeDenied, "config.auth", "auth profile %q may not be sent to %s", w.Auth, req.URL.Hostname())
	}
	return nil
}

// noAnswerError returns the error of a request without an answer. It wraps [ErrUnknown] if there was a connection, as the request may have arrived.
func noAnswerError(err error, connected bool) error {
	switch {
	case connected:
		return fmt.Errorf("call webhook: no answer: %w: %w", err, ErrUnknown)
	case agent.CodeOf(err) == agent.CodeInternal || errors.Is(err, context.DeadlineExceeded):
		return agent.Errorf(agent.CodeUnavailable, "call webhook", "%w", err)
	default:
		return err
	}
}

// retryAfter returns the pause that a Retry-After header asks for, in either of its forms; 0 if there is none.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.Atoi(header); err == nil {
		return time.Duration(max(min(seconds, 24*3600), 0)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
