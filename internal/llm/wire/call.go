package wire

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/redact"
)

// op names in errors what was being done.
const op = "call model"

// maxMessage bounds, in bytes, what an error quotes of a provider.
const maxMessage = 1024

// Call is one exchange with a provider: it passes fragments on, counts them, and knows why the exchange ended. Apart from what the
// transport records it belongs to one goroutine.
type Call struct {
	client *Client
	caller context.Context
	ctx    context.Context
	cancel context.CancelFunc
	emit   func(agent.Delta) error
	size   int64
	stop   error // why this side ended the exchange: emit's own error, or the bound

	mu      sync.Mutex
	failure error // the first failure that the transport saw
}

type callKey struct{}

// Begin starts an exchange. The caller defers [Call.End]. A nil emit discards the fragments.
func (c *Client) Begin(ctx context.Context, emit func(agent.Delta) error) *Call {
	call := &Call{client: c, caller: ctx, emit: emit}
	call.ctx, call.cancel = context.WithCancel(context.WithValue(ctx, callKey{}, call))
	return call
}

// Context is the context for the request: it ends with the exchange, and by it the transport knows the exchange.
func (c *Call) Context() context.Context { return c.ctx }

// End releases the exchange and aborts its request if that is still running.
func (c *Call) End() { c.cancel() }

// Emit counts a fragment and passes it on. After an error the request is aborted; the caller returns [Call.Failure].
func (c *Call) Emit(d agent.Delta) error {
	if err := c.Count(len(d.Text) + len(d.Reasoning)); err != nil {
		return err
	}
	if c.emit == nil {
		return nil
	}
	if err := c.emit(d); err != nil {
		return c.abort(err)
	}
	return nil
}

// Count counts n bytes of reply that are not emitted, such as arguments of a tool call.
func (c *Call) Count(n int) error {
	if c.stop != nil {
		return c.stop
	}
	c.size += int64(n)
	if limit := c.client.cfg.MaxReplyBytes; c.size > limit {
		return c.abort(c.client.tooLong(limit))
	}
	return nil
}

// Received returns the bytes of the reply so far.
func (c *Call) Received() int64 { return c.size }

func (c *Call) abort(err error) error {
	c.stop = err
	c.cancel()
	return err
}

// Failure says why the exchange failed, given what the provider client made of it (nil when it noticed nothing): emit's error as it
// is, else an [*agent.Error]. It returns nil when err is nil and nothing else went wrong.
func (c *Call) Failure(err error) error {
	if c.stop != nil {
		return c.stop
	}
	if ended := c.caller.Err(); ended != nil {
		return cancelled(c.caller, ended)
	}
	c.mu.Lock()
	failure := c.failure
	c.mu.Unlock()
	if failure != nil {
		err = failure
	}
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*agent.Error](err); ok {
		return known
	}
	return c.client.unavailable(err)
}

// cancelled is the answer to a caller that gave up. A deadline is not the caller's wish, hence another code.
func cancelled(ctx context.Context, ended error) error {
	code := agent.CodeCancelled
	if errors.Is(ended, context.DeadlineExceeded) {
		code = agent.CodeUnavailable
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ended) {
		return agent.Errorf(code, op, "%w: %w", ended, cause)
	}
	return &agent.Error{Code: code, Op: op, Err: context.Cause(ctx)}
}

// Cut is the failure of a stream that ended before its reply did.
func (c *Call) Cut() error {
	return c.client.errorf(agent.CodeUnavailable, "the stream ended before the reply did")
}

// Silent ends the exchange because nothing was heard for the configured time: for clients whose bytes the transport does not see. It
// may be called from any goroutine.
func (c *Call) Silent() {
	c.record(c.client.silent())
	c.cancel()
}

// Malformed is the failure of a stream that does not parse.
func (c *Call) Malformed(err error) error {
	if c.client.cfg.HideAnswers {
		return c.client.errorf(agent.CodeUnavailable, "malformed stream")
	}
	return c.client.errorf(agent.CodeUnavailable, "malformed stream: %w", err)
}

// Refuse is the failure of a request that was never sent, because the provider cannot carry it: [agent.CodeInvalid] with the field
// that err names.
func (c *Client) Refuse(err error) error {
	e := c.errorf(agent.CodeInvalid, "%w", err)
	if invalid, ok := errors.AsType[*agent.Error](err); ok {
		e = c.errorf(invalid.Code, "%w", invalid.Err)
		e.Field = invalid.Field
	}
	return e
}

func (c *Call) record(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
}

// unavailable is the failure of an exchange that did not get to its end. A client that keeps rules of its own says which code it is.
func (c *Client) unavailable(err error) *agent.Error {
	if known, ok := errors.AsType[*agent.Error](err); ok {
		return c.errorf(known.Code, "%w", known.Err)
	}
	if c.cfg.HideAnswers {
		return c.errorf(agent.CodeUnavailable, "the answer cannot be read")
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // a URL may carry a credential
	}
	return c.errorf(agent.CodeUnavailable, "%w", err)
}

func (c *Client) silent() *agent.Error {
	return c.errorf(agent.CodeUnavailable, "not a byte for %s", c.cfg.Timeout)
}

func (c *Client) tooLong(limit int64) *agent.Error {
	return c.errorf(agent.CodeOverflow, "the reply exceeds %d bytes", limit)
}

// errorf makes an error of this provider whose text is bounded and free of the key. The chain is kept where it shows neither.
func (c *Client) errorf(code agent.Code, format string, args ...any) *agent.Error {
	err := fmt.Errorf(c.provider+": "+format, args...)
	if text := c.clean(err.Error()); text != err.Error() {
		err = errors.New(text)
	}
	return &agent.Error{Code: code, Op: op, Err: err}
}

// clean returns a provider's text without the key, which it may quote, and bounded.
func (c *Client) clean(s string) string {
	s = string(redact.NewMasker(c.cfg.APIKey).Mask([]byte(s)))
	return clip.Bytes(strings.ToValidUTF8(s, ""), maxMessage)
}
