package anthropic

import "encoding/json"

// messageRequest is the body of a request. The types of Anthropic's SDK are not used because they link its whole API, 8 MB of a program.
type messageRequest struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	Messages     []message     `json:"messages,omitempty"`
	Stream       bool          `json:"stream"`
	System       []content     `json:"system,omitempty"`
	Temperature  *float64      `json:"temperature,omitempty"`
	Tools        []tool        `json:"tools,omitempty"`
	ToolChoice   *choice       `json:"tool_choice,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type message struct {
	Role    string    `json:"role"`
	Content []content `json:"content"`
}

// content is a block of a message. Type says which members are set.
type content struct {
	Text         string          `json:"text,omitempty"`
	ID           string          `json:"id,omitempty"` // of a tool call, with name and input
	Name         string          `json:"name,omitempty"`
	Input        json.RawMessage `json:"input,omitempty"`
	ToolUseID    string          `json:"tool_use_id,omitempty"` // of a result
	IsError      bool            `json:"is_error,omitempty"`
	Content      any             `json:"content,omitempty"` // of a result: blocks of text, or any JSON from the API
	Caller       json.RawMessage `json:"caller,omitempty"`  // of a server tool call and its result
	Thinking     *string         `json:"thinking,omitempty"`
	Signature    string          `json:"signature,omitempty"`
	Data         string          `json:"data,omitempty"` // of redacted thinking
	Source       *source         `json:"source,omitempty"`
	Title        string          `json:"title,omitempty"` // of a document, with context
	Context      string          `json:"context,omitempty"`
	Citations    any             `json:"citations,omitempty"` // a list for a text, an enabledFlag for a document
	CacheControl *cacheControl   `json:"cache_control,omitempty"`
	Type         string          `json:"type"`
}

// source is where an image or a document is.
type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
	FileID    string `json:"file_id,omitempty"`
}

type enabledFlag struct {
	Enabled bool `json:"enabled"`
}

type cacheControl struct {
	TTL  string `json:"ttl,omitempty"`
	Type string `json:"type"`
}

type tool struct {
	InputSchema  map[string]any `json:"input_schema"`
	Name         string         `json:"name"`
	CacheControl *cacheControl  `json:"cache_control,omitempty"`
	Description  string         `json:"description,omitempty"`
	Strict       bool           `json:"strict,omitempty"`
}

type choice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

type outputConfig struct {
	Format outputFormat `json:"format"`
}

type outputFormat struct {
	Type   string         `json:"type"`
	Schema map[string]any `json:"schema"`
}

func textBlock(text string) content { return content{Type: "text", Text: text} }
