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

// op is the operation in errors.
const op = "call model"

// maxMessage is how many bytes of a provider's message an error quotes.
const maxMessage = 1024

// Call is one exchange with a provider. It emits fragments, counts their bytes, and returns why the exchange failed. Only the transport may use it
// from another goroutine.
type Call struct {
	client *Client
	caller context.Context
	ctx    context.Context
	cancel context.CancelFunc
	emit   func(agent.Delta) error
	size   int64
	stop   error // why this side ended the exchange: the error of emit, or a reply that is too long

	mu      sync.Mutex
	failure error // the first one of the transport
}

type callKey struct{}

// Begin starts an exchange. The caller must call [Call.End]. A nil emit discards the fragments.
func (c *Client) Begin(ctx context.Context, emit func(agent.Delta) error) *Call {
	call := &Call{client: c, caller: ctx, emit: emit}
	call.ctx, call.cancel = context.WithCancel(context.WithValue(ctx, callKey{}, call))
	return call
}

// Context returns the context for the request. It ends with the exchange, and the transport finds the exchange in it.
func (c *Call) Context() context.Context { return c.ctx }

// End ends the exchange and aborts a running request.
func (c *Call) End() { c.cancel() }

// Emit counts a fragment and emits it. After an error the request is aborted, and the caller returns [Call.Failure].
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

// Count counts n bytes of the reply that are not emitted, such as arguments of a tool call. Its error is like that of [Call.Emit].
func (c *Call) Count(n int) error {
	if c.stop != nil {
		return c.stop
	}
	c.size += int64(n)
	if limit := c.client.cfg.MaxReplyBytes; c.size > limit {
		return c.abort(c.client.errorf(agent.CodeOverflow, "the reply exceeds %d bytes", limit))
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

// Failure returns why the exchange failed, given the error of the provider client: the error of emit unchanged, or an [*agent.Error]. It returns
// nil if err is nil and the transport has recorded no failure.
func (c *Call) Failure(err error) error {
	if c.stop != nil {
		return c.stop
	}
	if c.caller.Err() != nil {
		return cancelError(c.caller)
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
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e
	}
	return c.client.unavailableError(err)
}

// cancelError returns the error for a context that has ended: cancelled, or unavailable after a deadline.
func cancelError(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	code := agent.CodeCancelled
	if errors.Is(err, context.DeadlineExceeded) {
		code = agent.CodeUnavailable
	}
	if !errors.Is(cause, err) {
		return agent.Errorf(code, op, "%w: %w", err, cause)
	}
	return &agent.Error{Code: code, Op: op, Err: cause}
}

// Incomplete returns the failure of a stream that ended before its reply did.
func (c *Call) Incomplete() error {
	return c.client.errorf(agent.CodeUnavailable, "the stream ended before the reply did")
}

// Malformed returns the failure of a stream that cannot be parsed.
func (c *Call) Malformed(err error) error {
	if c.client.cfg.HideAnswers {
		return c.client.errorf(agent.CodeUnavailable, "malformed stream")
	}
	return c.client.errorf(agent.CodeUnavailable, "malformed stream: %w", err)
}

// Refuse returns the failure of a request that was not sent because the provider has no form for it: [agent.CodeInvalid] with the field of err.
func (c *Client) Refuse(err error) error {
	e := c.errorf(agent.CodeInvalid, "%w", err)
	if invalid, ok := errors.AsType[*agent.Error](err); ok {
		e = c.errorf(invalid.Code, "%w", invalid.Err)
		e.Field = invalid.Field
	}
	return e
}

// recordFailure records a failure of the transport and returns it. The call may be nil.
func (c *Call) recordFailure(err error) error {
	if c == nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = err
	}
	return err
}

// unavailableError returns the failure of an exchange that broke off. It keeps the code of an [agent.Error].
func (c *Client) unavailableError(err error) *agent.Error {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return c.errorf(e.Code, "%w", e.Err)
	}
	if c.cfg.HideAnswers {
		return c.errorf(agent.CodeUnavailable, "the answer cannot be read")
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err // without the URL, which may contain a credential
	}
	return c.errorf(agent.CodeUnavailable, "%w", err)
}

// errorf returns an error of this provider. Its text is bounded and does not contain the key. It wraps its arguments unless the text was changed.
func (c *Client) errorf(code agent.Code, format string, args ...any) *agent.Error {
	err := fmt.Errorf(c.provider+": "+format, args...)
	if text := c.redactMessage(err.Error()); text != err.Error() {
		err = errors.New(text)
	}
	return &agent.Error{Code: code, Op: op, Err: err}
}

// redactMessage removes the key from a provider's text and cuts the text to maxMessage.
func (c *Client) redactMessage(s string) string {
	s = string(redact.NewMasker(c.cfg.APIKey).Mask([]byte(s)))
	return clip.Bytes(strings.ToValidUTF8(s, ""), maxMessage)
}
