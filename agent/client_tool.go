package agent

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// WaitKind says what a turn waits for. Empty means an approval.
type WaitKind string

// WaitClientTool means the result of a client-side tool, which the caller provides.
const WaitClientTool WaitKind = "client_tool"

// ClientToolFailed is the type of a [Failure] of a client-side tool: the caller provided an error, or no result in time.
const ClientToolFailed = "client_tool_failed"

// DefaultClientToolWait is the default of [ClientTool].ExpiresSec.
const DefaultClientToolWait = 3600

// Bounds of the client-side tools of a request or a binding.
const (
	MaxClientTools      = 128
	MaxClientToolBytes  = 256 << 10 // of all their descriptions and schemas
	MaxClientToolWait   = 366 * 24 * 3600
	maxClientToolNote   = 16 << 10
	clientToolNameRules = "want 1 to 64 of A-Z a-z 0-9 _ -"
)

var clientToolName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ClientTool is a tool that runs at the caller. Its call makes the turn wait until the result is provided or the wait expires.
type ClientTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"` // JSON Schema of an object; empty: no arguments
	Strict      bool            `json:"strict,omitempty"`
	ExpiresSec  int64           `json:"expires_sec,omitempty"` // how long the turn waits for a result; 0: [DefaultClientToolWait]
}

// ValidateClientTools checks tools except for the content of their schemas. The Field of its error begins with path.
func ValidateClientTools(path string, tools []ClientTool) error {
	if len(tools) > MaxClientTools {
		return Invalid(path, "are %d tools, at most %d", len(tools), MaxClientTools)
	}
	size := 0
	names := make(map[string]bool, len(tools))
	for i := range tools {
		t, toolPath := &tools[i], fmt.Sprintf("%s[%d]", path, i)
		dropNull(&t.Parameters)
		switch {
		case !clientToolName.MatchString(t.Name):
			return Invalid(toolPath+".name", clientToolNameRules)
		case names[t.Name]:
			return Invalid(toolPath+".name", "%q is given twice", t.Name)
		case len(t.Description) > maxClientToolNote:
			return Invalid(toolPath+".description", "is %d bytes, at most %d", len(t.Description), maxClientToolNote)
		case t.ExpiresSec < 0 || t.ExpiresSec > MaxClientToolWait:
			return Invalid(toolPath+".expires_sec", "is %d, want 1 to %d", t.ExpiresSec, MaxClientToolWait)
		}
		names[t.Name] = true
		size += len(t.Description) + len(t.Parameters)
	}
	if size > MaxClientToolBytes {
		return FieldErrorf(CodeOverflow, path, "have %d bytes of descriptions and schemas, at most %d", size, MaxClientToolBytes)
	}
	return nil
}

// Granted returns the tool as a [PlanTool] that binding has granted.
func (t *ClientTool) Granted(binding string) PlanTool {
	spec := ToolSpec{Name: t.Name, Description: t.Description, Parameters: t.Parameters, Strict: t.Strict, ClientSide: true}
	if len(spec.Parameters) == 0 {
		spec.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	expires := t.ExpiresSec
	if expires == 0 {
		expires = DefaultClientToolWait
	}
	return PlanTool{Spec: spec, Binding: binding, SourceNodeName: binding, IsFromToolkit: true, ExpiresSec: expires}
}

// ProvidedResult is the result of a client-side tool, the input of the update and the signal "provide". Exactly one of Result and Error is
// given.
type ProvidedResult struct {
	ToolCallID CallID          `json:"tool_call_id"`     // or the approval ID, if the turn waits for several calls with the same ID
	Result     json.RawMessage `json:"result,omitempty"` // any JSON
	Error      string          `json:"error,omitempty"`  // an error message for the model
}

// Empty reports whether neither a result nor an error is given.
func (r *ProvidedResult) Empty() bool { return len(r.Result) == 0 && r.Error == "" }

// Validate checks the result.
func (r *ProvidedResult) Validate() error {
	if err := r.Check(); err != nil {
		return err
	}
	if r.Empty() {
		return Invalid("result", "give result or error")
	}
	return nil
}

// Check is Validate for a workflow. It accepts a missing result and error, which mean that the result is already stored.
func (r *ProvidedResult) Check() error {
	if r.Error != "" {
		dropNull(&r.Result)
	}
	switch size := len(r.Result) + len(r.Error); {
	case r.ToolCallID == "":
		return Invalid("tool_call_id", "is empty")
	case len(r.ToolCallID) > 512:
		return Invalid("tool_call_id", "is %d bytes, at most 512", len(r.ToolCallID))
	case len(r.Result) > 0 && r.Error != "":
		return Invalid("error", "give result or error, not both")
	case size > MaxDecision:
		return FieldErrorf(CodeOverflow, "result", "is %d bytes, at most %d: store it elsewhere and provide a reference", size, MaxDecision)
	}
	return nil
}
