package middleware

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/valyala/fasttemplate"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
)

const (
	maxTemplateBytes = 2_000 // of the option message
	maxFailureBytes  = 4_000 // of a message that the model is given for a failure
	maxPanicBytes    = 500   // of what a tool panicked with
)

// toolError gives the model the errors of a tool as data, at once, where the runtime would first try again by itself.
// A tool's panic is an error of code internal. It does not repeat: tool_retry does, behind it in the list and with on_failure error.
// In front of it, tool_retry would see data that no longer says what the other side asked for.
type toolError struct {
	agent.Pass
	tools   []string
	codes   []agent.Code
	message *fasttemplate.Template // nil: the error's own text
}

// toolErrorOptions are LangChain v1's, as far as they are data: its on_error is a function, here a list of codes and a template.
type toolErrorOptions struct {
	Tools   []string     `json:"tools"`   // default: all
	Codes   []agent.Code `json:"codes"`   // which errors; default: all but cancelled
	Message string       `json:"message"` // for the model; {{tool}} and {{error}} stand for the tool's name and the error's text
}

func newToolError(options json.RawMessage) (agent.Middleware, error) {
	var o toolErrorOptions
	if err := decode(options, &o); err != nil {
		return nil, err
	}
	if err := checkNames("tools", o.Tools); err != nil {
		return nil, err
	}
	m := &toolError{tools: o.Tools, codes: o.Codes}
	known := []agent.Code{
		agent.CodeInvalid, agent.CodeNotFound, agent.CodeDenied, agent.CodeConflict, agent.CodeRateLimited, agent.CodeUnavailable,
		agent.CodeOverflow, agent.CodeInternal,
	}
	if o.Codes == nil {
		m.codes = known
	} else if len(o.Codes) == 0 || len(o.Codes) > len(known)+1 {
		return nil, agent.Invalid("codes", "want 1 to %d codes", len(known)+1)
	}
	for i, c := range m.codes {
		if c != agent.CodeCancelled && !slices.Contains(known, c) {
			return nil, agent.Invalid(fmt.Sprintf("codes[%d]", i), "there is no code %.50q", c)
		}
	}
	if o.Message == "" {
		return m, nil
	}
	var err error
	m.message, err = newFailureTemplate(o.Message)
	return m, err
}

// newFailureTemplate returns a template. It refuses one that names anything but the tool and the error.
func newFailureTemplate(text string) (*fasttemplate.Template, error) {
	if len(text) > maxTemplateBytes {
		return nil, agent.Invalid("message", "want at most %d bytes, got %d", maxTemplateBytes, len(text))
	}
	t, err := fasttemplate.NewTemplate(text, "{{", "}}")
	if err != nil {
		return nil, agent.Invalid("message", "a {{ has no }} behind it")
	}
	_, err = t.ExecuteFunc(io.Discard, func(_ io.Writer, tag string) (int, error) {
		if name := strings.TrimSpace(tag); name != "tool" && name != "error" {
			return 0, agent.Invalid("message", "want {{tool}} or {{error}}, got {{%.50s}}", tag)
		}
		return 0, nil
	})
	return t, err
}

// WrapTool turns the errors of next into data. When the call's context has ended, the error stays one: the runtime knows the cause.
func (m *toolError) WrapTool(next agent.ToolFunc) agent.ToolFunc {
	return func(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
		if !appliesTo(m.tools, call.Name) {
			return next(ctx, inv, call)
		}
		result, err := callRecovering(ctx, next, inv, call)
		if err == nil || ctx.Err() != nil || !slices.Contains(m.codes, agent.CodeOf(err)) {
			return result, err
		}
		f := agent.FailureOf(err)
		f.Tool, f.Message = call.Name, m.text(call.Name, err)
		return agent.ToolResult{Failure: f}, nil
	}
}

// callRecovering calls next and returns its panic as an error, without the stack, because a model reads it.
func callRecovering(ctx context.Context, next agent.ToolFunc, inv agent.Invocation, call agent.ToolCall) (result agent.ToolResult, err error) {
	defer func() {
		if v := recover(); v != nil {
			result = agent.ToolResult{}
			err = agent.Errorf(agent.CodeInternal, "call tool", "the tool panicked: %s", clip.Bytes(fmt.Sprint(v), maxPanicBytes))
		}
	}()
	return next(ctx, inv, call)
}

// text returns the message for the model.
func (m *toolError) text(tool string, err error) string {
	reason := clip.Bytes(err.Error(), maxFailureBytes)
	if m.message == nil {
		return reason
	}
	return clip.Bytes(m.message.ExecuteFuncString(func(w io.Writer, tag string) (int, error) {
		if strings.TrimSpace(tag) == "tool" {
			return io.WriteString(w, tool)
		}
		return io.WriteString(w, reason)
	}), maxFailureBytes)
}
