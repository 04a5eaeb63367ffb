package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/dialog"
)

const redactedThinking = "redacted_thinking"

// conversation projects system prompt and messages. Tool results are user content, and neighbours of one role become one message, so
// that the results of parallel calls arrive together, as the API demands. The error names the block that it cannot take.
func conversation(req agent.ModelRequest) ([]sdk.TextBlockParam, []sdk.MessageParam, error) {
	var system []sdk.TextBlockParam
	if req.System != "" {
		system = append(system, sdk.TextBlockParam{Text: req.System})
	}
	var messages []sdk.MessageParam
	for i, m := range dialog.Pair(req.Messages) {
		if m.Role == agent.RoleSystem {
			if text := agent.Normalize(m.Blocks); text != "" {
				system = append(system, sdk.TextBlockParam{Text: text})
			}
			continue
		}
		role := sdk.MessageParamRoleUser
		if m.Role == agent.RoleAssistant {
			role = sdk.MessageParamRoleAssistant
		}
		content, err := contentOf(fmt.Sprintf("messages[%d]", i), m)
		if err != nil {
			return nil, nil, err
		}
		switch last := len(messages) - 1; {
		case len(content) == 0:
		case last >= 0 && messages[last].Role == role:
			messages[last].Content = append(messages[last].Content, content...)
		default:
			messages = append(messages, sdk.MessageParam{Role: role, Content: content})
		}
	}
	return system, messages, nil
}

func contentOf(path string, m agent.Message) ([]sdk.ContentBlockParamUnion, error) {
	var content []sdk.ContentBlockParamUnion
	for i := range m.Blocks {
		b := &m.Blocks[i]
		switch m.Role {
		case agent.RoleAssistant:
			if block, ok := assistantBlock(b); ok {
				content = append(content, block)
			}
		case agent.RoleTool:
			content = append(content, resultBlock(b))
		case agent.RoleUser:
			block, ok, err := userBlock(fmt.Sprintf("%s.blocks[%d]", path, i), b)
			if err != nil {
				return nil, err
			}
			if ok {
				content = append(content, block)
			}
		case agent.RoleSystem:
		default:
			return nil, agent.Invalid(path+".role", "unknown role %q", m.Role)
		}
	}
	return content, nil
}

// textBlock is false for a text that the API refuses: it wants a character other than white space.
func textBlock(s string) (sdk.ContentBlockParamUnion, bool) {
	return sdk.NewTextBlock(s), strings.TrimSpace(s) != ""
}

func assistantBlock(b *agent.Block) (sdk.ContentBlockParamUnion, bool) {
	switch {
	case b.Type == agent.BlockText:
		return textBlock(b.Text)
	case b.Type == agent.BlockReasoning && b.Signature != "":
		return sdk.NewThinkingBlock(b.Signature, b.Reasoning), true
	case b.Type == agent.BlockReasoning:
		var extras struct{ Type, Data string }
		if json.Unmarshal(b.Extras, &extras) == nil && extras.Type == redactedThinking {
			return sdk.NewRedactedThinkingBlock(extras.Data), true
		}
		return sdk.ContentBlockParamUnion{}, false
	case dialog.IsCall(b):
		return sdk.NewToolUseBlock(callID(b.ID), dialog.Arguments(b), b.Name), true
	default:
		return sdk.ContentBlockParamUnion{}, false
	}
}

func resultBlock(b *agent.Block) sdk.ContentBlockParamUnion {
	result := sdk.ToolResultBlockParam{ToolUseID: callID(string(b.ToolCallID))}
	if b.Status == agent.ResultError {
		result.IsError = sdk.Bool(true)
	}
	if text := dialog.ResultText(b); strings.TrimSpace(text) != "" {
		result.Content = []sdk.ToolResultBlockParamContentUnion{{OfText: &sdk.TextBlockParam{Text: text}}}
	}
	return sdk.ContentBlockParamUnion{OfToolResult: &result}
}

var notInCallID = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// callID fits an id that another provider made to the API's pattern; its own ids stay as they are.
func callID(id string) string { return notInCallID.ReplaceAllString(id, "_") }

// userBlock is false for a block that has no place in a user's message.
func userBlock(at string, b *agent.Block) (sdk.ContentBlockParamUnion, bool, error) {
	var none sdk.ContentBlockParamUnion
	switch b.Type {
	case agent.BlockText:
		block, ok := textBlock(b.Text)
		return block, ok, nil
	case agent.BlockImage:
		switch {
		case b.Base64 != "":
			return sdk.NewImageBlockBase64(b.MIMEType, b.Base64), true, nil
		case b.URL != "":
			return sdk.NewImageBlock(sdk.URLImageSourceParam{URL: b.URL}), true, nil
		}
		return none, false, agent.Invalid(at, "an image needs url or base64 here")
	case agent.BlockFile:
		block, err := documentBlock(at, b)
		return block, err == nil, err
	case agent.BlockAudio:
		return none, false, agent.Invalid(at, "the provider takes no audio")
	default:
		return none, false, nil
	}
}

func documentBlock(at string, b *agent.Block) (sdk.ContentBlockParamUnion, error) {
	switch {
	case b.URL != "":
		return sdk.NewDocumentBlock(sdk.URLPDFSourceParam{URL: b.URL}), nil
	case b.Base64 != "" && b.MIMEType == "application/pdf":
		return sdk.NewDocumentBlock(sdk.Base64PDFSourceParam{Data: b.Base64}), nil
	case b.Base64 != "" && strings.HasPrefix(b.MIMEType, "text/"):
		text, err := base64.StdEncoding.DecodeString(b.Base64)
		if err != nil {
			return sdk.ContentBlockParamUnion{}, agent.Invalid(at+".base64", "%w", err)
		}
		return sdk.NewDocumentBlock(sdk.PlainTextSourceParam{Data: string(text)}), nil
	default:
		return sdk.ContentBlockParamUnion{}, agent.Invalid(at, "a file needs a url, or base64 of application/pdf or text, here")
	}
}
