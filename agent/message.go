package agent

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Role is the author of a [Message].
type Role string

// The roles of a conversation.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is a message of a conversation.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// BlockType is the type of a [Block], with the names of LangChain v1.
type BlockType string

// The types of blocks. LangChain v1 has no tool_result block but a separate message type.
const (
	BlockText             BlockType = "text"
	BlockReasoning        BlockType = "reasoning"
	BlockImage            BlockType = "image"
	BlockAudio            BlockType = "audio"
	BlockFile             BlockType = "file"
	BlockToolCall         BlockType = "tool_call"
	BlockInvalidToolCall  BlockType = "invalid_tool_call"
	BlockToolResult       BlockType = "tool_result"
	BlockServerToolCall   BlockType = "server_tool_call"
	BlockServerToolResult BlockType = "server_tool_result"
	BlockNonStandard      BlockType = "non_standard"
)

// Block is a piece of a message: a content block of LangChain v1. The struct is flat, so that encoding/json writes LangChain's JSON
// (docs/adr/0001). [Block.Validate] checks the fields of each type.
type Block struct {
	Type BlockType `json:"type"`
	ID   string    `json:"id,omitempty"` // of the block; of the call for tool_call, invalid_tool_call, server_tool_call

	Text        string       `json:"text,omitempty"`        // text
	Annotations []Annotation `json:"annotations,omitempty"` // text
	Reasoning   string       `json:"reasoning,omitempty"`   // reasoning
	Signature   string       `json:"signature,omitempty"`   // reasoning: the provider's proof, sent back verbatim

	URL      string `json:"url,omitempty"`       // image, audio, file: exactly one of url, base64, file_id
	Base64   string `json:"base64,omitempty"`    // standard encoding; requires mime_type
	FileID   string `json:"file_id,omitempty"`   // an ID of the provider
	MIMEType string `json:"mime_type,omitempty"` // e.g. image/png

	Name       string          `json:"name,omitempty"`         // tool blocks: the tool's name
	Args       json.RawMessage `json:"args,omitempty"`         // tool_call: an object; invalid_tool_call: the string of the model
	ToolCallID CallID          `json:"tool_call_id,omitempty"` // tool_result, server_tool_result: the call it answers
	Status     string          `json:"status,omitempty"`       // tool_result, server_tool_result: success or error
	Output     json.RawMessage `json:"output,omitempty"`       // tool_result, server_tool_result: any JSON
	Ref        string          `json:"ref,omitempty"`          // tool_result: cas:// reference of a large output
	Error      string          `json:"error,omitempty"`        // invalid_tool_call: why

	Value  json.RawMessage `json:"value,omitempty"`  // non_standard: any JSON
	Extras json.RawMessage `json:"extras,omitempty"` // provider-specific additions, passed on unchanged
}

// Annotation marks a span of a text block. The only type in use is "citation" (LangChain v1).
type Annotation struct {
	Type       string          `json:"type"`
	ID         string          `json:"id,omitempty"`
	URL        string          `json:"url,omitempty"`
	Title      string          `json:"title,omitempty"`
	StartIndex *int            `json:"start_index,omitempty"`
	EndIndex   *int            `json:"end_index,omitempty"`
	CitedText  string          `json:"cited_text,omitempty"`
	Extras     json.RawMessage `json:"extras,omitempty"`
}

// The values of Status of a result block.
const (
	ResultSuccess = "success"
	ResultError   = "error"
)

// Text returns a text block.
func Text(s string) Block { return Block{Type: BlockText, Text: s} }

// UserText returns a user message with one text block.
func UserText(s string) Message { return Message{Role: RoleUser, Blocks: []Block{Text(s)}} }

// NormalizeOutput returns the text of a turn's output, or a sentence that says that there is none.
func NormalizeOutput(blocks []Block) string {
	switch text := Normalize(blocks); {
	case text != "":
		return text
	case len(blocks) > 0:
		return "No text content in response."
	default:
		return "No output from agent."
	}
}

