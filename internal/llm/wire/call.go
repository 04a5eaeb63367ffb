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

// Call is one exchange with a provider. It emits fragments, counts them, and knows why the exchange ended. Only the transport may use it from
// another goroutine.
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

// Context returns the context for the request. It ends with the exchange, and tells the transport which exchange a request belongs to.
func (c *Call) Context() context.Context { return c.ctx }

// End releases the exchange and aborts a running request.
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
		return c.abort(c.client.replyTooLong(limit))
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

// Failure returns why the exchange failed: emit's error unchanged, else an [*agent.Error]. err is the error of the provider client, nil if it
// noticed nothing. Failure returns nil if err is nil and nothing else went wrong.
func (c *Call) Failure(err error) error {
	if c.stop != nil {
		return c.stop
	}
	if ended := c.caller.Err(); ended != nil {
		return cancelError(c.caller, ended)
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
	return c.client.unavailableError(err)
}

// cancelError returns the error for an ended context. A deadline is not the caller's wish, hence another code.
func cancelError(ctx context.Context, ended error) error {
	code := agent.CodeCancelled
	if errors.Is(ended, context.DeadlineExceeded) {
		code = agent.CodeUnavailable
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ended) {
		return agent.Errorf(code, op, "%w: %w", ended, cause)
	}
	return &agent.Error{Code: code, Op: op, Err: context.Cause(ctx)}
}

// Cut returns the failure of a stream that ended before its reply did.
func (c *Call) Cut() error {
	return c.client.errorf(agent.CodeUnavailable, "the stream ended before the reply did")
}

// Malformed returns the failure of a stream that does not parse.
func (c *Call) Malformed(err error) error {
	if c.client.cfg.HideAnswers {
		return c.client.errorf(agent.CodeUnavailable, "malformed stream")
	}
	return c.client.errorf(agent.CodeUnavailable, "malformed stream: %w", err)
}

// Refuse returns the failure of a request that the provider cannot carry, so that it was not sent: [agent.CodeInvalid] with the field of err.
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

// unavailableError returns the failure of an exchange that did not end properly, with the code of an [agent.Error] in err.
func (c *Client) unavailableError(err error) *agent.Error {
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

func (c *Client) silenceError() *agent.Error {
	return c.errorf(agent.CodeUnavailable, "not a byte for %s", c.cfg.Timeout)
}

func (c *Client) replyTooLong(limit int64) *agent.Error {
	return c.errorf(agent.CodeOverflow, "the reply exceeds %d bytes", limit)
}

// errorf returns an error of this provider whose text is bounded and without the key. It wraps the cause if that is safe.
func (c *Client) errorf(code agent.Code, format string, args ...any) *agent.Error {
	err := fmt.Errorf(c.provider+": "+format, args...)
	if text := c.redactMessage(err.Error()); text != err.Error() {
		err = errors.New(text)
	}
	return &agent.Error{Code: code, Op: op, Err: err}
}

// redactMessage returns a provider's text without the key, which it may quote, and bounded.
func (c *Client) redactMessage(s string) string {
	s = string(redact.NewMasker(c.cfg.APIKey).Mask([]byte(s)))
	return clip.Bytes(strings.ToValidUTF8(s, ""), maxMessage)
}
