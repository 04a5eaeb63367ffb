package tool

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
)

// FailedResult returns the result of a call that failed, which the model sees as {"error": …}. It sets the name of the tool.
func FailedResult(toolName string, f *agent.Failure) (agent.ToolResult, error) {
	f.Tool = toolName
	out, err := EncodeJSON(map[string]*agent.Failure{"error": f})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+toolName, "encode failure: %w", err)
	}
	return agent.ToolResult{Output: out, Failure: f}, nil
}

// EncodeJSON is [json.Marshal] without the escapes of <, > and &, which are for web pages and only cost a model tokens.
func EncodeJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
