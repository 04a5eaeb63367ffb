package offline

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// request is the part of a chat-completions request that the model reads.
type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options"`
	Tools               []tool          `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	N                   *int            `json:"n"`
	Temperature         *float64        `json:"temperature"`
	ResponseFormat      *responseFormat `json:"response_format"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []toolCall      `json:"tool_calls,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`

	text    string // the text in Content, without the session context
	context string // the session context: JSON, empty for none
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// apiError is an error as OpenAI answers it.
type apiError struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func refuse(status int, param, code, format string, args ...any) *apiError {
	e := &apiError{status: status, Type: "invalid_request_error", Message: fmt.Sprintf(format, args...)}
	if param != "" {
		e.Param = &param
	}
	if code != "" {
		e.Code = &code
	}
	return e
}

func badRequest(param, code, format string, args ...any) *apiError {
	return refuse(http.StatusBadRequest, param, code, format, args...)
}

// decodeRequest reads a request and checks what OpenAI checks.
func decodeRequest(body []byte, models []string) (*request, *apiError) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members == nil {
		return nil, unreadable()
	}
	for name := range members {
		if !knownParameter(name) {
			return nil, badRequest("", "", "Unrecognized request argument supplied: %.100s", name)
		}
	}
	req := &request{}
	if err := json.Unmarshal(body, req); err != nil {
		return nil, wrongType(err)
	}
	for _, check := range []func(*request) *apiError{checkParameters, checkMessages, checkTools} {
		if e := check(req); e != nil {
			return nil, e
		}
	}
	if slices.Contains(models, req.Model) {
		return req, nil
	}
	return nil, unknownModel(req.Model)
}

func unreadable() *apiError {
	return badRequest("", "", "We could not parse the JSON body of your request. "+
		"(HINT: This likely means you aren't using your HTTP library correctly. The API expects a JSON payload.)")
}

// wrongType tells of a member of another type.
func wrongType(err error) *apiError {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badRequest(wrong.Field, "invalid_type",
			"Invalid type for '%s': expected %s, but got %s instead.", wrong.Field, wrong.Type.Kind(), wrong.Value)
	}
	return badRequest("", "", "The request could not be read.")
}

func unknownModel(name string) *apiError {
	return refuse(http.StatusNotFound, "", "model_not_found", "The model `%.100s` does not exist or you do not have access to it.", name)
}

func checkParameters(req *request) *apiError {
	switch {
	case req.Model == "":
		return badRequest("", "", "you must provide a model parameter")
	case req.StreamOptions != nil && !req.Stream:
		return badRequest("stream_options", "", "The 'stream_options' parameter is only allowed when 'stream' is enabled.")
	case req.N != nil && *req.N != 1:
		return badRequest("n", "unsupported_value", "Unsupported value: 'n' must be 1 for the offline model.")
	case req.Temperature != nil && (*req.Temperature < 0 || *req.Temperature > 2):
		return badRequest("temperature", "decimal_out_of_range", "Invalid 'temperature': expected a value from 0 to 2, but got %v instead.", *req.Temperature)
	case req.MaxTokens != nil && *req.MaxTokens < 1:
		return badRequest("max_tokens", "integer_below_min_value",
			"Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got %d instead.", *req.MaxTokens)
	case req.MaxCompletionTokens != nil && *req.MaxCompletionTokens < 1:
		return badRequest("max_completion_tokens", "integer_below_min_value",
			"Invalid 'max_completion_tokens': integer below minimum value. Expected a value >= 1, but got %d instead.", *req.MaxCompletionTokens)
	}
	return checkFormat(req.ResponseFormat)
}

