package openai

import (
	"fmt"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// messages projects the conversation. What the server cannot take becomes a note; the error is that of an unknown role.
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
			if a, ok := assistantMessage(msg.Blocks); ok {
				out = append(out, a)
			}
		case agent.RoleTool:
			for j := range msg.Blocks {
				out = append(out, message{Role: "tool", Content: wire.ResultTextMarked(&msg.Blocks[j]), ToolCallID: string(msg.Blocks[j].ToolCallID)})
			}
		default:
			return nil, agent.Invalid(fmt.Sprintf("messages[%d].role", i), "unknown role %q", msg.Role)
		}
	}
	return out, nil
}

// userMessage uses the plain form for plain text: many compatible servers know no other.
func userMessage(parts []part) message {
	if len(parts) == 1 && parts[0].Type == "text" {
		return message{Role: "user", Content: *parts[0].Text}
	}
	return message{Role: "user", Content: parts}
}

// assistantMessage is false for a message of which the API takes nothing.
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
