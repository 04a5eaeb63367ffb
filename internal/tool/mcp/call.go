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
	// attempts is how often a call that was not sent is tried: in the session that seemed to be open, and in a new one.
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

// readOnlyTool is a tool that only reads: the server says so, and the binding trusts it.
type readOnlyTool struct{ *remoteTool }

var _ agent.EffectFree = readOnlyTool{}

// EffectFree returns true.
func (readOnlyTool) EffectFree(json.RawMessage) bool { return true }

func (t *remoteTool) Spec() agent.ToolSpec {
	spec := t.spec
	spec.Parameters = bytes.Clone(spec.Parameters)
	return spec
}

// Call sends the call to the server. An error is for the runtime to retry. A refusal of the server, or a fault that another attempt
// cannot mend, is a failed result.
func (t *remoteTool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := agent.Interrupted(ctx, "call MCP tool"); err != nil {
		return agent.ToolResult{}, err
	}
	if err := checkArgs(call.Args); err != nil {
		return t.failedResult(agent.FailureOf(err))
	}
	var lost error
	for range attempts {
		s, release, err := t.kit.session(ctx, t.binding, &t.scope)
		if err != nil {
			return t.unsentResult(inv, err)
		}
		result, err := t.send(ctx, s, inv, call)
		release()
		if lost = err; !errors.Is(err, errUnsent) || ctx.Err() != nil || s.isAlive() || s.refusal.Load() != nil {
			return t.finalResult(inv, result, err)
		}
	}
	return t.finalResult(inv, agent.ToolResult{}, lost)
}

// checkArgs checks that the arguments are an object; the server checks its members.
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

// The outcomes of a call without an answer. Errors wrap one of these and the [agent.Error] that says why.
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

// deliveryOutcome returns [errUnclear] if a server may have acted on a call that it did not answer, else [errUnsent].
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

// finalResult returns the result of a call, or of one without an answer: an error if the runtime may try it again, else a failure.
func (t *remoteTool) finalResult(inv agent.Invocation, result agent.ToolResult, err error) (agent.ToolResult, error) {
	switch {
	case err == nil:
		return result, nil
	case errors.Is(err, errUnsent):
		return t.unsentResult(inv, err)
	case !errors.Is(err, errUnclear):
		return agent.ToolResult{}, err
	}
	why := agentErrorIn(err)
	if why.Code == agent.CodeCancelled {
		return agent.ToolResult{}, why
	}
	if inv.Repeatable {
		if why.Code == agent.CodeUnavailable || why.Code == agent.CodeRateLimited {
			return agent.ToolResult{}, why
		}
		return t.failedResult(agent.FailureOf(why))
	}
	return t.failedResult(&agent.Failure{
		Type: agent.OutcomeUnknown, Message: why.Error() + "; the call may have taken effect and was not repeated",
	})
}

// unsentResult returns the result of a call that the server never had. Only a repeatable call is an error for the runtime to repeat: of any
// other the runtime would have to assume that it took effect, so the model is told that it may try again.
func (t *remoteTool) unsentResult(inv agent.Invocation, err error) (agent.ToolResult, error) {
	why := agentErrorIn(err)
	switch {
	case why.Code == agent.CodeCancelled:
		return agent.ToolResult{}, why
	case inv.Repeatable && (why.Code == agent.CodeUnavailable || why.Code == agent.CodeRateLimited):
		return agent.ToolResult{}, why
	}
	f := agent.FailureOf(why)
	f.Message += "; the call was not sent"
	return t.failedResult(f)
}

// agentErrorIn returns the [agent.Error] in an error's chain.
func agentErrorIn(err error) *agent.Error {
	if own, ok := errors.AsType[*agent.Error](err); ok {
		return own
	}
	return agent.Errorf(agent.CodeUnavailable, "call MCP tool", "%w", err)
}

func (t *remoteTool) failedResult(f *agent.Failure) (agent.ToolResult, error) {
	return tool.FailedResult(t.spec.Name, f)
}

// forwardProgress passes progress on to the runtime in its own goroutine, so that a slow runtime does not hold up the session. stop waits
// for the goroutine.
func forwardProgress(inv agent.Invocation) (heard chan<- string, stop func()) {
	updates, done, gone := make(chan string, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case text := <-updates:
				inv.Report(text)
			case <-done:
				select { // the last message
				case text := <-updates:
					inv.Report(text)
				default:
				}
				return
			}
		}
	}()
	return updates, func() { close(done); <-gone }
}
