package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-run/turnstone/agent"
)

const (
	maxArgs     = 1 << 20 // bytes of a call's arguments
	maxProgress = 500     // runes of a message
	// attempts is how often a call that was not sent is tried: with the session that seemed to be open, and with a new one.
	attempts = 2
	// metaKey is where a call's idempotency key is, in its _meta.
	metaKey = "turnstone/idempotency_key"
)

// remote is a tool of a server.
type remote struct {
	kit     *Toolkit
	binding *binding
	scope   agent.ToolScope
	handle  handle
	spec    agent.ToolSpec
}

// harmless is a tool of which the binding believes that it only reads.
type harmless struct{ *remote }

var _ agent.EffectFree = harmless{}

// EffectFree is true: the server says so, and the binding trusts it.
func (harmless) EffectFree(json.RawMessage) bool { return true }

func (t *remote) Spec() agent.ToolSpec {
	spec := t.spec
	spec.Parameters = bytes.Clone(spec.Parameters)
	return spec
}

// Call sends the call to the server. What the server says is wrong is a failed result, and so is what cannot be tried again; an error is
// for the runtime to retry.
func (t *remote) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := agent.Interrupted(ctx, "call MCP tool"); err != nil {
		return agent.ToolResult{}, err
	}
	if err := checkArgs(call.Args); err != nil {
		return t.failed(agent.FailureOf(err))
	}
	var lost error
	for range attempts {
		s, release, err := t.kit.session(ctx, t.binding, &t.scope)
		if err != nil {
			return t.unsent(inv, err)
		}
		result, err := t.send(ctx, s, inv, call)
		release()
		if lost = err; !errors.Is(err, errUnsent) || ctx.Err() != nil || s.alive() || s.refusal.Load() != nil {
			return t.outcome(inv, result, err)
		}
	}
	return t.outcome(inv, agent.ToolResult{}, lost)
}

// checkArgs holds arguments to be an object; what is in it is the server's to judge.
func checkArgs(args json.RawMessage) error {
	switch {
	case len(args) > maxArgs:
		return agent.Invalid("args", "are %d bytes, at most %d", len(args), maxArgs)
	case !utf8.Valid(args):
		return agent.Invalid("args", "are not UTF-8")
	case !json.Valid(args) || bytes.TrimLeft(args, " \t\r\n")[0] != '{':
		return agent.Invalid("args", "want a JSON object")
	}
	return nil
}

// What became of a call that got no answer. The errors wrap these and the [agent.Error] that says why.
var (
	errUnsent  = errors.New("nothing was sent")
	errUnclear = errors.New("it may have taken effect")
)

// send makes one attempt in one session. Its errors are those of outcome.
func (t *remote) send(ctx context.Context, s *session, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	bounded, cancel := s.within(ctx, t.binding.timeout())
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-bounded.Done():
		return agent.ToolResult{}, fmt.Errorf("%w: %w", errUnsent, s.fault(ctx, &delivery{}, bounded.Err()))
	}
	heard, stop := hear(inv)
	defer stop()
	token, forget := s.listen(heard)
	defer forget()

	params := &sdk.CallToolParams{Name: t.handle.Name, Arguments: call.Args, Meta: sdk.Meta{}}
	if inv.IdempotencyKey != "" {
		params.Meta[metaKey] = inv.IdempotencyKey
	}
	params.SetProgressToken(token)
	d, before := &delivery{}, s.link.notices.seen.Load()
	answer, err := s.client.CallTool(withDelivery(bounded, d), params)
	if err == nil {
		s.proven.Store(true)
		return t.result(ctx, s, inv, answer)
	}
	fault := s.fault(ctx, d, err)
	if said, ok := answered(err); ok { // it was looked at and refused
		s.proven.Store(true)
		f := agent.FailureOf(fault)
		f.Retryable = false
		if answerCode(said) == agent.CodeInternal && !inv.Repeatable {
			f.Message += "; whether it took effect is not known"
		}
		return t.failed(f)
	}
	switch {
	case bounded.Err() == nil:
		s.suspect(d, err)
	case errors.Is(bounded.Err(), context.DeadlineExceeded) && s.link.notices.seen.Load()-before > flooded:
		s.retire() // the answers of others are behind the same notifications
	}
	return agent.ToolResult{}, fmt.Errorf("%w: %w", fate(d, err), fault)
}

// fate says whether a server may have acted on a call that it did not answer.
func fate(d *delivery, err error) error {
	switch status := int(d.status.Load()); {
	case errors.Is(err, sdk.ErrSessionMissing): // the session is gone: it looked at nothing
		return errUnsent
	case status == 0:
		if d.sent.Load() {
			return errUnclear
		}
		return errUnsent
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable,
		status >= http.StatusMultipleChoices && status < http.StatusInternalServerError && status != http.StatusRequestTimeout:
		return errUnsent
	default:
		return errUnclear
	}
}

// outcome decides what becomes of a call without an answer: an error is tried again by the runtime, a failure is not.
func (t *remote) outcome(inv agent.Invocation, result agent.ToolResult, err error) (agent.ToolResult, error) {
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, errUnsent):
		return t.unsent(inv, err)
	case !errors.Is(err, errUnclear):
		return agent.ToolResult{}, err
	}
	why := reason(err)
	if why.Code == agent.CodeCancelled {
		return agent.ToolResult{}, why
	}
	if inv.Repeatable {
		if why.Code == agent.CodeUnavailable || why.Code == agent.CodeRateLimited {
			return agent.ToolResult{}, why
		}
		return t.failed(agent.FailureOf(why))
	}
	return t.failed(&agent.Failure{
		Type: agent.OutcomeUnknown, Message: why.Error() + "; the call may have taken effect and was not repeated",
	})
}

// unsent is for a call that the server never had. The runtime repeats a call that it knows to be repeatable; for any other it would have to
// assume the worst, so the model is told that it may try again.
func (t *remote) unsent(inv agent.Invocation, err error) (agent.ToolResult, error) {
	why := reason(err)
	switch {
	case why.Code == agent.CodeCancelled:
		return agent.ToolResult{}, why
	case inv.Repeatable && (why.Code == agent.CodeUnavailable || why.Code == agent.CodeRateLimited):
		return agent.ToolResult{}, why
	}
	f := agent.FailureOf(why)
	f.Message += "; the call was not sent"
	return t.failed(f)
}

// reason is the [agent.Error] in an error's chain.
func reason(err error) *agent.Error {
	if own, ok := errors.AsType[*agent.Error](err); ok {
		return own
	}
	return agent.Errorf(agent.CodeUnavailable, "call MCP tool", "%w", err)
}

// failed is the result of a call that failed, for the model to see.
func (t *remote) failed(f *agent.Failure) (agent.ToolResult, error) {
	f.Tool = t.spec.Name
	out, err := json.Marshal(map[string]*agent.Failure{"error": f})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call MCP tool", "encode failure: %w", err)
	}
	return agent.ToolResult{Output: out, Failure: f}, nil
}

// hear passes progress on to the runtime from a goroutine of its own, so that the runtime's pace is not the session's. stop waits for it.
func hear(inv agent.Invocation) (heard chan<- string, stop func()) {
	messages, done, gone := make(chan string, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case text := <-messages:
				inv.Report(text)
			case <-done:
				select { // the last word
				case text := <-messages:
					inv.Report(text)
				default:
				}
				return
			}
		}
	}()
	return messages, func() { close(done); <-gone }
}
