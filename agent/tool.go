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

	Idempotent     bool `json:"idempotent,omitempty"`      // calling twice has the effect of calling once
	InherentlySafe bool `json:"inherently_safe,omitempty"` // never needs an approval, whatever the arguments
	ClientSide     bool `json:"client_side,omitempty"`     // runs at the caller; its result comes by "provide"
	ReadsDatasets  bool `json:"reads_datasets,omitempty"`  // takes references to datasets: the model is told which its session has
	RevealsTools   bool `json:"reveals_tools,omitempty"`   // its answers {"tools":[{"name":…}]} offer the model deferred tools of these names
}

// Tool is one callable. A tool that fails says so in its result, for the model to see and correct; an error means that the tool
// could not be reached, for the runtime to retry. Tools read no environment.
type Tool interface {
	Spec() ToolSpec
	Call(ctx context.Context, inv Invocation, call ToolCall) (ToolResult, error)
}

// EffectFree is implemented by a tool for which some calls have no side effects: such a call needs no approval, may be repeated,
// and may run as a local activity. Arguments that do not parse have no effects.
type EffectFree interface {
	EffectFree(args json.RawMessage) bool
}

// EffectChecker is implemented by a tool that has to read something, such as the document of an API, before it knows what a call does. The
// runtime asks it before a person is asked about a call that is not [EffectFree]. CheckEffects changes nothing and reports whether the
// call has no side effects; false when it cannot tell. A call that has none is made with [Invocation.Repeatable], and the tool refuses one
// that turns out to have some.
type EffectChecker interface {
	CheckEffects(ctx context.Context, inv Invocation, args json.RawMessage) (effectFree bool)
}

// Summarizer is implemented by a tool that can describe a call in a few words, e.g. "3 steps".
type Summarizer interface {
	Summarize(args json.RawMessage) string
}

// Configurable is implemented by a toolkit that takes parameters: a JSON Schema of an object, from which its node definition is made.
// A binding's parameters reach its tools as [Invocation.Parameters].
type Configurable interface {
	Properties() json.RawMessage
}

// Toolkit is a named set of tools.
type Toolkit interface {
	Name() string
	Tools() []Tool
}

// ToolCall is a model's request.
type ToolCall struct {
	ID   CallID          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// ToolResult is a tool's answer. Output is what the model sees and what is stored; when it exceeds the inline bound the runtime
// moves it to the blob store and shows the model Preview and a cas:// reference instead.
type ToolResult struct {
	Output  json.RawMessage // any JSON
	Data    json.RawMessage // the dataset within the output that becomes the turn's result data; may be nil
	Preview json.RawMessage // {type,row_count,sample} of Data; may be nil
	Failure *Failure        // set when the tool failed

	// Dataset is set by a tool that has stored its rows itself: Output is then small, names Dataset.Ref, and is not moved; Data may be nil.
	Dataset  *Dataset
	CacheHit bool // the answer is that of an earlier, equal call
}

// Delegator is implemented by a tool that can delegate a call to another agent: the runtime runs a turn of that agent as a child, and the result
// of the turn is the result of the call.
type Delegator interface {
	// Delegate returns the agent, one of delegates, and its message. ok is false for a call that the tool does itself. The model sees an
	// error as the result of the call.
	Delegate(args json.RawMessage, delegates []string) (r DelegateRequest, ok bool, err error)
}

// DelegateRequest is the turn of another agent that a call is delegated to.
type DelegateRequest struct {
	Agent   string
	Message string
	Limits  *Limits // nil: the rest of the parent turn's limits
}

// DynamicToolkit is implemented by a toolkit whose tools depend on the tenant and the binding, such as those of an MCP server or those that a
// tenant has created. The runtime calls List before a turn's first model call and uses the result until the turn ends: a change takes effect
// between turns. Tools lists the tools that every binding has.
type DynamicToolkit interface {
	Toolkit
	// List describes the tools that a binding has at present, besides Tools. After [CodeUnavailable] the turn runs without them.
	List(ctx context.Context, scope ToolScope) ([]ListedTool, error)
	// Find returns a tool that List has described, by its name and handle. [CodeNotFound] when it is gone: the model is told.
	Find(ctx context.Context, scope ToolScope, name, handle string) (Tool, error)
}

// ToolScope is for whom a toolkit is asked.
type ToolScope struct {
	Tenant     string
	Binding    string
	Parameters json.RawMessage // of the binding, with defaults
	Auth       []PlanAuth
}

// ListedTool is a tool of a [DynamicToolkit].
type ListedTool struct {
	Spec   ToolSpec `json:"spec"`
	Handle string   `json:"handle,omitempty"` // what Find needs besides the name, e.g. a version; at most 1 KiB
	Kind   string   `json:"kind,omitempty"`   // for people and searches: composite, mcp; empty: tool
}

// OutcomeUnknown is the type of a [Failure] of a call that may have taken effect and was not repeated.
const OutcomeUnknown = "outcome_unknown"
