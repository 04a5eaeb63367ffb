package offline

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// request has the fields of a chat-completions request that the model reads.
type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Stream              bool            `json:"stream"`
	Tools               []tool          `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	MaxTokens           int             `json:"max_tokens"`
	MaxCompletionTokens int             `json:"max_completion_tokens"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ResponseFormat struct {
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`

	tokens int // estimate: a quarter of the bytes
}

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []toolCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`

	text    string // text in Content, without the session context
	context string // session context that the runtime appends to a user's message, if any
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name       string          `json:"name"`
	Arguments  string          `json:"arguments"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // only of a tool
}

type tool struct {
	Function function `json:"function"`
}

// apiError is an error of the OpenAI API.
type apiError struct {
	status  int
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    string `json:"code,omitempty"`
}

func refusal(status int, code, format string, args ...any) *apiError {
	return &apiError{status: status, Type: "invalid_request_error", Code: code, Message: fmt.Sprintf(format, args...)}
}

// decodeRequest decodes a request. Like OpenAI, it refuses unknown models and tool calls without a result.
func decodeRequest(body []byte) (*request, *apiError) {
	req := &request{tokens: len(body)/4 + 1}
	if err := json.Unmarshal(body, req); err != nil {
		return nil, refusal(http.StatusBadRequest, "", "The JSON body of your request could not be read: %v.", err)
	}
	if req.Model != ModelName {
		return nil, refusal(http.StatusNotFound, "model_not_found", "The model `%.100s` does not exist; there is %s.", req.Model, ModelName)
	}
	var open []string // ids of calls without a result so far
	for i := range req.Messages {
		m := &req.Messages[i]
		k := slices.Index(open, m.ToolCallID)
		isResult := m.Role == "tool"
		switch {
		case isResult != (k >= 0), !isResult && len(open) > 0:
			return nil, refusal(http.StatusBadRequest, "", "messages[%d]: each tool call must be answered by a tool message right behind it.", i)
		case k >= 0:
			open = slices.Delete(open, k, k+1)
		}
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
		}
		if !m.readText() {
			return nil, refusal(http.StatusBadRequest, "invalid_type", "messages[%d].content: want a string or an array of parts.", i)
		}
	}
	if len(open) > 0 {
		return nil, refusal(http.StatusBadRequest, "", "These tool calls have no tool message: %.500s.", strings.Join(open, ", "))
	}
	return req, nil
}

// readText sets text and context. The content is a string, null, or a list of parts, of which readText uses the text parts. It returns false for any
// other content.
func (m *message) readText() bool {
	var parts []struct {
		Text string `json:"text"`
	}
	if len(m.Content) > 0 && json.Unmarshal(m.Content, &m.text) != nil && json.Unmarshal(m.Content, &parts) != nil {
		return false
	}
	for _, p := range parts {
		m.text += p.Text
	}
	if before, context, ok := strings.Cut(m.text, "<session_context>"); ok && m.Role == "user" {
		m.text, m.context = strings.TrimSpace(before), context
	}
	return true
}

// offers reports whether the request lets the model call a tool.
func (r *request) offers(name string) bool {
	return string(r.ToolChoice) != `"none"` && slices.ContainsFunc(r.Tools, func(t tool) bool { return t.Function.Name == name })
}

// outputSchema returns the schema that the answer must have, or nil. A runtime that sends no response_format forces a call of the tool
// structured_response, whose name outputSchema then returns.
func (r *request) outputSchema() (schema json.RawMessage, tool string) {
	for _, t := range r.Tools {
		forced := string(r.ToolChoice) == `"required"` || strings.Contains(string(r.ToolChoice), `"`+t.Function.Name+`"`)
		if forced && strings.TrimRight(t.Function.Name, "_") == "structured_response" {
			return t.Function.Parameters, t.Function.Name
		}
	}
	return r.ResponseFormat.JSONSchema.Schema, ""
}
