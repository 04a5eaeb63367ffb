package openai

import (
	"fmt"
	"strings"

	sdk "github.com/openai/openai-go/v3"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/dialog"
)

// messages projects the conversation; the error names the block that the API cannot take.
func messages(req agent.ModelRequest) ([]sdk.ChatCompletionMessageParamUnion, error) {
	var out []sdk.ChatCompletionMessageParamUnion
	if req.System != "" {
		out = append(out, sdk.SystemMessage(req.System))
	}
	for i, m := range dialog.Pair(req.Messages) {
		path := fmt.Sprintf("messages[%d]", i)
		switch m.Role {
		case agent.RoleSystem:
			out = append(out, sdk.SystemMessage(agent.Normalize(m.Blocks)))
		case agent.RoleUser:
			parts, err := userParts(path, m.Blocks)
			if err != nil {
				return nil, err
			}
			if len(parts) > 0 {
				out = append(out, userMessage(parts))
			}
		case agent.RoleAssistant:
			if a, ok := assistantMessage(m.Blocks); ok {
				out = append(out, sdk.ChatCompletionMessageParamUnion{OfAssistant: &a})
			}
		case agent.RoleTool:
			for j := range m.Blocks {
				out = append(out, sdk.ToolMessage(dialog.ResultTextMarked(&m.Blocks[j]), string(m.Blocks[j].ToolCallID)))
			}
		default:
			return nil, agent.Invalid(path+".role", "unknown role %q", m.Role)
		}
	}
	return out, nil
}

// userMessage uses the plain form for plain text: many compatible servers know no other.
func userMessage(parts []sdk.ChatCompletionContentPartUnionParam) sdk.ChatCompletionMessageParamUnion {
	if len(parts) == 1 && parts[0].OfText != nil {
		return sdk.UserMessage(parts[0].OfText.Text)
	}
	return sdk.UserMessage(parts)
}

func userParts(path string, blocks []agent.Block) ([]sdk.ChatCompletionContentPartUnionParam, error) {
	var parts []sdk.ChatCompletionContentPartUnionParam
	for i := range blocks {
		b := &blocks[i]
		at := fmt.Sprintf("%s.blocks[%d]", path, i)
		switch b.Type {
		case agent.BlockText:
			parts = append(parts, sdk.TextContentPart(b.Text))
		case agent.BlockImage:
			source := b.URL
			if b.Base64 != "" {
				source = "data:" + b.MIMEType + ";base64," + b.Base64
			}
			if source == "" {
				return nil, agent.Invalid(at, "an image needs url or base64 here")
			}
			parts = append(parts, sdk.ImageContentPart(sdk.ChatCompletionContentPartImageImageURLParam{URL: source}))
		case agent.BlockAudio:
			format, ok := audioFormats[b.MIMEType]
			if b.Base64 == "" || !ok {
				return nil, agent.Invalid(at, "audio needs base64 here, and a mime_type of wav or mp3")
			}
			parts = append(parts, sdk.InputAudioContentPart(sdk.ChatCompletionContentPartInputAudioInputAudioParam{Data: b.Base64, Format: format}))
		case agent.BlockFile:
			file, err := filePart(at, b)
			if err != nil {
				return nil, err
			}
			parts = append(parts, file)
		default: // reasoning, calls and non-standard blocks have no place in a user's message
		}
	}
	return parts, nil
}

//nolint:gochecknoglobals // a constant in all but syntax
var audioFormats = map[string]string{
	"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3",
}

func filePart(at string, b *agent.Block) (sdk.ChatCompletionContentPartUnionParam, error) {
	var file sdk.ChatCompletionContentPartFileFileParam
	switch {
	case b.FileID != "":
		file.FileID = sdk.String(b.FileID)
	case b.Base64 != "":
		file.FileData = sdk.String("data:" + b.MIMEType + ";base64," + b.Base64)
		file.Filename = sdk.String(fileName(b))
	default:
		return sdk.ChatCompletionContentPartUnionParam{}, agent.Invalid(at, "a file needs base64 or file_id here")
	}
	return sdk.FileContentPart(file), nil
}

// fileName makes up the name that the API wants with file data.
func fileName(b *agent.Block) string {
	if b.Name != "" {
		return b.Name
	}
	_, kind, _ := strings.Cut(b.MIMEType, "/")
	if kind == "" {
		return "file"
	}
	return "file." + kind
}

// assistantMessage is false for a message of which the API takes nothing.
func assistantMessage(blocks []agent.Block) (sdk.ChatCompletionAssistantMessageParam, bool) {
	var m sdk.ChatCompletionAssistantMessageParam
	if text := agent.Normalize(blocks); text != "" {
		m.Content.OfString = sdk.String(text)
	}
	for i := range blocks {
		b := &blocks[i]
		if !dialog.IsCall(b) {
			continue
		}
		m.ToolCalls = append(m.ToolCalls, sdk.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &sdk.ChatCompletionMessageFunctionToolCallParam{
				ID:       b.ID,
				Function: sdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: b.Name, Arguments: string(dialog.Arguments(b))},
			},
		})
	}
	return m, m.Content.OfString.Valid() || len(m.ToolCalls) > 0
}
