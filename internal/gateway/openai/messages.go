package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/strictjson"
)

// readMessages reads the conversation. Messages without content are dropped, because the API accepts them, except that a user's message needs content.
func (q *request) readMessages(o object) {
	list := member[[]json.RawMessage](o, "messages")
	if len(list) == 0 {
		o.refuse("messages", "is empty: want at least one message")
	}
	c := conversation{tools: map[string]string{}}
	for i, raw := range list {
		c.add(o.within(fmt.Sprintf("messages[%d]", i), raw))
	}
	if len(c.messages) == 0 {
		o.refuse("messages", "have no content")
	}
	q.turn.Messages, q.resumed = c.messages, resumptionOf(c.results)
}

// conversation collects the messages of a request.
type conversation struct {
	messages []agent.Message
	tools    map[string]string // names of the tools that were called, by call id
	results  []toolResult      // the tool messages at the end of the conversation
}

// add reads the next message.
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

// assistant reads an assistant message: its text and tool calls.
func (c *conversation) assistant(o object) []agent.Block {
	blocks := appendText(textContent(o), member[string](o, "refusal"))
	for i, raw := range member[[]json.RawMessage](o, "tool_calls") {
		blocks = append(blocks, c.toolCall(o.within(fmt.Sprintf("%s[%d]", o.memberPath("tool_calls"), i), raw)))
	}
	return blocks
}

// toolCall reads a tool call of an assistant message.
func (c *conversation) toolCall(o object) agent.Block {
	id, function := member[string](o, "id"), o.object("function")
	name := member[string](function, "name")
	switch {
	case id == "":
		o.refuse("id", "is empty")
	case name == "":
		function.refuse("name", "is empty")
	}
	c.tools[id] = name
	return agent.Block{Type: agent.BlockToolCall, ID: historyID(id), Name: name, Args: argsOf(member[string](function, "arguments"))}
}

// argsOf returns a call's arguments as a JSON object. Text of a model that is not an object becomes the member "arguments" of one.
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

// toolResult reads a tool message, which must follow the call that it answers.
func (c *conversation) toolResult(o object) []agent.Block {
	id := member[string](o, "tool_call_id")
	name, ok := c.tools[id]
	if !ok {
		o.refuse("tool_call_id", "answers no tool call of an assistant message before it")
	}
	text := agent.Normalize(textContent(o))
	c.results = append(c.results, toolResult{id, text})
	return []agent.Block{{
		Type: agent.BlockToolResult, ToolCallID: agent.CallID(historyID(id)), Name: name, Status: agent.ResultSuccess, Output: jsonString(text),
	}}
}

// appendText appends a text block unless the text is blank.
func appendText(blocks []agent.Block, text string) []agent.Block {
	if strings.TrimSpace(text) == "" {
		return blocks
	}
	return append(blocks, agent.Text(text))
}

// textContent reads content that must be text: a string, an array of text parts, or null.
func textContent(o object) []agent.Block {
	return content(o, func(part object, kind string) agent.Block {
		part.refuse("type", "want text, got %.60q", kind)
		return agent.Block{}
	})
}

// content reads content: a string, an array of parts, or null. readPart reads the parts that are not text.
func content(o object, readPart func(part object, kind string) agent.Block) (blocks []agent.Block) {
	raw := o.members["content"]
	switch {
	case o.isAbsent("content"):
		return nil
	case raw[0] == '"':
		return appendText(nil, member[string](o, "content"))
	case raw[0] != '[':
		o.refuse("content", "want a string or an array of parts")
		return nil
	}
	for i, raw := range member[[]json.RawMessage](o, "content") {
		part := o.within(fmt.Sprintf("%s[%d]", o.memberPath("content"), i), raw)
		switch kind := member[string](part, "type"); kind {
		case "text", "refusal":
			blocks = appendText(blocks, member[string](part, kind))
		default:
			blocks = append(blocks, readPart(part, kind))
		}
	}
	return blocks
}
