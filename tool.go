package turnstone

import (
	"context"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/tool"
)

// ToolOption says what the calls of a [Tool] do besides answering.
type ToolOption = tool.FunctionOption

// Tool returns a tool that calls a Go function. Its arguments are a JSON object with the fields of In, a struct:
//
//   - The json tag gives a member's name. A member is required unless the tag says omitempty or omitzero, or the field is a pointer.
//   - The tag jsonschema_description:"…" describes it to models, and jsonschema:"enum=a,enum=b,minimum=1" bounds it (also maximum,
//     minLength, maxLength, pattern, format, minItems, maxItems; a comma is written \\,).
//
// Arguments that do not fit are a failed result that names the field, for the model to correct; the function is not called. What it
// returns becomes the result: an [agent.ToolResult] as it is, anything else as JSON. Its error is a failed result too, except that one of
// the code [agent.CodeUnavailable] is for the runtime, which calls again.
//
// A tool whose options say nothing may change the world: a person is asked before each call, unless the agent's documents say otherwise.
//
// Tool panics if the type In has no JSON Schema, such as a chan, a func or a type that contains itself, or if the description is empty.
func Tool[In, Out any](name, description string, call func(ctx context.Context, in In) (Out, error), options ...ToolOption) agent.Tool {
	t, err := tool.NewFunction(name, description, call, options...)
	if err != nil {
		panic(err) //nolint:forbidigo // as regexp.MustCompile: a mistake in the source, and tools are parts of literals
	}
	return t
}

// ReadOnly says that no call changes anything: nobody is asked for an approval, and a call may be repeated.
func ReadOnly() ToolOption { return tool.ReadOnly() }

// Idempotent says that calling twice has the effect of calling once: a call whose outcome is unknown is repeated.
func Idempotent() ToolOption { return tool.Idempotent() }

// InherentlySafe says that no call ever needs an approval, whatever its arguments.
func InherentlySafe() ToolOption { return tool.InherentlySafe() }

// InvocationFrom returns the facts of the call that a [Tool]'s function serves, by the function's context: tenant, user, idempotency key,
// the parameters of the tool's binding.
func InvocationFrom(ctx context.Context) agent.Invocation { return tool.InvocationFrom(ctx) }

// Toolkit returns a toolkit of tools, for [Config.Toolkits]. Agents are given it by its name.
func Toolkit(name string, tools ...agent.Tool) agent.Toolkit { return tool.NewToolkit(name, tools...) }

// SingleTool returns a toolkit of one tool, under the tool's name. It is a node of type tool.
func SingleTool(t agent.Tool) agent.Toolkit { return tool.Single(t) }
