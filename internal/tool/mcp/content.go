package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"reflect"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/clip"
	"github.com/turnstone-run/turnstone/internal/tool"
)

const (
	maxFailureText = 3000 // runes of a tool's failure message, so that the failure is shorter than 4 KiB
	maxBlocks      = 200  // of a result
	maxWord        = 500  // runes of a name or a media type
)

// block is one piece of a result.
type block struct {
	Type        string `json:"type"` // text, image, audio, resource_link, resource
	Text        string `json:"text,omitempty"`
	MIMEType    string `json:"mime_type,omitempty"`
	Ref         string `json:"ref,omitempty"` // cas://sha256:<hex>
	Bytes       int64  `json:"bytes,omitempty"`
	URI         string `json:"uri,omitempty"`
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`
	Note        string `json:"note,omitempty"`
}

// answerResult returns the structured content of an answer, else its only text (as JSON if it is JSON), else its blocks. Binary content is
// stored, and the model gets its reference.
func (t *remoteTool) answerResult(ctx context.Context, s *session, inv agent.Invocation, answer *sdk.CallToolResult) (agent.ToolResult, error) {
	masker := s.link.secrets
	if answer.NeedsInput() || len(answer.InputRequests) > 0 {
		return t.failedResult(&agent.Failure{Type: string(agent.CodeDenied), Message: fmt.Sprintf("the MCP server %q wants input that it is not given", s.label)})
	}
	if size := sizeOf(answer); size > t.binding.MaxResultBytes {
		return t.failedResult(&agent.Failure{
			Type:    string(agent.CodeOverflow),
			Message: fmt.Sprintf("the answer of the MCP server %q has %d bytes, at most %d", s.label, size, t.binding.MaxResultBytes),
		})
	}
	if answer.IsError {
		return t.failedResult(&agent.Failure{Type: string(agent.CodeInvalid), Message: masker.displayText(failureText(answer), maxFailureText)})
	}
	blocks, err := t.contentBlocks(ctx, inv, answer.Content)
	if err != nil {
		return agent.ToolResult{}, err
	}
	out, err := encodeOutput(answer.StructuredContent, blocks)
	if err != nil {
		return agent.ToolResult{}, agent.Errorf(agent.CodeInternal, "call MCP tool", "encode result: %w", err)
	}
	return agent.ToolResult{Output: masker.maskJSON(out)}, nil
}

// sizeOf returns the number of bytes of an answer's texts and binary content.
func sizeOf(answer *sdk.CallToolResult) int {
	size := 0
	for _, c := range answer.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			size += len(c.Text)
		case *sdk.ImageContent:
			size += len(c.Data)
		case *sdk.AudioContent:
			size += len(c.Data)
		case *sdk.ResourceLink:
			size += len(c.URI) + len(c.Description)
		case *sdk.EmbeddedResource:
			if c.Resource != nil {
				size += len(c.Resource.Text) + len(c.Resource.Blob)
			}
		}
	}
	if answer.StructuredContent != nil {
		raw, err := json.Marshal(answer.StructuredContent)
		if err == nil {
			size += len(raw)
		}
	}
	return size
}

// failureText returns the message of a failed tool.
func failureText(answer *sdk.CallToolResult) string {
	var texts []string
	for _, c := range answer.Content {
		if text, ok := c.(*sdk.TextContent); ok && text.Text != "" {
			texts = append(texts, text.Text)
		}
	}
	if len(texts) == 0 && answer.StructuredContent != nil {
		if raw, err := json.Marshal(answer.StructuredContent); err == nil {
			texts = append(texts, string(raw))
		}
	}
	if len(texts) == 0 {
		return "the tool failed and does not say why"
	}
	return strings.Join(texts, "\n")
}

// encodeOutput encodes structured content and blocks.
func encodeOutput(structured any, blocks []block) (json.RawMessage, error) {
	hasOnlyText := !slices.ContainsFunc(blocks, func(b block) bool { return b.Type != "text" })
	switch {
	case structured != nil && hasOnlyText:
		return encodeStructured(structured, blocks)
	case structured != nil:
		return tool.EncodeJSON(struct {
			Structured any     `json:"structured_content"`
			Content    []block `json:"content"`
		}{structured, blocks})
	case hasOnlyText && len(blocks) == 1:
		return encodeText(blocks[0].Text)
	case len(blocks) == 0:
		return json.RawMessage(`{"content":[]}`), nil
	default:
		return tool.EncodeJSON(map[string][]block{"content": blocks})
	}
}

// encodeStructured encodes structured content. If the text repeats it, as servers do, it uses the text, which has all digits of numbers: the
// SDK decodes the numbers of structured content as floats.
func encodeStructured(structured any, blocks []block) (json.RawMessage, error) {
	if len(blocks) == 1 {
		var decoded any
		if text := []byte(blocks[0].Text); json.Unmarshal(text, &decoded) == nil && reflect.DeepEqual(decoded, structured) {
			return compactJSON(text)
		}
	}
	return tool.EncodeJSON(structured)
}

// encodeText returns the text itself if it is a JSON object or array, else as a JSON string.
func encodeText(text string) (json.RawMessage, error) {
	trimmed := strings.TrimSpace(text)
	if (strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[")) && json.Valid([]byte(trimmed)) {
		return compactJSON([]byte(trimmed))
	}
	return tool.EncodeJSON(text)
}

func compactJSON(raw []byte) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// contentBlocks converts content to blocks. It stores binary content.
func (t *remoteTool) contentBlocks(ctx context.Context, inv agent.Invocation, content []sdk.Content) ([]block, error) {
	blocks := make([]block, 0, min(len(content), maxBlocks))
	for i, c := range content {
		if i == maxBlocks {
			return append(blocks, block{Type: "text", Text: fmt.Sprintf("%d more pieces are left out", len(content)-i)}), nil
		}
		b, err := t.contentBlock(ctx, inv, c)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

func (t *remoteTool) contentBlock(ctx context.Context, inv agent.Invocation, c sdk.Content) (block, error) {
	switch c := c.(type) {
	case *sdk.TextContent:
		return block{Type: "text", Text: c.Text}, nil
	case *sdk.ImageContent:
		return t.storeContent(ctx, inv, block{Type: "image", MIMEType: c.MIMEType}, c.Data)
	case *sdk.AudioContent:
		return t.storeContent(ctx, inv, block{Type: "audio", MIMEType: c.MIMEType}, c.Data)
	case *sdk.ResourceLink:
		b := block{
			Type: "resource_link", URI: c.URI, Name: clip.Runes(c.Name, maxWord), Description: clip.Runes(c.Description, maxDescription),
			MIMEType: mediaType(c.MIMEType),
		}
		if c.Size != nil {
			b.Bytes = *c.Size
		}
		return b, nil
	case *sdk.EmbeddedResource:
		if c.Resource == nil {
			return block{Type: "resource", Note: "empty"}, nil
		}
		b := block{Type: "resource", URI: c.Resource.URI, MIMEType: c.Resource.MIMEType, Text: c.Resource.Text}
		if len(c.Resource.Blob) == 0 {
			b.MIMEType = mediaType(b.MIMEType)
			return b, nil
		}
		return t.storeContent(ctx, inv, b, c.Resource.Blob)
	default:
		return block{Type: "text", Note: "content of an unknown kind is left out"}, nil
	}
}

// storeContent stores binary content for the tenant, and returns its block.
func (t *remoteTool) storeContent(ctx context.Context, inv agent.Invocation, b block, data []byte) (block, error) {
	b.MIMEType, b.Bytes = mediaType(b.MIMEType), int64(len(data))
	if t.kit.cfg.Blobs == nil {
		b.Note = "not kept: there is no blob store"
		return b, nil
	}
	ref, err := t.kit.cfg.Blobs.Put(ctx, inv.Tenant, bytes.NewReader(data))
	if err != nil {
		return b, fmt.Errorf("store content of MCP tool %q: %w", t.spec.Name, err)
	}
	b.Ref = ref
	return b, nil
}

// mediaType returns a media type without parameters, "" if it is malformed.
func mediaType(text string) string {
	media, _, err := mime.ParseMediaType(text)
	if err != nil {
		return ""
	}
	return clip.Runes(media, maxWord)
}
