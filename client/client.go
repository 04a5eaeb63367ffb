// Package client calls a Turnstone server over its HTTP API (docs/http.md): one method for each endpoint, and a [Client.Follow] that
// survives lost connections by resuming after the last event that it has seen. Errors are [agent.Error]s with the code and field that the
// server named; those of a server that did not answer wrap [ErrUnreachable].
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// ErrUnreachable is in the chain of an error when no server answered.
var ErrUnreachable = errors.New("cannot reach the server")

// ErrForeign is in the chain of an error when something answered that is no Turnstone.
var ErrForeign = errors.New("not a Turnstone server")

// ErrScheme is in the chain of an error when the server speaks https where it was asked by http.
var ErrScheme = errors.New("the address begins with http, and the server speaks https")

// What is read of a response at most. An error may list thousands of faults.
const (
	maxErrorBody = 4 << 20
	maxAnswer    = 256 << 20
)

// tenantParam is the query parameter that names a tenant in place of the client's.
const tenantParam = "tenant"

const catalogPath = "catalog"

// Config says where the server is.
type Config struct {
	Server string       // http://host:port, with a path where a proxy adds one
	Tenant string       // empty: the credential's, or the server's default
	Key    string       // an API key or a token, sent as a bearer token; empty: none
	HTTP   *http.Client // nil: a client of its own

	CallTimeout time.Duration // of everything but following and reading results; default 60 s
	IdleTimeout time.Duration // a stream silent for longer is taken for dead; above the server's heartbeat; default 45 s
	LongTimeout time.Duration // of an upload with what is made of it, and of a doctor's visit; default 15 min
	Patience    time.Duration // how long Follow tries to reconnect without seeing an event; default 2 min
	MaxEvent    int           // bytes of one event; default 16 MiB
}

// Client calls one server. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base *url.URL
}

// New checks the configuration; it does not connect.
func New(cfg Config) (*Client, error) {
	base, err := url.Parse(cfg.Server)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" || base.RawQuery != "" {
		return nil, agent.Invalid("server", "want http://host:port, got %q", cfg.Server)
	}
	if strings.ContainsFunc(cfg.Key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, agent.Invalid("key", "holds a space, a line break or a character outside ASCII")
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{}
	}
	if cfg.Key != "" { // a redirect may lead to a server that the credential is not meant for
		own := *cfg.HTTP
		own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		cfg.HTTP = &own
	}
	for d, fallback := range map[*time.Duration]time.Duration{
		&cfg.CallTimeout: time.Minute, &cfg.IdleTimeout: 45 * time.Second, &cfg.Patience: 2 * time.Minute, &cfg.LongTimeout: 15 * time.Minute,
	} {
		if *d <= 0 {
			*d = fallback
		}
	}
	if cfg.MaxEvent <= 0 {
		cfg.MaxEvent = 16 << 20
	}
	return &Client{cfg: cfg, base: base}, nil
}

// Start submits a turn and returns without waiting for it. A request without an idempotency key gets one, so that the HTTP
// client's own retry of a lost connection never starts a second turn.
func (c *Client) Start(ctx context.Context, r agent.TurnRequest) (agent.Receipt, error) {
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = uuid.NewString()
	}
	var out agent.Receipt
	return out, c.call(ctx, http.MethodPost, []string{"turns"}, url.Values{"wait": {"false"}}, r, &out)
}

// Turn is the state of a turn and, once it has ended, its output.
type Turn struct {
	State   string
	Pending []agent.Approval
	Output  *agent.AgentStepOutput
}

// Turn asks for the state of a turn.
func (c *Client) Turn(ctx context.Context, id agent.TurnID) (Turn, error) {
	var raw json.RawMessage
	if err := c.call(ctx, http.MethodGet, []string{"turns", string(id)}, nil, nil, &raw); err != nil {
		return Turn{}, err
	}
	var state struct {
		State   string           `json:"state"`
		Pending []agent.Approval `json:"pending"`
	}
	if err := json.Unmarshal(raw, &state); err != nil {
		return Turn{}, fmt.Errorf("decode turn: %w", err)
	}
	t := Turn{State: state.State, Pending: state.Pending}
	switch agent.TurnStatus(state.State) {
	case agent.TurnCompleted, agent.TurnFailed, agent.TurnCancelled:
		t.Output = new(agent.AgentStepOutput)
		if err := json.Unmarshal(raw, t.Output); err != nil {
			return Turn{}, fmt.Errorf("decode turn output: %w", err)
		}
	}
	return t, nil
}

// Decide answers an approval.
func (c *Client) Decide(ctx context.Context, id agent.TurnID, d agent.Decision) error {
	return c.call(ctx, http.MethodPost, []string{"turns", string(id), "decisions"}, nil, d, nil)
}

