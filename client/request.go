package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
)

// request is one request to the API.
type request struct {
	method string // empty: GET
	root   string // empty: v1
	path   []string
	query  url.Values
	header http.Header
	body   any // sent as JSON, an [io.Reader] unchanged; nil: none
}

// get sends a GET request and returns the decoded answer.
func get[T any](ctx context.Context, c *Client, query url.Values, path ...string) (T, error) {
	return call[T](ctx, c, request{path: path, query: query})
}

// post sends a POST request and returns the decoded answer.
func post[T any](ctx context.Context, c *Client, body any, path ...string) (T, error) {
	return call[T](ctx, c, request{method: http.MethodPost, path: path, body: body})
}

// call sends a request and returns the decoded answer.
func call[T any](ctx context.Context, c *Client, r request) (answer T, err error) {
	err = c.exchange(ctx, r, &answer)
	return answer, err
}

// page returns a page of entries, which are the named member of the answer.
func page[T any](ctx context.Context, c *Client, member string, query url.Values, path ...string) (entries []T, next string, err error) {
	answer, err := get[map[string]json.RawMessage](ctx, c, query, path...)
	if err != nil {
		return nil, "", err
	}
	for name, into := range map[string]any{member: &entries, "next_page_token": &next} {
		if text, ok := answer[name]; ok {
			err = errors.Join(err, json.Unmarshal(text, into))
		}
	}
	if err != nil {
		return nil, "", fmt.Errorf("decode %s: %w", member, err)
	}
	return entries, next, nil
}

// exchange sends a request and decodes the answer; out may be nil.
func (c *Client) exchange(ctx context.Context, r request, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	return decodeAnswer(ctx, resp, r, out)
}

// idempotencyKey returns the header that makes a repeated request the same one. An empty key is replaced by a new one, so that the HTTP client's
// own retry of a lost connection does nothing twice.
func idempotencyKey(key string) http.Header {
	return http.Header{"Idempotency-Key": {cmp.Or(key, uuid.NewString())}}
}

// decodeAnswer reads an answer's document, and closes it; out may be nil.
func decodeAnswer(ctx context.Context, resp *http.Response, r request, out any) error {
	defer resp.Body.Close() //nolint:errcheck // read-only
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		err = fmt.Errorf("decode answer of %s %s: %w", cmp.Or(r.method, http.MethodGet), strings.Join(r.path, "/"), err)
		return interrupted(ctx, err)
	}
	return nil
}

// interrupted returns the error of an answer that broke off: cancelled if the caller ended ctx.
func interrupted(ctx context.Context, err error) error {
	switch {
	case ctx.Err() == nil:
		return err
	case errors.Is(ctx.Err(), context.Canceled):
		return &agent.Error{Code: agent.CodeCancelled, Err: context.Cause(ctx)}
	default:
		return &agent.Error{Code: agent.CodeUnavailable, Err: err}
	}
}

// send sends a request. It turns every answer but a success into an error.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	escaped := make([]string, len(r.path))
	for i, name := range r.path {
		if name == "" || name == "." || name == ".." { // would lead elsewhere
			return nil, agent.Invalid("", "%q is no name", name)
		}
		escaped[i] = url.PathEscape(name)
	}
	header := http.Header{}
	maps.Copy(header, r.header)
	body, isReader := r.body.(io.Reader)
	if r.body != nil && !isReader {
		text, err := json.Marshal(r.body)
		if err != nil {
			return nil, agent.Invalid("", "encode request: %w", err)
		}
		body = bytes.NewReader(text)
		header.Set("Content-Type", "application/json")
	}
	u := c.base.JoinPath(cmp.Or(r.root, "v1")).JoinPath(escaped...)
	u.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodGet), u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = header
	// The header names one tenant. Calls that mean every tenant say so by their own parameter.
	acrossTenants := c.cfg.Tenant == agent.AnyTenant && slices.Contains([]string{catalogPath, keysPath, auditPath, usagePath, retentionPath}, r.path[0])
	if c.cfg.Tenant != "" && !acrossTenants && !r.query.Has(tenantParam) {
		req.Header.Set("Turnstone-Tenant", c.cfg.Tenant)
	}
	resp, err := c.roundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
	return nil, responseError(resp)
}

// roundTrip sends a request with the client's credential.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	if c.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	resp, err := c.cfg.HTTP.Do(req)
	switch {
	case err == nil:
		return resp, nil
	case req.Context().Err() != nil && errors.Is(err, context.Canceled):
		return nil, &agent.Error{Code: agent.CodeCancelled, Err: context.Cause(req.Context())}
	default:
		return nil, &agent.Error{Code: agent.CodeUnavailable, Err: fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base, errors.Unwrap(err))}
	}
}

// responseError returns the error that a response holds.
func responseError(resp *http.Response) error {
	var retryAfter time.Duration
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		retryAfter = time.Duration(seconds) * time.Second
	}
	var body struct {
		Error *agent.Failure `json:"error"`
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err == nil {
		err = json.Unmarshal(text, &body)
	}
	if err != nil || body.Error == nil {
		body.Error = &agent.Failure{Message: fmt.Sprintf("the server answered %s", resp.Status)}
	}
	return gateway.ErrorOfStatus(resp.StatusCode, body.Error, retryAfter)
}
