package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// readMessages turns the conversation into ours. Messages without content are left out, as the API takes them, except the user's.
func (q *request) readMessages(o object) {
	list := member[[]json.RawMessage](o, "messages")
	if len(list) == 0 {
		o.refuse("messages", "is empty: want at least one message")
	}
	read := conversation{called: map[string]string{}}
	for i, raw := range list {
		read.add(o.within(fmt.Sprintf("messages[%d]", i), raw))
	}
	if len(read.messages) == 0 {
		o.refuse("messages", "have no content")
	}
	q.turn.Messages, q.resumed = read.messages, resumptionOf(read.results)
}

// conversation is what has been read of the messages.
type conversation struct {
	messages []agent.Message
	called   map[string]string // tool by call id
	results  []toolResult      // at the end of the conversation
}

func (c *conversation) add(o object) {
	role := member[string](o, "role")
	if role != "tool" {
		c.results = nil
	}
	m := agent.Message{}
	switch role {
	case "system", "developer":
		m.Role, m.Blocks = agent.RoleSystem, textContent(o)
	case "user":
		if m.Role, m.Blocks = agent.RoleUser, userContent(o); len(m.Blocks) == 0 {
			o.refuse("content", "is empty")
		}
	case "assistant":
		m.Role, m.Blocks = agent.RoleAssistant, c.assistant(o)
	case "tool":
		m.Role, m.Blocks = agent.RoleTool, c.toolResult(o)
	default:
		o.refuse("role", "want system, developer, user, assistant or tool, got %.60q", role)
	}
	if len(m.Blocks) > 0 {
		c.messages = append(c.messages, m)
	}
}

// assistant reads what the agent, or another model, had said.
func (c *conversation) assistant(o object) []agent.Block {
	blocks := appendText(textContent(o), member[string](o, "refusal"))
	for i, raw := range member[[]json.RawMessage](o, "tool_calls") {
		blocks = append(blocks, c.call(o.within(fmt.Sprintf("%s[%d]", o.at("tool_calls"), i), raw)))
	}
	return blocks
}

// call reads a tool call of the past.
func (c *conversation) call(o object) agent.Block {
	id, function := member[string](o, "id"), o.object("function")
	name := member[string](function, "name")
	switch {
	case id == "":
		o.refuse("id", "is empty")
	case name == "":
		function.refuse("name", "is empty")
	}
	c.called[id] = name
	return agent.Block{Type: agent.BlockToolCall, ID: historyID(id), Name: name, Args: argsOf(member[string](function, "arguments"))}
}

// argsOf is the JSON object of a call's arguments. A model may have written something else: that is history, and is kept as it was.
func argsOf(arguments string) json.RawMessage {
	if strings.TrimSpace(arguments) == "" {
		return json.RawMessage(`{}`)
	}
	var members map[string]json.RawMessage
	if err := strictjson.Decode([]byte(arguments), &members); err == nil && members != nil {
		return json.RawMessage(arguments)
	}
	return json.RawMessage(`{"arguments":` + string(jsonString(arguments)) + `}`)
}

// jsonString returns text as JSON.
func jsonString(text string) json.RawMessage {
	raw, err := json.Marshal(text)
	if err != nil {
		return json.RawMessage(`""`) // no string fails
	}
	return raw
}

func (c *conversation) toolResult(o object) []agent.Block {
	id := member[string](o, "tool_call_id")
	name, known := c.called[id]
	if !known {
		o.refuse("tool_call_id", "answers no tool call of an assistant message before it")
	}
	text := agent.Normalize(textContent(o))
	c.results = append(c.results, toolResult{id, text})
	return []agent.Block{{
		Type: agent.BlockToolResult, ToolCallID: agent.CallID(historyID(id)), Name: name, Status: agent.ResultSuccess, Output: jsonString(text),
	}}
}

// appendText appends a text block; there is none without text.
func appendText(blocks []agent.Block, text string) []agent.Block {
	if strings.TrimSpace(text) == "" {
		return blocks
	}
	return append(blocks, agent.Text(text))
}

// textContent reads content that can only be text: a string, parts, or null.
func textContent(o object) []agent.Block {
	return content(o, func(part object, kind string) agent.Block {
		part.refuse("type", "want text, got %.60q", kind)
		return agent.Block{}
	})
}

// content reads content; text is read here, any other part by other.
func content(o object, other func(part object, kind string) agent.Block) (blocks []agent.Block) {
	raw := o.members["content"]
	switch {
	case o.absent("content"):
		return nil
	case raw[0] == '"':
		return appendText(nil, member[string](o, "content"))
	case raw[0] != '[':
		o.refuse("content", "want a string or an array of parts")
		return nil
	}
	for i, raw := range member[[]json.RawMessage](o, "content") {
		part := o.within(fmt.Sprintf("%s[%d]", o.at("content"), i), raw)
		switch kind := member[string](part, "type"); kind {
		case "text", "refusal":
			blocks = appendText(blocks, member[string](part, kind))
		default:
			blocks = append(blocks, other(part, kind))
		}
	}
	return blocks
}
