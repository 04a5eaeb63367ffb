package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/schema"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// FunctionOption is an option of [NewFunction]. It describes the effects of the tool's calls.
type FunctionOption func(*functionTool)

// ReadOnly declares that no call has effects: calls need no approval and may be repeated.
func ReadOnly() FunctionOption {
	return func(t *functionTool) { t.readOnly, t.spec.Idempotent = true, true }
}

// Idempotent declares that calling twice has the effect of calling once: a call whose outcome is unknown is repeated.
func Idempotent() FunctionOption { return func(t *functionTool) { t.spec.Idempotent = true } }

// InherentlySafe declares that no call needs an approval, whatever its arguments.
func InherentlySafe() FunctionOption { return func(t *functionTool) { t.spec.InherentlySafe = true } }

// functionTool is a tool that calls a function.
type functionTool struct {
	spec     agent.ToolSpec
	readOnly bool
	schemas  *schema.Checker
	call     func(ctx context.Context, args json.RawMessage) (any, error)
}

// NewFunction returns a tool that calls a function. The type In determines the JSON Schema of the arguments:
//
//   - A member has the name of its json tag. It is required unless the tag has omitempty or omitzero, or the field is a pointer.
//   - The tags of github.com/invopop/jsonschema add to its schema: jsonschema_description:"…" and jsonschema:"enum=a,enum=b,minimum=1".
//   - Arguments are checked against the schema and decoded strictly. Bad arguments are a failed result that names the field.
//
// The error says what is wrong with the function, the description or the type In.
func NewFunction[In, Out any](name, description string, call func(ctx context.Context, in In) (Out, error), options ...FunctionOption) (agent.Tool, error) {
	parameters, err := schemaOf[In]()
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	t := &functionTool{
		spec: agent.ToolSpec{Name: name, Description: description, Parameters: parameters}, schemas: schema.New(),
		call: func(ctx context.Context, args json.RawMessage) (any, error) {
			var in In
			if err := strictjson.Decode(args, &in); err != nil {
				return nil, err
			}
			return call(ctx, in)
		},
	}
	for _, apply := range options {
		apply(t)
	}
	if err := t.schemas.CheckSchema("parameters", parameters); err != nil {
		return nil, fmt.Errorf("tool %q: %w", name, err)
	}
	if call == nil || description == "" {
		return nil, agent.Invalid("", "tool %q: want a function and a description, by which models choose tools", name)
	}
	return t, nil
}

// Spec implements [agent.Tool].
func (t *functionTool) Spec() agent.ToolSpec {
	spec := t.spec
	spec.Parameters = bytes.Clone(spec.Parameters)
	return spec
}

// EffectFree implements [agent.EffectFree].
func (t *functionTool) EffectFree(args json.RawMessage) bool {
	return t.readOnly || t.check(args) != nil
}

// check returns nil if the arguments satisfy the schema.
func (t *functionTool) check(args json.RawMessage) error {
	return t.schemas.Check("", t.spec.Parameters, args)
}

// Call implements [agent.Tool]. The function finds the invocation with [InvocationFrom].
func (t *functionTool) Call(ctx context.Context, inv agent.Invocation, call agent.ToolCall) (agent.ToolResult, error) {
	if err := agent.Interrupted(ctx, "call "+t.spec.Name); err != nil {
		return agent.ToolResult{}, err
	}
	if err := t.check(call.Args); err != nil {
		return t.failedResult(err)
	}
	out, err := t.call(context.WithValue(ctx, invocationKey{}, inv), call.Args)
	if err != nil {
		if isRuntimeError(ctx, err) {
			return agent.ToolResult{}, err
		}
		return t.failedResult(err)
	}
	if result, ok := out.(agent.ToolResult); ok {
		return result, nil
	}
	output, err := EncodeJSON(out)
	if err != nil {
		return t.failedResult(err)
	}
	return agent.ToolResult{Output: output}, nil
}

// failedResult returns an error as a result for the model.
func (t *functionTool) failedResult(err error) (agent.ToolResult, error) {
	return FailedResult(t.spec.Name, agent.FailureOf(err))
}

// isRuntimeError reports whether the runtime handles an error, by another attempt or by ending the turn. The model handles all others.
func isRuntimeError(ctx context.Context, err error) bool {
	code := agent.CodeOf(err)
	return ctx.Err() != nil || code == agent.CodeUnavailable || code == agent.CodeCancelled
}

// invocationKey is the key of the invocation in a function's context.
type invocationKey struct{}

// InvocationFrom returns the invocation of a tool's function from its context. It is zero for any other context.
func InvocationFrom(ctx context.Context) agent.Invocation {
	inv, _ := ctx.Value(invocationKey{}).(agent.Invocation)
	return inv
}
