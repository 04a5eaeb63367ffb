package openai

import (
	"context"
	"net/http"
	"strings"

	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// chatRequest is the body of a chat completion. The types of OpenAI's SDK are not used because they link its whole API, 17 MB of a program.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Tools               []functionTool  `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"` // auto, none, required, or the tool
	ResponseFormat      *responseFormat `json:"response_format,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// message is a message of any role. Content is a string or a list of parts.
type message struct {
	Role       string         `json:"role"`
	Content    any            `json:"content,omitempty"`
	ToolCalls  []functionCall `json:"tool_calls,omitempty"`
	ToolCallID string         `json:"tool_call_id,omitempty"`
}

type functionCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// part is one part of a user's message. Type says which member is set.
type part struct {
	Type       string      `json:"type"`
	Text       *string     `json:"text,omitempty"`
	ImageURL   *imageURL   `json:"image_url,omitempty"`
	InputAudio *inputAudio `json:"input_audio,omitempty"`
	File       *inputFile  `json:"file,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
}

type inputAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type inputFile struct {
	FileID   string `json:"file_id,omitempty"`
	FileData string `json:"file_data,omitempty"`
	Filename string `json:"filename,omitempty"`
}

type functionTool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string         `json:"name"`
	Description string         `json:"description,omitempty"`
	Parameters  map[string]any `json:"parameters,omitempty"`
	Strict      bool           `json:"strict,omitempty"`
}

type responseFormat struct {
	Type       string       `json:"type"`
	JSONSchema outputSchema `json:"json_schema"`
}

type outputSchema struct {
	Name   string         `json:"name"`
	Schema map[string]any `json:"schema"`
	Strict bool           `json:"strict,omitempty"`
}

func textPart(text string) part { return part{Type: "text", Text: &text} }

// post sends a body to an address, with the key if there is one. Any response but a success is an error.
func post(ctx context.Context, client *wire.Client, address string, body any) (*http.Response, error) {
	header := http.Header{}
	if key := client.Config().APIKey; key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return wire.Post(ctx, client.HTTP(), address, header, body)
}

// endpoint returns the address of a path below the base URL.
func endpoint(client *wire.Client, path string) string {
	return strings.TrimSuffix(client.Config().BaseURL, "/") + path
}
