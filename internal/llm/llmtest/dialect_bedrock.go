package llmtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/turnstone-run/turnstone/agent"
)

// Bedrock is the dialect of Amazon Bedrock's ConverseStream: JSON in binary frames.
type Bedrock struct{}

// BaseURL implements Dialect.
func (Bedrock) BaseURL(server string) string { return server }

// Path implements Dialect: the model is in it.
func (Bedrock) Path() string { return "/model/*/converse-stream" }

// ContentType implements Dialect.
func (Bedrock) ContentType() string { return "application/vnd.amazon.eventstream" }

func (Bedrock) frame(kind, name, payload string) string {
	var m eventstream.Message
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	m.Headers.Set(":"+kind+"-type", eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	m.Payload = []byte(payload)
	var b bytes.Buffer
	if err := eventstream.NewEncoder().Encode(&b, m); err != nil {
		return err.Error()
	}
	return b.String()
}

func (d Bedrock) event(name string, fields object) string {
	return d.frame("event", name, marshal(fields))
}

// Frames implements Dialect.
func (d Bedrock) Frames(r Reply) []string {
	frames := []string{d.event("messageStart", object{"role": "assistant"})}
	next, words := 0, ""
	at := -1 // index of the open block of words
	calls := map[int]int{}
	delta := func(index int, fields object) {
		frames = append(frames, d.event("contentBlockDelta", object{"contentBlockIndex": index, "delta": fields}))
	}
	speak := func(kind string, fields object) {
		if words != kind {
			words, at, next = kind, next, next+1
		}
		delta(at, fields)
	}
	for _, e := range r.Events {
		switch {
		case e.Text != "":
			speak("text", object{"text": e.Text})
		case e.Reasoning != "":
			speak("reasoning", object{"reasoningContent": object{"text": e.Reasoning}})
		case e.Signature != "":
			speak("reasoning", object{"reasoningContent": object{"signature": e.Signature}})
		case e.Call != nil:
			index, open := calls[e.Call.Index]
			if !open {
				index, words, next = next, "", next+1
				calls[e.Call.Index] = index
				frames = append(frames, d.event("contentBlockStart", object{
					"contentBlockIndex": index, "start": object{"toolUse": object{"toolUseId": e.Call.ID, "name": e.Call.Name}},
				}))
			}
			if e.Call.Args != "" {
				delta(index, object{"toolUse": object{"input": e.Call.Args}})
			}
		}
	}
	for index := range next {
		frames = append(frames, d.event("contentBlockStop", object{"contentBlockIndex": index}))
	}
	return append(frames, d.ending(r)...)
}

// ending returns the frames behind the last block.
func (d Bedrock) ending(r Reply) []string {
	reason := map[agent.FinishReason]string{
		agent.FinishLength: "max_tokens", agent.FinishContentFilter: "content_filtered", agent.FinishToolCalls: "tool_use",
	}[r.Finish]
	if reason == "" {
		reason = "end_turn"
	}
	return []string{d.event("messageStop", object{"stopReason": reason}), d.event("metadata", object{
		"usage": object{
			"inputTokens": r.Usage.InputTokens - r.Usage.CachedTokens, "cacheReadInputTokens": r.Usage.CachedTokens, "cacheWriteInputTokens": 0,
			"outputTokens": r.Usage.OutputTokens, "totalTokens": r.Usage.InputTokens + r.Usage.OutputTokens,
		},
		"metrics": object{"latencyMs": 12},
	})}
}

// The malformed frame has a wrong checksum.
func (d Bedrock) traits() traits {
	exceptions := map[string]string{"rate_limit_error": "throttlingException", "invalid_request_error": "validationException"}
	idle := d.event("messageStart", object{"role": "assistant"})
	malformed := []byte(idle)
	malformed[len(malformed)-1] ^= 1
	return traits{
		Key: func(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") },
		Fault: func(kind, message string) string {
			return d.frame("exception", cmp.Or(exceptions[kind], "internalServerException"), marshal(object{"message": message}))
		},
		Malformed:      string(malformed),
		Idle:           idle,
		SignsReasoning: true,
		Reported: func(u agent.Usage) agent.Usage {
			u.ReasoningTokens = 0
			return u
		},
		CanSend: func(e Event) bool { return e.Text != "" || e.Reasoning != "" || e.Signature != "" || e.Call != nil },
	}
}

// Refusal implements Dialect.
func (Bedrock) Refusal(_ int, _, message string) string { return marshal(object{"message": message}) }

func (Bedrock) read(body []byte) (sentRequest, error) {
	var req struct {
		Messages []struct {
			Content []struct {
				ToolResult       struct{ ToolUseID string }
				ReasoningContent struct{ ReasoningText struct{ Signature string } }
			}
		}
		InferenceConfig struct{ Temperature *float64 }
		ToolConfig      struct {
			Tools      []struct{ ToolSpec struct{ Name string } }
			ToolChoice map[string]struct{ Name string }
		}
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return sentRequest{}, err
	}
	s := sentRequest{Temperature: req.InferenceConfig.Temperature}
	for _, t := range req.ToolConfig.Tools {
		s.Tools = append(s.Tools, t.ToolSpec.Name)
	}
	for kind, choice := range req.ToolConfig.ToolChoice {
		s.ToolChoice = map[string]string{"auto": "auto", "any": "required", "tool": choice.Name}[kind]
	}
	for _, m := range req.Messages {
		for _, c := range m.Content {
			if id := c.ToolResult.ToolUseID; id != "" {
				s.Results = append(s.Results, id)
			}
			s.Signature = cmp.Or(s.Signature, c.ReasoningContent.ReasoningText.Signature)
		}
	}
	return s, nil
}
