package agent

import (
	"context"
	"encoding/json"
)

// ToolSpec describes a tool to a model and to the runtime.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`       // JSON Schema of the arguments, an object
	Strict      bool            `json:"strict,omitempty"` // ask the provider to enforce the schema

	Idempotent     bool `json:"idempotent,omitempty"`      // repeating a call has no further effect
	InherentlySafe bool `json:"inherently_safe,omitempty"` // never needs approval
	ClientSide     bool `json:"client_side,omitempty"`     // runs at the caller, which provides the result
	ReadsDatasets  bool `json:"reads_datasets,omitempty"`  // accepts references to datasets, which the model sees for the session
	RevealsTools   bool `json:"reveals_tools,omitempty"`   // its results {"tools":[{"name":…}]} make deferred tools available to the model
}

// Tool is a tool that models can call. If a call fails, the failure is in the result, so that the model can react. An error means that the tool is
// unavailable; the runtime then calls it again. Tools must not read the environment.
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, inv Invocation, call ToolCall) (ToolResult, error)
}

// EffectFree is implemented by a tool for which some calls have no side effects. These calls need no approval, may be repeated, and may run as local
// activities. Invalid arguments have no side effects.
type EffectFree interface {
	EffectFree(args json.RawMessage) bool
}

// EffectChecker is implemented by a tool that must read something, such as the document of an API, to know whether a call has side effects. The runtime
// calls CheckEffects before it asks for approval of a call that is not [EffectFree]. CheckEffects changes nothing. It returns true only if the call
// certainly has no side effects. Such a call has [Invocation].Repeatable, and the tool must refuse it if it turns out to have side effects.
type EffectChecker interface {
	CheckEffects(ctx context.Context, inv Invocation, args json.RawMessage) (effectFree bool)
}

// Summarizer is implemented by a tool that can describe a call in a few words, e.g. "3 steps".
type Summarizer interface {
	Summarize(args json.RawMessage) string
}

// Configurable is implemented by a toolkit that has parameters. Properties returns their JSON Schema for its node definition. Tools get the parameters
// of the binding as [Invocation].Parameters.
type Configurable interface {
	Properties() json.RawMessage
}

// Toolkit is a named set of tools.
type Toolkit interface {
	Name() string
	Tools() []Tool
}

// ToolCall is a model's request to call a tool.
type ToolCall struct {
	ID   CallID          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// ToolResult is the result of a tool call. The model sees Output. If it is too large, the runtime moves it to the blob store, and the model sees Preview
// and a cas:// reference.
type ToolResult struct {
	Output  json.RawMessage // any JSON
	Data    json.RawMessage // the rows in Output that become the turn's result data; may be nil
	Preview json.RawMessage // {type,row_count,sample} of Data; may be nil
	Failure *Failure        // nil if the tool succeeded

	// Dataset is set by a tool that has stored its rows itself. Then Output is small, contains Dataset.Ref, and is not moved. Data may be nil.
	Dataset  *Dataset
	CacheHit bool // the result is that of an earlier, equal call
}

// Delegator is a tool that can delegate a call to another agent. The runtime runs a turn of that agent and uses its result as the result of the call.
type Delegator interface {
	// Delegate returns the agent, one of delegates, and its message. ok is false for a call that the tool handles itself. An error is the result of
	// the call that the model sees.
	Delegate(args json.RawMessage, delegates []string) (r DelegateRequest, ok bool, err error)
}

// DelegateRequest is the turn of another agent that a call is delegated to.
type DelegateRequest struct {
	Agent   string
	Message string
	Limits  *Limits // nil: the rest of the parent turn's limits
}

// DynamicToolkit is implemented by a toolkit whose tools depend on the tenant and the binding, such as the tools of an MCP server or those that a tenant
// has created. The runtime calls List before a turn's first model call and uses the result for the whole turn. Tools returns the tools that all
// bindings have.
type DynamicToolkit interface {
	Toolkit
	// List returns the current tools of a binding in addition to Tools. After [CodeUnavailable] the turn runs without them.
	List(ctx context.Context, scope ToolScope) ([]ListedTool, error)
	// Find returns a tool from List by its name and handle. Its error is [CodeNotFound] if the tool no longer exists; the model sees that.
	Find(ctx context.Context, scope ToolScope, name, handle string) (Tool, error)
}

// ToolScope is the tenant and the binding that a toolkit's tools are for.
type ToolScope struct {
	Tenant     string
	Binding    string
	Parameters json.RawMessage // of the binding, with defaults
	Auth       []PlanAuth
}

// ListedTool is a tool of a [DynamicToolkit].
type ListedTool struct {
	Spec   ToolSpec `json:"spec"`
	Handle string   `json:"handle,omitempty"` // passed to Find with the name, e.g. a version; at most 1 KiB
	Kind   string   `json:"kind,omitempty"`   // shown to users and used in searches: composite, mcp; empty: tool
}

// OutcomeUnknown is the type of a [Failure] of a call that may have taken effect and was not repeated.
const OutcomeUnknown = "outcome_unknown"