// Provide hands in the result of a client-side tool.
func (c *Client) Provide(ctx context.Context, id agent.TurnID, r ProvidedResult) error {
	return c.call(ctx, http.MethodPost, []string{"turns", string(id), "results"}, nil, r, nil)
}

// Cancel asks a turn to stop.
func (c *Client) Cancel(ctx context.Context, id agent.TurnID, r agent.CancelRequest) error {
	return c.call(ctx, http.MethodPost, []string{"turns", string(id), "cancel"}, nil, r, nil)
}

type (
	// Message is one message of a transcript.
	Message = gateway.SessionMessage
	// MessagePage is a page of a transcript, oldest message first.
	MessagePage = gateway.MessagePage
	// StoredResult is a stored result with its content.
	StoredResult = gateway.ResultView
	// ProvidedResult is the result of a tool call that the caller ran.
	ProvidedResult = agent.ProvidedResult
)

// Messages returns a page of a session's transcript behind a position; limit 0 is the server's.
func (c *Client) Messages(ctx context.Context, s agent.SessionID, after int64, limit int) (MessagePage, error) {
	var out MessagePage
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(limit)}}
	err := c.call(ctx, http.MethodGet, []string{"sessions", string(s), "messages"}, query, nil, &out)
	return out, err
}

// Result opens a stored result by reference, result id, turn id or job id. The caller closes Body.
func (c *Client) Result(ctx context.Context, ref string) (StoredResult, error) {
	resp, err := c.send(ctx, http.MethodGet, []string{"results", ref}, nil, nil, nil) //nolint:bodyclose // the caller closes StoredResult.Body
	if err != nil {
		return StoredResult{}, err
	}
	return StoredResult{
		Ref: resp.Header.Get("Turnstone-Result-Ref"), TurnID: agent.TurnID(resp.Header.Get("Turnstone-Turn-Id")),
		MediaType: resp.Header.Get("Content-Type"), Size: resp.ContentLength, Body: &wholeBody{resp.Body, ctx},
	}, nil
}

// call sends a request and decodes the answer; in and out may be nil.
func (c *Client) call(ctx context.Context, method string, path []string, query url.Values, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.CallTimeout)
	defer cancel()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
	}
	resp, err := c.send(ctx, method, path, query, body, nil)
	if err != nil {
		return err
	}
	return decodeAnswer(ctx, resp, method, path, out)
}

// decodeAnswer reads an answer's document, and closes it; out may be nil.
func decodeAnswer(ctx context.Context, resp *http.Response, method string, path []string, out any) error {
	defer resp.Body.Close() //nolint:errcheck // read-only
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		return interrupted(ctx, fmt.Errorf("decode answer of %s %s: %w", method, strings.Join(path, "/"), err))
	}
	return nil
}

// interrupted makes an answer that broke off because the caller did not want it any more look like what it is.
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

// send sends a request and turns every answer but a success into an error. A body is JSON.
func (c *Client) send(
	ctx context.Context, method string, path []string, query url.Values, body []byte, header http.Header,
) (*http.Response, error) {
	if header == nil {
		header = http.Header{}
	}
	if body != nil {
		header.Set("Content-Type", "application/json")
	}
	return c.do(ctx, method, path, query, bytes.NewReader(body), header)
}

// do sends a request to a path below the API's root.
func (c *Client) do(
	ctx context.Context, method string, path []string, query url.Values, body io.Reader, header http.Header,
) (*http.Response, error) {
	return c.doAt(ctx, method, "v1", path, query, body, header)
}

func (c *Client) doAt(
	ctx context.Context, method, root string, path []string, query url.Values, body io.Reader, header http.Header,
) (*http.Response, error) {
	escaped := make([]string, len(path))
	for i, p := range path {
		if p == "" || p == "." || p == ".." { // would lead elsewhere
			return nil, agent.Invalid("", "%q is no name", p)
		}
		escaped[i] = url.PathEscape(p)
	}
	u := c.base.JoinPath(root).JoinPath(escaped...)
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Header = header
	if c.cfg.Key != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Key)
	}
	// Every tenant is none that a request is made for: the calls that mean it say it where it can be said.
	every := c.cfg.Tenant == agent.AnyTenant && slices.Contains([]string{catalogPath, keysPath, auditPath, usagePath, retentionPath}, path[0])
	if c.cfg.Tenant != "" && !every && !query.Has(tenantParam) {
		req.Header.Set("Turnstone-Tenant", c.cfg.Tenant)
	}
	resp, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, c.unreached(ctx, err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close() //nolint:errcheck // read-only
	return nil, errorOf(resp)
}

// unreached is the error of a request that got no answer.
func (c *Client) unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return &agent.Error{Code: agent.CodeCancelled, Err: context.Cause(ctx)}
	}
	return &agent.Error{Code: agent.CodeUnavailable, Err: fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base, errors.Unwrap(err))}
}

// errorOf reads the error that a response is.
func errorOf(resp *http.Response) error {
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
