package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// readMessages turns the conversation into ours. Messages without content are left out, as the API takes them, except the user's.
func (q *request) readMessages(o object) error {
	list, err := member[[]json.RawMessage](o, "messages")
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return agent.Invalid("messages", "is empty: want at least one message")
	}
	read := conversation{called: map[string]string{}}
	for i, raw := range list {
		if err := read.add(fmt.Sprintf("messages[%d]", i), raw); err != nil {
			return err
		}
	}
	if len(read.messages) == 0 {
		return agent.Invalid("messages", "have no content")
	}
	q.turn.Messages, q.resumed = read.messages, resumptionOf(read.results)
	return nil
}

// conversation is what has been read of the messages.
type conversation struct {
	messages []agent.Message
	called   map[string]string // tool by call id
	results  []toolResult      // at the end of the conversation
}

func (c *conversation) add(path string, raw json.RawMessage) error {
	o, err := objectOf(path, raw)
	if err != nil {
		return err
	}
	role, err := member[string](o, "role")
	if err != nil {
		return err
	}
	if role != "tool" {
		c.results = nil
	}
	m := agent.Message{}
	switch role {
	case "system", "developer":
		m.Role = agent.RoleSystem
		m.Blocks, err = textContent(o)
	case "user":
		m.Role = agent.RoleUser
		if m.Blocks, err = userContent(o); err == nil && len(m.Blocks) == 0 {
			err = agent.Invalid(o.at("content"), "is empty")
		}
	case "assistant":
		m.Role = agent.RoleAssistant
		m.Blocks, err = c.assistant(o)
	case "tool":
		m.Role = agent.RoleTool
		m.Blocks, err = c.toolResult(o)
	default:
		return agent.Invalid(o.at("role"), "want system, developer, user, assistant or tool, got %.60q", role)
	}
	if err == nil && len(m.Blocks) > 0 {
		c.messages = append(c.messages, m)
	}
	return err
}

// assistant reads what the agent, or another model, had said.
func (c *conversation) assistant(o object) ([]agent.Block, error) {
	blocks, err := textContent(o)
	if err != nil {
		return nil, err
	}
	refusal, err := member[string](o, "refusal")
	if err != nil {
		return nil, err
	}
	blocks = appendText(blocks, refusal)
	calls, err := member[[]json.RawMessage](o, "tool_calls")
	if err != nil {
		return nil, err
	}
	for i, raw := range calls {
		b, err := c.call(fmt.Sprintf("%s[%d]", o.at("tool_calls"), i), raw)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// call reads a tool call of the past.
func (c *conversation) call(path string, raw json.RawMessage) (b agent.Block, err error) {
	o, err := objectOf(path, raw)
	if err != nil {
		return b, err
	}
	b.Type = agent.BlockToolCall
	if b.ID, err = member[string](o, "id"); err != nil {
		return b, err
	}
	function, err := o.object("function")
	if err != nil {
		return b, err
	}
	if b.Name, err = member[string](function, "name"); err != nil {
		return b, err
	}
	switch {
	case b.ID == "":
		return b, agent.Invalid(o.at("id"), "is empty")
	case b.Name == "":
		return b, agent.Invalid(function.at("name"), "is empty")
	}
	arguments, err := member[string](function, "arguments")
	if err != nil {
		return b, err
	}
	c.called[b.ID] = b.Name
	b.Args, b.ID = argsOf(arguments), historyID(b.ID)
	return b, nil
}

// argsOf is the JSON object of a call's arguments. A model may have written something else: that is history, and is kept as it was.
func argsOf(arguments string) json.RawMessage {
	if strings.TrimSpace(arguments) == "" {
		return json.RawMessage(`{}`)
	}
	if o, err := objectOf("", json.RawMessage(arguments)); err == nil && o.members != nil {
		return json.RawMessage(arguments)
	}
	raw, err := json.Marshal(map[string]string{"arguments": arguments})
	if err != nil {
		return json.RawMessage(`{}`) // no string fails
	}
	return raw
}

func (c *conversation) toolResult(o object) ([]agent.Block, error) {
	id, err := member[string](o, "tool_call_id")
	if err != nil {
		return nil, err
	}
	name, known := c.called[id]
	if !known {
		return nil, agent.Invalid(o.at("tool_call_id"), "answers no tool call of an assistant message before it")
	}
	blocks, err := textContent(o)
	if err != nil {
		return nil, err
	}
	text := agent.Normalize(blocks)
	output, err := json.Marshal(text)
	if err != nil {
		return nil, agent.Invalid(o.at("content"), "%w", err)
	}
	c.results = append(c.results, toolResult{id, text})
	return []agent.Block{{
		Type: agent.BlockToolResult, ToolCallID: agent.CallID(historyID(id)), Name: name, Status: agent.ResultSuccess, Output: output,
	}}, nil
}

// appendText appends a text block; there is none without text.
func appendText(blocks []agent.Block, text string) []agent.Block {
	if strings.TrimSpace(text) == "" {
		return blocks
	}
	return append(blocks, agent.Text(text))
}

// textContent reads content that can only be text: a string, parts, or null.
func textContent(o object) ([]agent.Block, error) {
	return content(o, func(part object, kind string) (agent.Block, error) {
		return agent.Block{}, agent.Invalid(part.at("type"), "want text, got %.60q", kind)
	})
}

// content reads content; text is read here, any other part by other.
func content(o object, other func(part object, kind string) (agent.Block, error)) ([]agent.Block, error) {
	raw := o.members["content"]
	if len(raw) > 0 && raw[0] == '"' {
		text, err := member[string](o, "content")
		return appendText(nil, text), err
	}
	if len(raw) > 0 && raw[0] != '[' && !o.absent("content") {
		return nil, agent.Invalid(o.at("content"), "want a string or an array of parts")
	}
	parts, err := member[[]json.RawMessage](o, "content")
	if err != nil {
		return nil, err
	}
	var blocks []agent.Block
	for i, raw := range parts {
		part, err := objectOf(fmt.Sprintf("%s[%d]", o.at("content"), i), raw)
		if err != nil {
			return nil, err
		}
		kind, err := member[string](part, "type")
		if err != nil {
			return nil, err
		}
		if kind == "text" || kind == "refusal" {
			text, err := member[string](part, kind)
			if err != nil {
				return nil, err
			}
			blocks = appendText(blocks, text)
			continue
		}
		b, err := other(part, kind)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}
