package wire

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxErrorBody = 64 << 10
	// drainTime and drainBytes bound the rest of a body that Close reads. A connection can be used again only if the body was read to its end, which
	// usually arrives together with the end of the reply.
	drainTime  = 20 * time.Millisecond
	drainBytes = 4 << 10
)

var errSilent = errors.New("silent")

// transport checks responses and watches their bodies. Unlike other [http.RoundTripper]s it returns an error for an unsuccessful response, with
// status, Retry-After and message.
type transport struct {
	client *Client
	next   http.RoundTripper
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	call, _ := req.Context().Value(callKey{}).(*Call) // nil for a request of a custom provider
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(t.client.cfg.Timeout, func() { cancel(errSilent) })
	res, err := t.next.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	if err != nil {
		err = t.networkError(ctx, err)
		cancel(nil)
		return nil, call.recordFailure(err)
	}
	res.Body = &body{
		ReadCloser: res.Body, transport: t, call: call, ctx: ctx, cancel: cancel, timer: timer,
		remaining: wireRatio * t.client.cfg.MaxReplyBytes,
	}
	if err := t.checkResponse(res); err != nil {
		cancel(nil)
		_ = res.Body.Close()
		return nil, call.recordFailure(err)
	}
	return res, nil
}

// checkResponse returns the failure of a response, nil for a success. A redirect is a failure, because following it would send the prompt, and with
// some providers the key, to a host that nobody configured.
func (t *transport) checkResponse(res *http.Response) error {
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		// An HTML page is from a captive portal, a proxy or a wrong base URL.
		if media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); media == "text/html" {
			return t.client.errorf(agent.CodeUnavailable, "answered %d with an HTML page: is the base URL right?", res.StatusCode)
		}
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody)) // without a text the status is enough
	return t.client.statusError(res.StatusCode, res.Header, text)
}

func (t *transport) networkError(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), errSilent) {
		return t.client.errorf(agent.CodeUnavailable, "not a byte for %s", t.client.cfg.Timeout)
	}
	if ctx.Err() != nil {
		return err // the caller has ended the call; Failure says how
	}
	return t.client.unavailableError(err)
}

// body watches a response. Only the time within Read counts as silence.
type body struct {
	io.ReadCloser
	transport *transport
	call      *Call
	ctx       context.Context
	cancel    context.CancelCauseFunc
	timer     *time.Timer
	remaining int64 // bytes that may still be read
	end       error // the error that ended reading, also io.EOF
}

func (b *body) Read(p []byte) (int, error) {
	if b.end != nil {
		return 0, b.end
	}
	b.timer.Reset(b.transport.client.cfg.Timeout)
	n, err := b.ReadCloser.Read(p)
	b.timer.Stop()
	b.remaining -= int64(n)
	switch {
	case err == io.EOF:
		b.end = err
	case err != nil:
		b.end = b.call.recordFailure(b.transport.networkError(b.ctx, err))
	case b.remaining < 0:
		c := b.transport.client
		b.end = b.call.recordFailure(c.errorf(agent.CodeOverflow, "the reply exceeds %d bytes on the wire", wireRatio*c.cfg.MaxReplyBytes))
		b.cancel(nil)
	}
	return n, b.end
}

func (b *body) Close() error {
	if b.end == nil && b.ctx.Err() == nil {
		b.timer.Reset(drainTime)
		_, _ = io.CopyN(io.Discard, b.ReadCloser, drainBytes)
		b.timer.Stop()
	}
	err := b.ReadCloser.Close()
	b.cancel(nil)
	return err
}
