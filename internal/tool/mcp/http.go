package mcp

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	// streamTimeout is how long a server may take to answer the request for its stream of notifications.
	streamTimeout = 3 * time.Second
	// reconnects is how often the SDK resumes a stream that makes no progress.
	reconnects = 2
)

const eventStream = "text/event-stream"

// errNoStream cancels a request for a stream of notifications that the server does not answer.
var errNoStream = errors.New("no answer")

// carrier sends the requests of one session through the egress client, with the credentials of its binding.
type carrier struct {
	http     tool.HTTP
	auth     tool.Auth // nil: requests carry no credentials
	profiles []agent.PlanAuth
	secrets  *secretMasker
	notices  *notices // counts those in event streams
	tasks    *taskTools

	reached     atomic.Bool                 // the server has answered a request
	refusal     atomic.Pointer[agent.Error] // the error of all requests, because the egress rules refused the first
	hasNoStream atomic.Bool                 // there is no stream of notifications, so they may be missed

	ctx     context.Context // ends with the session, and then the running requests end
	cancel  context.CancelFunc
	maxBody int64 // bytes of a body that is no event stream
}

func newCarrier(h tool.HTTP, auth tool.Auth, profiles []agent.PlanAuth) *carrier {
	c := &carrier{http: h, auth: auth, profiles: profiles, secrets: newSecretMasker(), notices: newNotices(), tasks: &taskTools{}, maxBody: maxFrame}
	c.ctx, c.cancel = context.WithCancel(context.Background()) //nolint:gosec // link.stop calls it
	return c
}

// transport returns a transport of the SDK that sends every request through the carrier. The egress client follows redirects.
func (c *carrier) transport(endpoint string) sdk.Transport {
	return &sdk.StreamableClientTransport{
		Endpoint: endpoint, MaxRetries: reconnects, MaxEventSize: maxFrame,
		HTTPClient: &http.Client{
			Transport:     c,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// RoundTrip sends a request. If the first request was refused, all others are refused too, because the SDK tries another version of the
// protocol after any error.
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	if refusal := c.refusal.Load(); refusal != nil {
		return nil, refusal
	}
	d := deliveryOf(req.Context())
	ctx, cancel := context.WithCancelCause(d.trace(req.Context()))
	release := context.AfterFunc(c.ctx, func() { cancel(context.Canceled) })
	finish := func() { release(); cancel(nil) }

	out := req.Clone(ctx)
	if err := c.authorise(out); err != nil {
		finish()
		return nil, err
	}
	var streamTimer *time.Timer
	if req.Method == http.MethodGet {
		streamTimer = time.AfterFunc(streamTimeout, func() { cancel(errNoStream) })
	}
	resp, err := c.http.Do(out)
	if streamTimer != nil && !streamTimer.Stop() && err != nil && errors.Is(context.Cause(ctx), errNoStream) {
		c.hasNoStream.Store(true)
		finish()
		return noStreamResponse(req), nil
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		resp, err = c.retryWithToken(ctx, req, out, resp)
	}
	if err != nil {
		finish()
		c.rememberRefusal(err)
		return nil, err
	}
	d.status.Store(int32(resp.StatusCode)) //nolint:gosec // three digits
	if req.Method != http.MethodGet && resp.StatusCode/100 == 3 {
		_ = resp.Body.Close() // the body is not needed
		finish()
		err := agent.Errorf(agent.CodeInvalid, "request "+req.URL.Host, "redirects (%d), which is not followed: configure where it leads to", resp.StatusCode)
		c.rememberRefusal(err)
		return nil, err
	}
	c.reached.Store(true)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if req.Method == http.MethodGet && (resp.StatusCode != http.StatusOK || media != eventStream) {
		c.hasNoStream.Store(true)
	}
	body := &boundedBody{body: resp.Body, remaining: -1, finish: finish}
	if media == eventStream {
		body.events = &eventMeter{notices: c.notices}
	} else {
		body.remaining = c.maxBody
	}
	if isListRequest(req) {
		body.list = &listReader{tools: c.tasks, isEventStream: media == eventStream}
	}
	resp.Body = body
	return resp, nil
}

// retryWithToken repeats a request that was answered with 401 if a token for it can be found. The server has not acted on the first one.
func (c *carrier) retryWithToken(ctx context.Context, req, sent *http.Request, answer *http.Response) (*http.Response, error) {
	server, ok := c.auth.(tool.ServerAuth)
	if !ok || req.Body != nil && req.GetBody == nil {
		return answer, nil
	}
	hasToken, err := server.Discover(sent, answer, c.profiles)
	if err == nil && !hasToken {
		return answer, nil
	}
	_ = answer.Body.Close() // the body is not needed
	if err != nil {
		return nil, err
	}
	next := req.Clone(ctx)
	if req.GetBody != nil {
		if next.Body, err = req.GetBody(); err != nil {
			return nil, agent.Errorf(agent.CodeInternal, "request "+req.URL.Host, "read the request again: %w", err)
		}
	}
	if err := c.authorise(next); err != nil {
		return nil, err
	}
	return c.http.Do(next)
}

// rememberRefusal remembers a refusal by the egress rules if the server was not reached yet.
func (c *carrier) rememberRefusal(err error) {
	if refusal, ok := refusalIn(err); ok && !c.reached.Load() {
		c.refusal.Store(refusal)
	}
}

// authorise adds credentials to a request, and remembers them as secrets.
func (c *carrier) authorise(req *http.Request) error {
	if c.auth == nil || len(c.profiles) == 0 {
		return nil
	}
	before := req.Clone(req.Context())
	if err := c.auth.Authorise(req, c.profiles); err != nil {
		return err
	}
	c.secrets.add(tool.AddedCredentials(before, req)...)
	return nil
}

// noStreamResponse returns a response as that of a server without a stream of notifications.
func noStreamResponse(req *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusMethodNotAllowed, Status: "405 Method Not Allowed", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// boundedBody is the body of a response. Reading fails beyond its bound, and Close releases its request.
type boundedBody struct {
	body      io.ReadCloser
	remaining int64 // bytes until the bound; negative: the SDK bounds each event
	finish    func()

	events *eventMeter // nil: it is no event stream
	list   *listReader // nil: it is no answer to tools/list
}

func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.list != nil {
		b.list.read(p[:n], err != nil)
	}
	if b.events != nil && !b.events.read(p[:n]) {
		return 0, errFlood
	}
	if b.remaining < 0 {
		return n, err
	}
	if int64(n) > b.remaining {
		return int(b.remaining), agent.Errorf(agent.CodeOverflow, "read MCP answer", "it is larger than %d bytes", maxFrame)
	}
	b.remaining -= int64(n)
	return n, err
}

func (b *boundedBody) Close() error {
	err := b.body.Close()
	b.finish()
	return err
}
