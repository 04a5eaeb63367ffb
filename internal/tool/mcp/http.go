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
	// streamTimeout is how long a server may think about whether it has a stream of notifications.
	streamTimeout = 3 * time.Second
	// reconnects is how often the SDK resumes a stream that makes no progress.
	reconnects = 2
)

const eventStream = "text/event-stream"

// errNoStream ends the wait for a server that does not say whether it has a stream of notifications.
var errNoStream = errors.New("no answer")

// carrier sends the requests of one session through the egress client, with the credentials of its binding.
type carrier struct {
	http     tool.HTTP
	auth     tool.Auth // nil: requests carry no credentials
	profiles []agent.PlanAuth
	secrets  *secrets
	notices  *notices // that come by event streams
	tasks    *taskTools

	reached atomic.Bool                 // the server has answered something
	refusal atomic.Pointer[agent.Error] // of the first request, by the egress rules: it stands for those that follow

	ctx         context.Context // ends with the session, and with it the running requests
	hasNoStream atomic.Bool     // there is no stream of notifications, so they may be missed
	cancel      context.CancelFunc
	bound       int64 // bytes of a body that is no event stream
}

func newCarrier(h tool.HTTP, auth tool.Auth, profiles []agent.PlanAuth) *carrier {
	c := &carrier{http: h, auth: auth, profiles: profiles, secrets: newSecrets(), notices: newNotices(), tasks: &taskTools{}, bound: maxFrame}
	c.ctx, c.cancel = context.WithCancel(context.Background()) //nolint:gosec // link.stop calls it
	return c
}

// transport returns the SDK's transport, with every request through the carrier. The egress client follows redirects.
func (c *carrier) transport(endpoint string) sdk.Transport {
	return &sdk.StreamableClientTransport{
		Endpoint: endpoint, MaxRetries: reconnects, MaxEventSize: maxFrame,
		HTTPClient: &http.Client{
			Transport:     c,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// RoundTrip sends one request of the session. If the first one is refused, so are all others: the SDK tries another version of the protocol
// after any error.
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	if refusal := c.refusal.Load(); refusal != nil {
		return nil, refusal
	}
	d := deliveryOf(req.Context())
	ctx, cancel := context.WithCancelCause(d.trace(req.Context()))
	release := context.AfterFunc(c.ctx, func() { cancel(context.Canceled) })
	done := func() { release(); cancel(nil) }

	out := req.Clone(ctx)
	if err := c.authorise(out); err != nil {
		done()
		return nil, err
	}
	var patience *time.Timer
	if req.Method == http.MethodGet {
		patience = time.AfterFunc(streamTimeout, func() { cancel(errNoStream) })
	}
	resp, err := c.http.Do(out)
	if patience != nil && !patience.Stop() && err != nil && errors.Is(context.Cause(ctx), errNoStream) {
		c.hasNoStream.Store(true)
		done()
		return noStreamResponse(req), nil
	}
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		resp, err = c.retryWithToken(ctx, req, out, resp)
	}
	if err != nil {
		done()
		c.rememberRefusal(err)
		return nil, err
	}
	d.status.Store(int32(resp.StatusCode)) //nolint:gosec // three digits
	if req.Method != http.MethodGet && resp.StatusCode/100 == 3 {
		_ = resp.Body.Close() // nothing of it is wanted
		done()
		err := agent.Errorf(agent.CodeInvalid, "request "+req.URL.Host, "redirects (%d), which is not followed: configure where it leads to", resp.StatusCode)
		c.rememberRefusal(err)
		return nil, err
	}
	c.reached.Store(true)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if req.Method == http.MethodGet && (resp.StatusCode != http.StatusOK || media != eventStream) {
		c.hasNoStream.Store(true)
	}
	body := &boundedBody{body: resp.Body, left: -1, done: done}
	if media == eventStream {
		body.events = &eventMeter{notices: c.notices}
	} else {
		body.left = c.bound
	}
	if isListRequest(req) {
		body.list = &listReader{tools: c.tasks, events: media == eventStream}
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
	again, err := server.Discover(sent, answer, c.profiles)
	if err == nil && !again {
		return answer, nil
	}
	_ = answer.Body.Close() // nothing of it is wanted
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

// authorise adds credentials, and remembers them to mask what the server says.
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

// noStreamResponse returns the answer of a server that has no stream of notifications.
func noStreamResponse(req *http.Request) *http.Response {
	return &http.Response{
		StatusCode: http.StatusMethodNotAllowed, Status: "405 Method Not Allowed", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: req,
	}
}

// boundedBody is a body that fails beyond its bound, and ends its request's context when it is closed.
type boundedBody struct {
	body io.ReadCloser
	left int64 // negative: the SDK bounds each event
	done func()

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
	if b.left < 0 {
		return n, err
	}
	if int64(n) > b.left {
		return int(b.left), agent.Errorf(agent.CodeOverflow, "read MCP answer", "it is larger than %d bytes", maxFrame)
	}
	b.left -= int64(n)
	return n, err
}

func (b *boundedBody) Close() error {
	err := b.body.Close()
	b.done()
	return err
}
