package agent

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Role says who speaks in a [Message].
type Role string

// The four roles of a conversation.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// Message is the one canonical message type.
type Message struct {
	Role   Role    `json:"role"`
	Blocks []Block `json:"blocks"`
}

// BlockType is the discriminator of a [Block]; the names are LangChain v1's.
type BlockType string

// The kinds of block. ToolResult is ours: LangChain v1 carries it in a message type of its own.
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

// Block is one typed piece of a message: a LangChain v1 content block, flat, so that its JSON is that of LangChain without a
// codec of our own (docs/adr/0001). [Block.Validate] says which fields a type needs.
type Block struct {
	Type BlockType `json:"type"`
	ID   string    `json:"id,omitempty"` // of the block; of the call for tool_call, invalid_tool_call, server_tool_call

	Text        string       `json:"text,omitempty"`        // text
	Annotations []Annotation `json:"annotations,omitempty"` // text
	Reasoning   string       `json:"reasoning,omitempty"`   // reasoning
	Signature   string       `json:"signature,omitempty"`   // reasoning: the provider's proof, sent back verbatim

	URL      string `json:"url,omitempty"`       // image, audio, file: exactly one of url, base64, file_id
	Base64   string `json:"base64,omitempty"`    // standard encoding; wants mime_type
	FileID   string `json:"file_id,omitempty"`   // an id at the provider
	MIMEType string `json:"mime_type,omitempty"` // e.g. image/png

	Name       string          `json:"name,omitempty"`         // tool blocks: the tool's name
	Args       json.RawMessage `json:"args,omitempty"`         // tool_call: an object; invalid_tool_call: the string as it came
	ToolCallID CallID          `json:"tool_call_id,omitempty"` // tool_result, server_tool_result: the call it answers
	Status     string          `json:"status,omitempty"`       // tool_result, server_tool_result: success or error
	Output     json.RawMessage `json:"output,omitempty"`       // tool_result, server_tool_result: any JSON
	Ref        string          `json:"ref,omitempty"`          // tool_result: cas:// reference when the output was too large
	Error      string          `json:"error,omitempty"`        // invalid_tool_call: why

	Value  json.RawMessage `json:"value,omitempty"`  // non_standard: any JSON
	Extras json.RawMessage `json:"extras,omitempty"` // provider-specific additions, carried verbatim
}

// Annotation marks a span of a text block; the one type in use is "citation" (LangChain v1).
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

// The two values of Status on a result block.
const (
	ResultSuccess = "success"
	ResultError   = "error"
)

// Text makes a text block.
func Text(s string) Block { return Block{Type: BlockText, Text: s} }

// UserText makes a user message of one text block.
func UserText(s string) Message { return Message{Role: RoleUser, Blocks: []Block{Text(s)}} }

// NormalizeOutput returns the output of a turn as one string: its text, or a sentence that says that there is none.
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

// Normalize joins the text blocks of a message into one string.
func Normalize(blocks []Block) string {
	var b strings.Builder
	for i := range blocks {
		if blocks[i].Type == BlockText {
			b.WriteString(blocks[i].Text)
		}
	}
	return b.String()
}

// ToolCalls returns the calls among blocks, in order.
func ToolCalls(blocks []Block) []ToolCall {
	var calls []ToolCall
	for i := range blocks {
		if blocks[i].Type == BlockToolCall {
			calls = append(calls, ToolCall{ID: CallID(blocks[i].ID), Name: blocks[i].Name, Args: blocks[i].Args})
		}
	}
	return calls
}

// Validate checks a message that came from outside; the error's Field starts with path.
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

// answers refuses a tool result that answers no call before it, which no provider would take, and a tool message of anything else.
// asked holds the calls so far; those of this message are added.
func (m Message) answers(path string, asked map[CallID]bool) error {
	for i := range m.Blocks {
		b := &m.Blocks[i]
		at := fmt.Sprintf("%s.blocks[%d]", path, i)
		switch {
		case b.Type == BlockToolCall && m.Role == RoleAssistant:
			asked[CallID(b.ID)] = true
		case b.Type == BlockToolResult && !asked[b.ToolCallID]:
			return Invalid(at+".tool_call_id", "answers no call of an assistant's message before it")
		case m.Role == RoleTool && b.Type != BlockToolResult:
			return Invalid(at+".type", "a tool message holds tool_result blocks, got %.60q", b.Type)
		}
	}
	return nil
}

// Validate checks that a block has what its type needs; the error's Field starts with path.
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
