package openai

import (
	"fmt"

	sdk "github.com/openai/openai-go/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// messages projects the conversation. What the server cannot take becomes a note; the error is that of an unknown role.
func (m *model) messages(req agent.ModelRequest) ([]sdk.ChatCompletionMessageParamUnion, error) {
	var out []sdk.ChatCompletionMessageParamUnion
	if system := req.SystemPrompt(); system != "" {
		out = append(out, sdk.SystemMessage(system))
	}
	for i, msg := range wire.PairResults(req.Messages) {
		switch msg.Role {
		case agent.RoleSystem:
			out = append(out, sdk.SystemMessage(wire.PlainText(msg.Blocks, wire.CannotCarry)))
		case agent.RoleUser:
			if parts := m.userParts(msg.Blocks); len(parts) > 0 {
				out = append(out, userMessage(parts))
			}
		case agent.RoleAssistant:
			if a, ok := assistantMessage(msg.Blocks); ok {
				out = append(out, sdk.ChatCompletionMessageParamUnion{OfAssistant: &a})
			}
		case agent.RoleTool:
			for j := range msg.Blocks {
				out = append(out, sdk.ToolMessage(wire.ResultTextMarked(&msg.Blocks[j]), string(msg.Blocks[j].ToolCallID)))
			}
		default:
			return nil, agent.Invalid(fmt.Sprintf("messages[%d].role", i), "unknown role %q", msg.Role)
		}
	}
	return out, nil
}

// userMessage uses the plain form for plain text: many compatible servers know no other.
func userMessage(parts []part) sdk.ChatCompletionMessageParamUnion {
	if len(parts) == 1 && parts[0].OfText != nil {
		return sdk.UserMessage(parts[0].OfText.Text)
	}
	return sdk.UserMessage(parts)
}

// assistantMessage is false for a message of which the API takes nothing.
func assistantMessage(blocks []agent.Block) (sdk.ChatCompletionAssistantMessageParam, bool) {
	var m sdk.ChatCompletionAssistantMessageParam
	if text := wire.PlainText(blocks, wire.CannotCarry); text != "" {
		m.Content.OfString = sdk.String(text)
	}
	for i := range blocks {
		b := &blocks[i]
		if !wire.IsToolCall(b) {
			continue
		}
		m.ToolCalls = append(m.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       b.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: b.Name, Arguments: string(wire.ToolArguments(b))},
			},
		})
	}
	return m, m.Content.OfString.Valid() || len(m.ToolCalls) > 0
}
