package wire

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

const emptyArguments = "{}"

// ToolCall returns the block of a complete tool call. Empty arguments become {}. If the call has no name, or its arguments are not a JSON object, it
// becomes an invalid_tool_call with the arguments as a JSON string. A call without an id gets one, because some local servers send none.
func ToolCall(id, name, raw string) agent.Block {
	if id == "" {
		id = "call_" + rand.Text()
	}
	if text := strings.TrimSpace(raw); text == "" || text == "null" {
		raw = emptyArguments
	}
	err := checkArguments(raw)
	if name == "" {
		err = errors.New("the call names no tool")
	}
	if err != nil {
		text, _ := json.Marshal(raw) // a string always marshals
		return agent.Block{Type: agent.BlockInvalidToolCall, ID: id, Name: name, Args: text, Error: err.Error()}
	}
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: name, Args: json.RawMessage(raw)}
}

func checkArguments(raw string) error {
	if !json.Valid([]byte(raw)) {
		return errors.New("the arguments are not valid JSON")
	}
	if !strings.HasPrefix(strings.TrimSpace(raw), "{") {
		return errors.New("the arguments are not a JSON object")
	}
	return nil
}

// rawArguments returns the arguments of a tool_call or invalid_tool_call block in the model's words.
func rawArguments(b *agent.Block) string {
	if b.Type == agent.BlockInvalidToolCall {
		var text string
		if json.Unmarshal(b.Args, &text) == nil {
			return text
		}
	}
	if len(b.Args) == 0 {
		return emptyArguments
	}
	return string(b.Args)
}

// ToolArguments returns the arguments of a tool_call or invalid_tool_call block as a JSON object, which most providers require. Invalid arguments
// become {"invalid_json": "…"}, so that the model sees what it wrote.
func ToolArguments(b *agent.Block) json.RawMessage {
	raw := rawArguments(b)
	if checkArguments(raw) == nil {
		return json.RawMessage(raw)
	}
	wrapped, _ := json.Marshal(map[string]string{"invalid_json": raw}) // strings always marshal
	return wrapped
}

// ResultText returns the text of a tool_result block for the model: the value of a JSON string, other JSON without white space, or the reference
// if the output is stored elsewhere.
func ResultText(b *agent.Block) string {
	out := bytes.TrimSpace(b.Output)
	if len(out) == 0 || bytes.Equal(out, []byte("null")) {
		return b.Ref
	}
	var text string
	if out[0] == '"' && json.Unmarshal(out, &text) == nil {
		return text
	}
	var compact bytes.Buffer
	if json.Compact(&compact, out) != nil {
		return string(out)
	}
	return compact.String()
}

// ResultTextMarked returns [ResultText] with "Error: " before it for a failure, for providers whose results have no status.
func ResultTextMarked(b *agent.Block) string {
	if b.Status == agent.ResultError {
		return "Error: " + ResultText(b)
	}
	return ResultText(b)
}
