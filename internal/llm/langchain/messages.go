package langchain

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tmc/langchaingo/llms"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// messages returns the messages of a request as langchaingo's. The package comment lists what is left out. Other blocks that langchaingo does not take
// become notes. The error is for an unknown role.
func (t traits) messages(req agent.ModelRequest) ([]llms.MessageContent, error) {
	var out []llms.MessageContent
	if system := req.SystemPrompt(); system != "" {
		out = append(out, llms.TextParts(llms.ChatMessageTypeSystem, system))
	}
	for _, m := range wire.PairResults(req.Messages) {
		role, err := roleOf(m.Role)
		if err != nil {
			return nil, err
		}
		parts := t.partsOf(m)
		if t.oneText {
			parts = joinText(parts)
		}
		switch {
		case len(parts) == 0:
		case role == llms.ChatMessageTypeTool, t.onePart && role == llms.ChatMessageTypeAI:
			for _, p := range parts { // only the first part of such a message is read
				out = append(out, llms.MessageContent{Role: role, Parts: []llms.ContentPart{p}})
			}
		default:
			out = append(out, llms.MessageContent{Role: role, Parts: parts})
		}
	}
	return out, nil
}

func roleOf(r agent.Role) (llms.ChatMessageType, error) {
	switch r {
	case agent.RoleSystem:
		return llms.ChatMessageTypeSystem, nil
	case agent.RoleUser:
		return llms.ChatMessageTypeHuman, nil
	case agent.RoleAssistant:
		return llms.ChatMessageTypeAI, nil
	case agent.RoleTool:
		return llms.ChatMessageTypeTool, nil
	default:
		return "", agent.Invalid("role", "unknown role %q", r)
	}
}

func (t traits) partsOf(m agent.Message) []llms.ContentPart {
	var parts []llms.ContentPart
	for i := range m.Blocks {
		b := &m.Blocks[i]
		switch {
		case b.Type == agent.BlockText:
			if strings.TrimSpace(b.Text) != "" {
				parts = append(parts, llms.TextPart(b.Text))
			}
		case m.Role == agent.RoleUser && b.Type == agent.BlockImage && b.URL != "" && !t.noImageURL:
			parts = append(parts, llms.ImageURLPart(b.URL))
		case m.Role == agent.RoleUser && b.Type == agent.BlockImage && b.Base64 != "":
			data, omission := wire.DecodeBase64(b)
			if omission != "" {
				parts = append(parts, llms.TextPart(wire.OmissionNote(b, omission)))
				continue
			}
			parts = append(parts, llms.BinaryPart(b.MIMEType, data))
		case wire.IsToolCall(b):
			parts = append(parts, llms.ToolCall{
				ID: b.ID, Type: "function",
				FunctionCall: &llms.FunctionCall{Name: b.Name, Arguments: string(wire.ToolArguments(b))},
			})
		case b.Type == agent.BlockToolResult:
			parts = append(parts, llms.ToolCallResponse{
				ToolCallID: string(b.ToolCallID), Name: b.Name, Content: wire.ResultTextMarked(b),
			})
		case wire.IsReasoning(b):
		default:
			parts = append(parts, llms.TextPart(wire.OmissionNote(b, "langchaingo cannot carry it")))
		}
	}
	return parts
}

// joinText returns the parts of a message with all texts in the first text part.
func joinText(parts []llms.ContentPart) []llms.ContentPart {
	var joined []llms.ContentPart
	first := -1
	for _, p := range parts {
		text, ok := p.(llms.TextContent)
		switch {
		case ok && first < 0:
			first = len(joined)
			joined = append(joined, p)
		case ok:
			head, _ := joined[first].(llms.TextContent)
			joined[first] = llms.TextPart(head.Text + "\n" + text.Text)
		default:
			joined = append(joined, p)
		}
	}
	return joined
}

func callOptions(req agent.ModelRequest) ([]llms.CallOption, error) {
	options := []llms.CallOption{llms.WithModel(req.Model)}
	if req.Temperature != nil {
		options = append(options, llms.WithTemperature(*req.Temperature))
	}
	if req.MaxTokens > 0 {
		options = append(options, llms.WithMaxTokens(req.MaxTokens))
	}
	if len(req.Tools) == 0 {
		return options, nil
	}
	tools := make([]llms.Tool, 0, len(req.Tools))
	for i := range req.Tools {
		spec := &req.Tools[i]
		schema, err := decodedSchema(fmt.Sprintf("tools[%d].parameters", i), spec.Parameters)
		if err != nil {
			return nil, err
		}
		tools = append(tools, llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: spec.Name, Description: spec.Description, Parameters: schema, Strict: spec.Strict,
		}})
	}
	options = append(options, llms.WithTools(tools))
	switch req.ToolChoice {
	case "":
	case "auto", "none", "required":
		options = append(options, llms.WithToolChoice(req.ToolChoice))
	default:
		options = append(options, llms.WithToolChoice(llms.ToolChoice{Type: "function", Function: &llms.FunctionReference{Name: req.ToolChoice}}))
	}
	return options, nil
}

// decodedSchema returns a schema with its values decoded, because some clients of langchaingo read them.
func decodedSchema(field string, raw json.RawMessage) (map[string]any, error) {
	checked, err := wire.ParseSchema(field, raw)
	if err != nil || len(raw) == 0 {
		return checked, err
	}
	var schema map[string]any
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, agent.Invalid(field, "%w", err)
	}
	return schema, nil
}
