package offline

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// The shapes of a completion, whole and in chunks, as OpenAI sends them.
type (
	completion struct {
		ID                string   `json:"id"`
		Object            string   `json:"object"`
		Created           int64    `json:"created"`
		Model             string   `json:"model"`
		Choices           []choice `json:"choices"`
		Usage             *usage   `json:"usage"`
		SystemFingerprint string   `json:"system_fingerprint"`
	}
	choice struct {
		Index        int       `json:"index"`
		Message      *said     `json:"message,omitempty"`
		Delta        *delta    `json:"delta,omitempty"`
		Logprobs     *struct{} `json:"logprobs"`
		FinishReason *string   `json:"finish_reason"`
	}
	said struct {
		Role      string     `json:"role"`
		Content   *string    `json:"content"`
		ToolCalls []toolCall `json:"tool_calls,omitempty"`
		Refusal   *string    `json:"refusal"`
	}
	delta struct {
		Role      string      `json:"role,omitempty"`
		Content   *string     `json:"content,omitempty"`
		ToolCalls []callDelta `json:"tool_calls,omitempty"`
	}
	callDelta struct {
		Index    int           `json:"index"`
		ID       string        `json:"id,omitempty"`
		Type     string        `json:"type,omitempty"`
		Function functionDelta `json:"function"`
	}
	functionDelta struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	usage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
	}
)

func (r *reply) usage(req *request) *usage {
	u := &usage{PromptTokens: req.promptTokens(), CompletionTokens: r.tokens()}
	u.TotalTokens = u.PromptTokens + u.CompletionTokens
	return u
}

func frame(req *request, object string, choices ...choice) completion {
	if choices == nil {
		choices = []choice{}
	}
	return completion{
		ID: "chatcmpl-" + strings.TrimPrefix(callID(req, -1), "call_"), Object: object, Created: time.Now().Unix(), Model: req.Model,
		Choices: choices, SystemFingerprint: "fp_turnstone_offline",
	}
}

// whole is the answer to a request that does not stream.
func whole(req *request, r *reply) completion {
	s := &said{Role: "assistant", ToolCalls: r.calls}
	if len(r.calls) == 0 {
		s.Content = &r.text
	}
	c := frame(req, "chat.completion", choice{Message: s, FinishReason: &r.finish})
	c.Usage = r.usage(req)
	return c
}

// stream writes the answer as server-sent events, one token each, until the client leaves.
func stream(w http.ResponseWriter, r *http.Request, req *request, reply *reply) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	out := http.NewResponseController(w)
	base := frame(req, "chat.completion.chunk")
	includeUsage := req.StreamOptions != nil && req.StreamOptions.IncludeUsage
	send := func(choices []choice, u *usage) error {
		base.Choices, base.Usage = choices, u
		var data []byte
		var err error
		if includeUsage {
			data, err = json.Marshal(base)
		} else { // without the option a chunk has no usage at all, not even null
			data, err = json.Marshal(struct {
				completion
				Usage *usage `json:"usage,omitempty"`
			}{completion: base})
		}
		if err != nil {
			return err //nolint:wrapcheck // ends the stream
		}
		if _, err := w.Write([]byte("data: " + string(data) + "\n\n")); err != nil {
			return err //nolint:wrapcheck // ends the stream
		}
		return out.Flush() //nolint:wrapcheck // ends the stream
	}
	for i, d := range reply.deltas() {
		if i > 0 && wait(r.Context(), reply.pace) != nil {
			return
		}
		if send([]choice{{Delta: &d}}, nil) != nil {
			return
		}
	}
	if send([]choice{{Delta: &delta{}, FinishReason: &reply.finish}}, nil) != nil {
		return
	}
	if includeUsage && send([]choice{}, reply.usage(req)) != nil {
		return
	}
	_, _ = w.Write([]byte("data: [DONE]\n\n"))
	_ = out.Flush() // the client has left, or gets it
}

// deltas is the answer in pieces: the first says who speaks, or which tool is called; a call's later ones carry its arguments.
func (r *reply) deltas() []delta {
	empty := ""
	if len(r.calls) == 0 {
		out := []delta{{Role: "assistant", Content: &empty}}
		for _, p := range pieces(r.text) {
			out = append(out, delta{Content: &p})
		}
		return out
	}
	var out []delta
	for i, c := range r.calls {
		d := delta{ToolCalls: []callDelta{{Index: i, ID: c.ID, Type: c.Type, Function: functionDelta{Name: c.Function.Name}}}}
		if i == 0 {
			d.Role = "assistant"
		}
		out = append(out, d)
		for _, f := range fragments(c.Function.Arguments) {
			out = append(out, delta{ToolCalls: []callDelta{{Index: i, Function: functionDelta{Arguments: f}}}})
		}
	}
	return out
}
