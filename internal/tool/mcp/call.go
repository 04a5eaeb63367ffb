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
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxArgs     = 1 << 20 // bytes of a call's arguments
	maxProgress = 500     // runes of a message
	// attempts is the number of sessions in which a call is tried until it is sent: one that may have ended unnoticed, and a new one.
	attempts = 2
	// metaKey is the member of _meta that holds a call's idempotency key.
	metaKey = "turnstone/idempotency_key"
)

// remoteTool is a tool of an MCP server.
type remoteTool struct {
	kit     *Toolkit
	binding *binding
	scope   agent.ToolScope
	handle  handle
	spec    agent.ToolSpec
}

// readOnlyTool is a tool that only reads, according to a server that the binding trusts.
type readOnlyTool struct{ *remoteTool }

var _ agent.EffectFree = readOnlyTool{}

// EffectFree returns true.
func (readOnlyTool) EffectFree(json.RawMessage) bool { return true }

func (t *remoteTool) Spec() agent.ToolSpec {
	spec := t.spec
	spec.Parameters = bytes.Clone(spec.Parameters)
	return spec
}

// Call sends the call to the server. It returns an error if the runtime may try again. If the server refuses the call, or another attempt
// cannot succeed, it returns a failed result.
func (t *remoteTool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := agent.Interrupted(ctx, "call MCP tool"); err != nil {
		return agent.ToolResult{}, err
	}
	if err := checkArgs(call.Args); err != nil {
		return t.failedResult(agent.FailureOf(err))
	}
	var sendErr error
	for range attempts {
		s, release, err := t.kit.session(ctx, t.binding, &t.scope)
		if err != nil {
			return t.unsentResult(inv, err)
		}
		var result agent.ToolResult
		result, sendErr = t.send(ctx, s, inv, call)
		release()
		if !errors.Is(sendErr, errUnsent) || ctx.Err() != nil || s.isAlive() || s.refusal.Load() != nil {
			return t.finalResult(inv, result, sendErr)
		}
	}
	return t.unsentResult(inv, sendErr)
}

// checkArgs checks that the arguments are an object. The server checks its members.
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

// The outcomes of a call without an answer. Errors of send wrap one of these, and the [agent.Error] that is the cause.
var (
	errUnsent  = errors.New("nothing was sent")
	errUnclear = errors.New("it may have taken effect")
)

// send makes one attempt in one session. Its errors wrap [errUnsent] or [errUnclear].
func (t *remoteTool) send(ctx context.Context, s *session, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	bounded, cancel := s.withTimeout(ctx, t.binding.timeout())
	defer cancel()
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-bounded.Done():
		return agent.ToolResult{}, fmt.Errorf("%w: %w", errUnsent, s.faultOf(ctx, &delivery{}, bounded.Err()))
	}
	progress, stop := forwardProgress(inv)
	defer stop()
	token, forget := s.registerProgress(progress)
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
		return t.answerResult(ctx, s, inv, answer)
	}
	fault := s.faultOf(ctx, d, err)
	if answer, ok := serverErrorIn(err); ok { // the server refused the call
		s.proven.Store(true)
		f := agent.FailureOf(fault)
		f.Retryable = false
		if serverErrorCode(answer) == agent.CodeInternal && !inv.Repeatable {
			f.Message += "; whether it took effect is not known"
		}
		return t.failedResult(f)
	}
	switch {
	case bounded.Err() == nil:
		s.retireAfter(d, err)
	case errors.Is(bounded.Err(), context.DeadlineExceeded) && s.link.notices.seen.Load()-before > floodThreshold:
		s.retire() // other answers wait behind the same notifications
	}
	return agent.ToolResult{}, fmt.Errorf("%w: %w", deliveryOutcome(d, err), fault)
}

// deliveryOutcome returns [errUnclear] if the server may have acted on a call that it did not answer, else [errUnsent].
func deliveryOutcome(d *delivery, err error) error {
	switch status := int(d.status.Load()); {
	case errors.Is(err, sdk.ErrSessionMissing): // the server has forgotten the session, and did not read the call
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

// finalResult returns the result of a call after its last attempt. err is the error of send. If there was no answer, finalResult returns an
// error if the runtime may try again, else a failed result.
func (t *remoteTool) finalResult(inv agent.Invocation, result agent.ToolResult, err error) (agent.ToolResult, error) {
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, errUnsent):
		return t.unsentResult(inv, err)
	case !errors.Is(err, errUnclear):
		return agent.ToolResult{}, err
	}
	cause := agentErrorIn(err)
	switch {
	case mayRetry(inv, cause):
		return agent.ToolResult{}, cause
	case inv.Repeatable:
		return t.failedResult(agent.FailureOf(cause))
	default:
		return t.failedResult(&agent.Failure{
			Type: agent.OutcomeUnknown, Message: cause.Error() + "; the call may have taken effect and was not repeated",
		})
	}
}

// unsentResult returns the result of a call that did not reach the server. The result of a call that is not repeatable is not an error:
// the runtime would assume that the call may have taken effect. It is a failure, which tells the model that it may try again.
func (t *remoteTool) unsentResult(inv agent.Invocation, err error) (agent.ToolResult, error) {
	cause := agentErrorIn(err)
	if mayRetry(inv, cause) {
		return agent.ToolResult{}, cause
	}
	f := agent.FailureOf(cause)
	f.Message += "; the call was not sent"
	return t.failedResult(f)
}

// mayRetry reports whether the runtime is to get the error of a call: the call was cancelled, or may be repeated and may then succeed.
func mayRetry(inv agent.Invocation, e *agent.Error) bool {
	return e.Code == agent.CodeCancelled || inv.Repeatable && (e.Code == agent.CodeUnavailable || e.Code == agent.CodeRateLimited)
}

// agentErrorIn returns the [agent.Error] in an error's chain. Any other error becomes [agent.CodeUnavailable].
func agentErrorIn(err error) *agent.Error {
	if e, ok := errors.AsType[*agent.Error](err); ok {
		return e
	}
	return agent.Errorf(agent.CodeUnavailable, "call MCP tool", "%w", err)
}

func (t *remoteTool) failedResult(f *agent.Failure) (agent.ToolResult, error) {
	return tool.FailedResult(t.spec.Name, f)
}

// forwardProgress reports the updates that it gets to the runtime, in its own goroutine, so that a slow runtime does not block the session.
// stop reports the last update and waits for the goroutine.
func forwardProgress(inv agent.Invocation) (updates chan<- string, stop func()) {
	texts, stopped, ended := make(chan string, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case text := <-texts:
				inv.Report(text)
			case <-stopped:
				select { // the last update
				case text := <-texts:
					inv.Report(text)
				default:
				}
				return
			}
		}
	}()
	return texts, func() { close(stopped); <-ended }
}