// Normalize returns the concatenated text blocks of a message.
func Normalize(blocks []Block) string {
	var b strings.Builder
	for i := range blocks {
		if blocks[i].Type == BlockText {
			b.WriteString(blocks[i].Text)
		}
	}
	return b.String()
}

// ToolCalls returns the tool calls in blocks, in order.
func ToolCalls(blocks []Block) []ToolCall {
	var calls []ToolCall
	for i := range blocks {
		if blocks[i].Type == BlockToolCall {
			calls = append(calls, ToolCall{ID: CallID(blocks[i].ID), Name: blocks[i].Name, Args: blocks[i].Args})
		}
	}
	return calls
}

// Validate checks a message of a request. The Field of its error begins with path.
func (m Message) Validate(path string) error {
	switch m.Role {
	case RoleSystem, RoleUser, RoleAssistant, RoleTool:
	default:
		return Invalid(path+".role", "want system, user, assistant or tool, got %.60q", m.Role)
	}
	if len(m.Blocks) == 0 {
		return Invalid(path+".blocks", "want at least one block")
	}
	for i := range m.Blocks {
		if err := m.Blocks[i].Validate(fmt.Sprintf("%s.blocks[%d]", path, i)); err != nil {
			return err
		}
	}
	return nil
}

// checkToolResults checks that each tool result answers an earlier call, because providers require it. A tool message may have only tool results. The
// calls of the message are added to calls.
func (m Message) checkToolResults(path string, calls map[CallID]bool) error {
	for i := range m.Blocks {
		b := &m.Blocks[i]
		blockPath := fmt.Sprintf("%s.blocks[%d]", path, i)
		switch {
		case b.Type == BlockToolCall && m.Role == RoleAssistant:
			calls[CallID(b.ID)] = true
		case b.Type == BlockToolResult && !calls[b.ToolCallID]:
			return Invalid(blockPath+".tool_call_id", "answers no call of an assistant's message before it")
		case m.Role == RoleTool && b.Type != BlockToolResult:
			return Invalid(blockPath+".type", "a tool message holds tool_result blocks, got %.60q", b.Type)
		}
	}
	return nil
}

// Validate checks that a block has the fields that its type needs. The Field of its error begins with path.
func (b *Block) Validate(path string) error {
	switch b.Type {
	case BlockText:
		if strings.TrimSpace(b.Text) == "" {
			return Invalid(path+".text", "is empty")
		}
	case BlockReasoning, BlockInvalidToolCall:
	case BlockImage, BlockAudio, BlockFile:
		return b.validateMedia(path)
	case BlockToolCall, BlockServerToolCall:
		if b.ID == "" || b.Name == "" {
			return Invalid(path, "a %s needs id and name", b.Type)
		}
	case BlockToolResult, BlockServerToolResult:
		if b.ToolCallID == "" {
			return Invalid(path+".tool_call_id", "is empty")
		}
		if b.Status != ResultSuccess && b.Status != ResultError {
			return Invalid(path+".status", "want success or error, got %.60q", b.Status)
		}
	case BlockNonStandard:
		if len(b.Value) == 0 {
			return Invalid(path+".value", "is empty")
		}
	default:
		return Invalid(path+".type", "unknown block type %.60q", b.Type)
	}
	return nil
}

func (b *Block) validateMedia(path string) error {
	n := 0
	for _, s := range []string{b.URL, b.Base64, b.FileID} {
		if s != "" {
			n++
		}
	}
	if n != 1 {
		return Invalid(path, "want exactly one of url, base64 and file_id")
	}
	if b.Base64 != "" && b.MIMEType == "" {
		return Invalid(path+".mime_type", "is needed with base64")
	}
	if _, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, strings.NewReader(b.Base64))); err != nil {
		return Invalid(path+".base64", "is not standard base64: %v", err)
	}
	return nil
}