// checkMessages checks each message and that every tool call is answered, once, right after it was made.
func checkMessages(req *request) *apiError {
	if req.Messages == nil {
		return badRequest("messages", "missing_required_parameter", "Missing required parameter: 'messages'.")
	}
	if len(req.Messages) == 0 {
		return badRequest("messages", "empty_array", "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	var open []string // the calls without an answer so far
	for i := range req.Messages {
		m := &req.Messages[i]
		at := fmt.Sprintf("messages[%d]", i)
		if m.Role != "tool" && len(open) > 0 {
			return unanswered(at, open)
		}
		switch m.Role {
		case "system", "developer", "user":
		case "assistant":
			for j, c := range m.ToolCalls {
				if c.ID == "" || c.Type != "function" || c.Function.Name == "" {
					return badRequest(fmt.Sprintf("%s.tool_calls[%d]", at, j), "missing_required_parameter",
						"Missing required parameter: '%s.tool_calls[%d]' needs id, type 'function' and function.name.", at, j)
				}
				open = append(open, c.ID)
			}
		case "tool":
			k := indexOf(open, m.ToolCallID)
			if k < 0 {
				return badRequest(at+".role", "", "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.")
			}
			open = append(open[:k], open[k+1:]...)
		default:
			return badRequest(at+".role", "invalid_value",
				"Invalid value: '%.100s'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.", m.Role)
		}
		text, ok := contentText(m.Content)
		if !ok || len(m.Content) == 0 && len(m.ToolCalls) == 0 || string(m.Content) == "null" && len(m.ToolCalls) == 0 {
			return badRequest(at+".content", "invalid_type", "Invalid type for '%s.content': expected a string or an array of objects with a type.", at)
		}
		m.text = text
		if m.Role == "user" {
			m.text, m.context = splitContext(text)
		}
	}
	if len(open) > 0 {
		return unanswered(fmt.Sprintf("messages[%d]", len(req.Messages)-1), open)
	}
	return nil
}

func unanswered(at string, ids []string) *apiError {
	return badRequest(at, "", "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "+
		"The following tool_call_ids did not have response messages: %.500s", strings.Join(ids, ", "))
}

// contentText joins the text of a message's content: a string, null, or parts of which those of another kind are passed over.
func contentText(raw json.RawMessage) (string, bool) {
	var text string
	if len(raw) == 0 || string(raw) == "null" {
		return "", true
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, true
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range parts {
		if p.Type == "" {
			return "", false
		}
		b.WriteString(p.Text)
	}
	return b.String(), true
}

var functionName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

func checkTools(req *request) *apiError {
	if req.Tools != nil && len(req.Tools) == 0 {
		return badRequest("tools", "empty_array", "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.")
	}
	for i := range req.Tools {
		t := &req.Tools[i]
		at := fmt.Sprintf("tools[%d]", i)
		var object map[string]json.RawMessage
		switch {
		case t.Type != "function":
			return badRequest(at+".type", "invalid_value", "Invalid value: '%.100s'. Supported values are: 'function'.", t.Type)
		case !functionName.MatchString(t.Function.Name):
			return badRequest(at+".function.name", "invalid_value", "Invalid '%s.function.name': string does not match pattern '^[a-zA-Z0-9_-]+$'.", at)
		case len(t.Function.Parameters) > 0 && json.Unmarshal(t.Function.Parameters, &object) != nil:
			return badRequest(at+".function.parameters", "invalid_type", "Invalid type for '%s.function.parameters': expected an object.", at)
		}
	}
	if len(req.ToolChoice) > 0 && string(req.ToolChoice) != "null" && len(req.Tools) == 0 {
		return badRequest("tool_choice", "", "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified.")
	}
	return nil
}

func indexOf(list []string, s string) int {
	for i, x := range list {
		if x == s {
			return i
		}
	}
	return -1
}

// offers reports whether the model may call a tool.
func (r *request) offers(name string) bool {
	var choice string
	if json.Unmarshal(r.ToolChoice, &choice) == nil && choice == "none" {
		return false
	}
	for i := range r.Tools {
		if r.Tools[i].Function.Name == name {
			return true
		}
	}
	return false
}

func (r *request) parallel() bool { return r.ParallelToolCalls == nil || *r.ParallelToolCalls }

// maxTokens is the bound of the answer, 0 for none.
func (r *request) maxTokens() int {
	switch {
	case r.MaxCompletionTokens != nil:
		return *r.MaxCompletionTokens
	case r.MaxTokens != nil:
		return *r.MaxTokens
	default:
		return 0
	}
}

// promptTokens counts four bytes as a token.
func (r *request) promptTokens() int {
	n := 0
	for i := range r.Messages {
		n += len(r.Messages[i].Content)
		for _, c := range r.Messages[i].ToolCalls {
			n += len(c.Function.Arguments)
		}
	}
	for i := range r.Tools {
		n += len(r.Tools[i].Function.Parameters)
	}
	if r.ResponseFormat != nil && r.ResponseFormat.JSONSchema != nil {
		n += len(r.ResponseFormat.JSONSchema.Schema)
	}
	return (n + 3) / 4
}

// knownParameter reports whether OpenAI has a parameter of this name.
func knownParameter(name string) bool {
	switch name {
	case "messages", "model", "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
		"metadata", "modalities", "n", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_retention",
		"reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "stream_options",
		"temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity", "web_search_options":
		return true
	default:
		return false
	}
}
