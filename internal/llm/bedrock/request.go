package bedrock

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// The types of a request body.
type (
	request struct {
		Messages  []message  `json:"messages"`
		System    []content  `json:"system,omitempty"`
		Inference *inference `json:"inferenceConfig,omitempty"`
		Tools     *tools     `json:"toolConfig,omitempty"`
	}
	message struct {
		Role    string    `json:"role"`
		Content []content `json:"content"`
	}
	content struct {
		Text      string      `json:"text,omitempty"`
		Image     *media      `json:"image,omitempty"`
		Document  *media      `json:"document,omitempty"`
		Call      *toolUse    `json:"toolUse,omitempty"`
		Result    *toolResult `json:"toolResult,omitempty"`
		Reasoning *reasoning  `json:"reasoningContent,omitempty"`
	}
	media struct {
		Format string `json:"format"`
		Name   string `json:"name,omitempty"`
		Source source `json:"source"`
	}
	source struct {
		Bytes string `json:"bytes"`
	}
	toolUse struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	toolResult struct {
		ID      string    `json:"toolUseId"`
		Content []content `json:"content"`
		Status  string    `json:"status,omitempty"`
	}
	reasoning struct {
		Text *reasoningText `json:"reasoningText,omitempty"`
	}
	reasoningText struct {
		Text      string `json:"text"`
		Signature string `json:"signature,omitempty"`
	}
	inference struct {
		MaxTokens   int      `json:"maxTokens,omitempty"`
		Temperature *float64 `json:"temperature,omitempty"`
	}
	tools struct {
		Tools  []tool         `json:"tools"`
		Choice map[string]any `json:"toolChoice,omitempty"`
	}
	tool struct {
		Spec toolSpec `json:"toolSpec"`
	}
	toolSpec struct {
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		Input       schema `json:"inputSchema"`
	}
	schema struct {
		JSON map[string]any `json:"json"`
	}
)

// newRequest returns a request in the form of the API, which has no output schema and no tool choice "none". The schema is left out, and instead of
// "none" the model chooses.
func newRequest(req agent.ModelRequest) (*request, error) {
	r := &request{}
	if system := req.SystemPrompt(); system != "" {
		r.System = []content{{Text: system}}
	}
	if req.MaxTokens > 0 || req.Temperature != nil {
		r.Inference = &inference{MaxTokens: req.MaxTokens, Temperature: req.Temperature}
	}
	documents := 0
	for _, m := range wire.PairResults(req.Messages) {
		role, err := roleOf(m.Role)
		if err != nil {
			return nil, err
		}
		blocks := contentOf(m, &documents)
		switch last := len(r.Messages) - 1; {
		case len(blocks) == 0:
		case last >= 0 && r.Messages[last].Role == role: // roles alternate
			r.Messages[last].Content = append(r.Messages[last].Content, blocks...)
		default:
			r.Messages = append(r.Messages, message{Role: role, Content: blocks})
		}
	}
	return r, r.addTools(req)
}

func (r *request) addTools(req agent.ModelRequest) error {
	if len(req.Tools) == 0 {
		return nil
	}
	r.Tools = &tools{}
	for i := range req.Tools {
		input, err := wire.ParseSchema(fmt.Sprintf("tools[%d].parameters", i), req.Tools[i].Parameters)
		if err != nil {
			return err
		}
		r.Tools.Tools = append(r.Tools.Tools, tool{toolSpec{Name: req.Tools[i].Name, Description: req.Tools[i].Description, Input: schema{input}}})
	}
	switch req.ToolChoice {
	case "", "none":
	case "auto":
		r.Tools.Choice = map[string]any{"auto": struct{}{}}
	case "required":
		r.Tools.Choice = map[string]any{"any": struct{}{}}
	default:
		r.Tools.Choice = map[string]any{"tool": map[string]string{"name": req.ToolChoice}}
	}
	return nil
}

func roleOf(r agent.Role) (string, error) {
	switch r {
	case agent.RoleUser, agent.RoleTool, agent.RoleSystem:
		return "user", nil
	case agent.RoleAssistant:
		return "assistant", nil
	default:
		return "", agent.Invalid("role", "unknown role %q", r)
	}
}

// contentOf returns the blocks of a message in the form of the API. documents counts the documents of the request.
func contentOf(m agent.Message, documents *int) []content {
	var all []content
	for i := range m.Blocks {
		b := &m.Blocks[i]
		var c content
		switch {
		case b.Type == agent.BlockText:
			c.Text = b.Text
		case wire.IsToolCall(b):
			c.Call = &toolUse{ID: b.ID, Name: b.Name, Input: wire.ToolArguments(b)}
		case b.Type == agent.BlockToolResult:
			c.Result = &toolResult{ID: string(b.ToolCallID), Content: []content{{Text: resultText(b)}}}
			if b.Status == agent.ResultError {
				c.Result.Status = "error"
			}
		case b.Type == agent.BlockReasoning && b.Signature != "" && m.Role == agent.RoleAssistant:
			c.Reasoning = &reasoning{&reasoningText{b.Reasoning, b.Signature}}
		case wire.IsReasoning(b):
		case m.Role == agent.RoleUser:
			c = mediaContent(b, documents)
		default:
			c.Text = wire.OmissionNote(b, "the provider takes none back")
		}
		isBlank := c.Text != "" && strings.TrimSpace(c.Text) == ""
		if c != (content{}) && !isBlank {
			all = append(all, c)
		}
	}
	return all
}

// resultText returns the text of a result. It is never empty, because the API refuses an empty text.
func resultText(b *agent.Block) string {
	if text := wire.ResultText(b); strings.TrimSpace(text) != "" {
		return text
	}
	return "(no output)"
}

// mediaContent returns a block of a user's message that is not text in the form of the API, or a note.
func mediaContent(b *agent.Block, documents *int) content {
	images := map[string]string{"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
	files := map[string]string{
		"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
	}
	image, file := images[b.MIMEType], files[b.MIMEType]
	isImage, isFile := b.Type == agent.BlockImage && image != "", b.Type == agent.BlockFile && file != ""
	if b.Base64 == "" || !isImage && !isFile {
		return content{Text: wire.OmissionNote(b, "the provider takes png, jpeg, gif, webp, PDF and text, and fetches no URL")}
	}
	if _, omission := wire.DecodeBase64(b); omission != "" {
		return content{Text: wire.OmissionNote(b, omission)}
	}
	if isImage {
		return content{Image: &media{Format: image, Source: source{b.Base64}}}
	}
	*documents++
	return content{Document: &media{Format: file, Name: fmt.Sprintf("document %d", *documents), Source: source{b.Base64}}}
}
