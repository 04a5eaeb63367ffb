package openai

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// messages returns the messages of a request. Blocks that the server does not take become notes. The error is for an unknown role.
func (m *model) messages(req agent.ModelRequest) ([]message, error) {
	var out []message
	if system := req.SystemPrompt(); system != "" {
		out = append(out, message{Role: "system", Content: system})
	}
	for i, msg := range wire.PairResults(req.Messages) {
		switch msg.Role {
		case agent.RoleSystem:
			out = append(out, message{Role: "system", Content: wire.PlainText(msg.Blocks, wire.CannotCarry)})
		case agent.RoleUser:
			if parts := m.userParts(msg.Blocks); len(parts) > 0 {
				out = append(out, userMessage(parts))
			}
		case agent.RoleAssistant:
			if m, ok := assistantMessage(msg.Blocks); ok {
				out = append(out, m)
			}
		case agent.RoleTool:
			for j := range msg.Blocks {
				b := &msg.Blocks[j]
				out = append(out, message{Role: "tool", Content: wire.ResultTextMarked(b), ToolCallID: string(b.ToolCallID)})
			}
		default:
			return nil, agent.Invalid(fmt.Sprintf("messages[%d].role", i), "unknown role %q", msg.Role)
		}
	}
	return out, nil
}

// userMessage returns a user's message. A single text is sent as a string, because many compatible servers take no list of parts.
func userMessage(parts []part) message {
	if len(parts) == 1 && parts[0].Type == "text" {
		return message{Role: "user", Content: *parts[0].Text}
	}
	return message{Role: "user", Content: parts}
}

// assistantMessage returns an assistant's message, false if nothing of it can be sent.
func assistantMessage(blocks []agent.Block) (message, bool) {
	m := message{Role: "assistant"}
	text := wire.PlainText(blocks, wire.CannotCarry)
	if text != "" {
		m.Content = text
	}
	for i := range blocks {
		b := &blocks[i]
		if !wire.IsToolCall(b) {
			continue
		}
		call := functionCall{ID: b.ID, Type: "function"}
		call.Function.Name, call.Function.Arguments = b.Name, string(wire.ToolArguments(b))
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return m, text != "" || len(m.ToolCalls) > 0
}
