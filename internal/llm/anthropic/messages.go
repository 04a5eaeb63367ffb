package anthropic

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// conversation returns the system prompt and the messages of a request. Tool results are content of the user. Consecutive messages of one role become
// one message, because the API requires the results of parallel calls in one message. Blocks that the API does not take become notes. The error is
// for an unknown role.
func conversation(req agent.ModelRequest) (system []content, messages []message, err error) {
	for _, text := range []string{req.System, req.About} {
		if text != "" {
			system = append(system, textBlock(text))
		}
	}
	for i, m := range wire.PairResults(req.Messages) {
		role := "user"
		var blocks []content
		switch m.Role {
		case agent.RoleSystem:
			if text := wire.PlainText(m.Blocks, wire.CannotCarry); text != "" {
				system = append(system, textBlock(text))
			}
			continue
		case agent.RoleUser:
			blocks = userContent(m.Blocks)
		case agent.RoleAssistant:
			role, blocks = "assistant", assistantContent(m.Blocks)
		case agent.RoleTool:
			for j := range m.Blocks {
				blocks = append(blocks, resultBlock(&m.Blocks[j]))
			}
		default:
			return nil, nil, agent.Invalid(fmt.Sprintf("messages[%d].role", i), "unknown role %q", m.Role)
		}
		switch last := len(messages) - 1; {
		case len(blocks) == 0:
		case last >= 0 && messages[last].Role == role:
			messages[last].Content = append(messages[last].Content, blocks...)
		default:
			messages = append(messages, message{Role: role, Content: blocks})
		}
	}
	return system, messages, nil
}

func userContent(blocks []agent.Block) []content {
	var out []content
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.Type == agent.BlockText:
			out = appendText(out, b)
		case wire.IsReasoning(b):
		default:
			block, omission := mediaBlock(b)
			if omission != "" {
				block = textBlock(wire.OmissionNote(b, omission))
			}
			out = append(out, block)
		}
	}
	return out
}

// appendText appends a text, unless it is only white space, which the API refuses.
func appendText(out []content, b *agent.Block) []content {
	if strings.TrimSpace(b.Text) == "" {
		return out
	}
	return append(out, citedText(b))
}

// assistantContent returns the blocks of a reply in the form of the API. Thinking without a signature is left out, because it is from another provider.
func assistantContent(blocks []agent.Block) []content {
	var out []content
	serverCalls := sendableServerCalls(blocks)
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.Type == agent.BlockText:
			out = appendText(out, b)
		case b.Type == agent.BlockReasoning && b.Signature != "":
			out = append(out, content{Type: "thinking", Thinking: &b.Reasoning, Signature: b.Signature})
		case wire.IsReasoning(b):
			if data := redactedData(b); data != "" {
				out = append(out, content{Type: wire.RedactedThinking, Data: data})
			}
		case wire.IsToolCall(b):
			out = append(out, content{Type: "tool_use", ID: callID(b.ID), Name: b.Name, Input: wire.ToolArguments(b)})
		case serverCalls[serverCallID(b)]:
			if block, ok := serverBlock(b); ok {
				out = append(out, block)
			}
		default:
			out = append(out, textBlock(wire.OmissionNote(b, wire.CannotCarry)))
		}
	}
	return out
}

func resultBlock(b *agent.Block) content {
	result := content{Type: "tool_result", ToolUseID: callID(string(b.ToolCallID)), IsError: b.Status == agent.ResultError}
	if text := wire.ResultText(b); strings.TrimSpace(text) != "" {
		result.Content = []content{textBlock(text)}
	}
	return result
}

var invalidInCallID = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// callID returns an id in the pattern that the API requires. Ids from the API stay unchanged.
func callID(id string) string { return invalidInCallID.ReplaceAllString(id, "_") }
