package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// fault is an error that becomes a failed result. Its field is relative to the step until [withStep] adds the step's position.
type fault struct {
	failure agent.Failure
}

func (f *fault) Error() string { return f.failure.Message }

func faultf(code agent.Code, field, format string, args ...any) *fault {
	return &fault{failure: agent.Failure{Type: string(code), Field: field, Message: fmt.Sprintf(format, args...)}}
}

func invalid(field, format string, args ...any) *fault {
	return faultf(agent.CodeInvalid, field, format, args...)
}

// withStep adds the step and its position to a fault. It returns other errors unchanged.
func withStep(err error, step string, position int) error {
	var f *fault
	if !errors.As(err, &f) {
		return err
	}
	path := fmt.Sprintf("pipeline[%d]", position)
	if f.failure.Field != "" {
		path += "." + f.failure.Field
	}
	located := f.failure
	located.Step, located.Field = step, path
	return &fault{failure: located}
}

// faultOf turns an error of another package into a fault. field replaces the field that the error names, unless field is empty.
func faultOf(err error, field string) *fault {
	f := agent.FailureOf(err)
	if f.Field == "" || field != "" {
		f.Field = field
	}
	var e *agent.Error
	if errors.As(err, &e) && e.Field != "" { // the text of the error begins with the field
		f.Message = e.Err.Error()
	}
	return &fault{failure: *f}
}

// prefixField puts the field of a fault in front of its message. It returns other errors unchanged.
func prefixField(err error) error {
	var f *fault
	if !errors.As(err, &f) || f.failure.Field == "" {
		return err
	}
	named := f.failure
	named.Message = clip.Bytes(named.Field, maxQuote) + ": " + named.Message
	return &fault{failure: named}
}

// contextError returns the error of a call whose context has ended.
func contextError(ctx context.Context) error {
	return agent.Errorf(agent.CodeCancelled, "call "+ToolName, "%w", context.Cause(ctx))
}

// failedResult returns a fault as the result of the call. It returns other errors unchanged.
func (r *run) failedResult(err error) (agent.ToolResult, error) {
	var f *fault
	if !errors.As(err, &f) {
		return agent.ToolResult{}, err
	}
	failure := f.failure
	failure.Tool = cmp.Or(r.composite, ToolName)
	if failure.Step != "" {
		failure.Message = failure.Step + ": " + failure.Message
	}
	out, err := tool.EncodeJSON(struct {
		Error     *agent.Failure `json:"error"`
		Steps     []stepReport   `json:"steps"`
		Composite string         `json:"composite,omitempty"`
	}{&failure, append([]stepReport{}, r.done...), r.composite})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+ToolName, "encode failure: %w", err)
	}
	return agent.ToolResult{Output: out, Failure: &failure}, nil
}
