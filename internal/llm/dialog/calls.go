package dialog

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// NoArguments are the arguments of a call that has none.
const NoArguments = "{}"

// Call makes the block of a tool call that has fully arrived. Empty arguments become {}. A call without a name, or with arguments
// that are not a JSON object, becomes an invalid_tool_call that keeps the raw text as a JSON string. A call without an id, which
// some local servers send, gets one.
func Call(id, name, raw string) agent.Block {
	if id == "" {
		id = "call_" + rand.Text()
	}
	if text := strings.TrimSpace(raw); text == "" || text == "null" {
		raw = NoArguments
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

// rawArguments returns the arguments of a tool_call or invalid_tool_call block as the text that the model wrote.
func rawArguments(b *agent.Block) string {
	if b.Type == agent.BlockInvalidToolCall {
		var text string
		if json.Unmarshal(b.Args, &text) == nil {
			return text
		}
	}
	if len(b.Args) == 0 {
		return NoArguments
	}
	return string(b.Args)
}

// Arguments returns the arguments of a tool_call or invalid_tool_call block as the JSON object that most providers insist on; those
// of an invalid call are wrapped as {"invalid_json": "…"}, so that the model sees what it wrote.
func Arguments(b *agent.Block) json.RawMessage {
	raw := rawArguments(b)
	if checkArguments(raw) == nil {
		return json.RawMessage(raw)
	}
	wrapped, _ := json.Marshal(map[string]string{"invalid_json": raw}) // strings always marshal
	return wrapped
}

// ResultText returns what the model sees of a tool_result block: a JSON string as its text, other JSON compact, the reference where
// the output is elsewhere.
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

// ResultTextMarked is ResultText for providers whose results have no flag for failure.
func ResultTextMarked(b *agent.Block) string {
	if b.Status == agent.ResultError {
		return "Error: " + ResultText(b)
	}
	return ResultText(b)
}
