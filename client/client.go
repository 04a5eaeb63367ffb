// Package client calls a Turnstone server over its HTTP API (docs/reference/http.md): one method for each endpoint, and a [Client.Follow] that
// survives lost connections by resuming after the last event that it has seen. Errors are [agent.Error]s with the code and field that the
// server named; those of a server that did not answer wrap [ErrUnreachable].
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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

// Bounds of a response in bytes. An error may list thousands of faults.
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

	CallTimeout time.Duration // of every call but following and reading results; default 60 s
	IdleTimeout time.Duration // a stream silent for longer is taken for dead; above the server's heartbeat; default 45 s
	LongTimeout time.Duration // of an upload with what is made of it, and of a call of Doctor; default 15 min
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
	return c.Try(ctx, "", r)
}

// Try is Start with a draft: an AgentInstance as YAML or JSON text, which answers this turn without being applied. It takes the right to apply it.
func (c *Client) Try(ctx context.Context, draft string, r agent.TurnRequest) (agent.Receipt, error) {
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = uuid.NewString()
	}
	return call[agent.Receipt](ctx, c, request{
		method: http.MethodPost, path: []string{"turns"}, query: url.Values{"wait": {"false"}}, body: agent.TurnBody{TurnRequest: r, Draft: draft},
	})
}

// Turn is the state of a turn and, once it has ended, its output.
type Turn struct {
	TurnID         agent.TurnID           `json:"turn_id"`
	SessionID      agent.SessionID        `json:"session_id"`
	Agent          string                 `json:"agent"`
	Mode           agent.Mode             `json:"mode"`
	Fallback       agent.Fallback         `json:"fallback"` // why it is not direct, although it was to be
	State          string                 `json:"state"`
	StartedAt      *time.Time             `json:"started_at"`       // until it has ended
	LastEventIndex int64                  `json:"last_event_index"` // until it has ended
	Pending        []agent.Approval       `json:"pending"`
	RerunOf        agent.TurnID           `json:"rerun_of"` // empty: it reruns no turn
	FromStep       int                    `json:"from_step"`
	Draft          bool                   `json:"draft"` // its agent is a draft, which is not in the catalog
	Output         *agent.AgentStepOutput `json:"-"`
}

// Turn asks for the state of a turn.
func (c *Client) Turn(ctx context.Context, id agent.TurnID) (Turn, error) {
	raw, err := get[json.RawMessage](ctx, c, nil, "turns", string(id))
	if err != nil {
		return Turn{}, err
	}
	var t Turn
	if err := json.Unmarshal(raw, &t); err != nil {
		return Turn{}, fmt.Errorf("decode turn: %w", err)
	}
	switch agent.TurnStatus(t.State) {
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
	return c.exchange(ctx, request{method: http.MethodPost, path: []string{"turns", string(id), "decisions"}, body: d}, nil)
}

// Provide hands in the result of a client-side tool.
func (c *Client) Provide(ctx context.Context, id agent.TurnID, r ProvidedResult) error {
	return c.exchange(ctx, request{method: http.MethodPost, path: []string{"turns", string(id), "results"}, body: r}, nil)
}

// Cancel asks a turn to stop.
func (c *Client) Cancel(ctx context.Context, id agent.TurnID, r agent.CancelRequest) error {
	return c.exchange(ctx, request{method: http.MethodPost, path: []string{"turns", string(id), "cancel"}, body: r}, nil)
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

// Messages returns a page of a session's transcript behind a position. With a limit of 0 the server chooses how many messages.
func (c *Client) Messages(ctx context.Context, s agent.SessionID, after int64, limit int) (MessagePage, error) {
	query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(limit)}}
	return get[MessagePage](ctx, c, query, "sessions", string(s), "messages")
}

// Result opens a stored result by reference, result id, turn id or job id. The caller closes Body.
func (c *Client) Result(ctx context.Context, ref string) (StoredResult, error) {
	resp, err := c.send(ctx, request{path: []string{"results", ref}}) //nolint:bodyclose // the caller closes StoredResult.Body
	if err != nil {
		return StoredResult{}, err
	}
	return StoredResult{
		Ref: resp.Header.Get("Turnstone-Result-Ref"), TurnID: agent.TurnID(resp.Header.Get("Turnstone-Turn-Id")),
		MediaType: resp.Header.Get("Content-Type"), Size: resp.ContentLength, Body: &resultBody{resp.Body, ctx},
	}, nil
}
