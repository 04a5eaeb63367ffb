package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// DecodeArguments decodes the arguments of a call strictly. Arguments longer than maxBytes are [agent.CodeOverflow].
func DecodeArguments(args json.RawMessage, maxBytes int, v any) error {
	if len(args) > maxBytes {
		return agent.FieldErrorf(agent.CodeOverflow, "", "the arguments are %d bytes, at most %d", len(args), maxBytes)
	}
	return strictjson.Decode(args, v)
}

// InlineBytes returns the maximum length of an output that the model sees whole, in bytes.
func InlineBytes(inv agent.Invocation) int {
	const defaultBytes = 32 << 10
	if inv.InlineBytes > 0 {
		return inv.InlineBytes
	}
	return defaultBytes
}

// StatusText returns an HTTP status with its text, such as "404 Not Found".
func StatusText(status int) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", status, http.StatusText(status)))
}

// FailedResult returns the result of a call that failed, which the model sees as {"error": …}. It sets the name of the tool.
func FailedResult(toolName string, f *agent.Failure) (agent.ToolResult, error) {
	f.Tool = toolName
	out, err := EncodeJSON(map[string]*agent.Failure{"error": f})
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call "+toolName, "encode failure: %w", err)
	}
	return agent.ToolResult{Output: out, Failure: f}, nil
}

// EncodeJSON encodes a value as [json.Marshal] does, but does not escape <, > and &, which would cost a model tokens.
func EncodeJSON(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
