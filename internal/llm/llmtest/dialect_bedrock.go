package llmtest

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"

	"github.com/turnstone-run/turnstone/agent"
)

// Bedrock is the dialect of Amazon Bedrock's ConverseStream: JSON in binary frames.
type Bedrock struct{}

// BaseURL implements Dialect.
func (Bedrock) BaseURL(server string) string { return server }

// Path implements Dialect.
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

// Frames implements Dialect. Consecutive fragments of text or of reasoning share a content block.
func (d Bedrock) Frames(r Reply) []string {
	frames := []string{d.event("messageStart", object{"role": "assistant"})}
	blocks := 0
	open := ""             // kind of the last block, if it is text or reasoning
	calls := map[int]int{} // call index → content block index
	delta := func(index int, fields object) {
		frames = append(frames, d.event("contentBlockDelta", object{"contentBlockIndex": index, "delta": fields}))
	}
	addWords := func(kind string, fields object) {
		if open != kind {
			open = kind
			blocks++
		}
		delta(blocks-1, fields)
	}
	for _, e := range r.Events {
		switch {
		case e.Text != "":
			addWords("text", object{"text": e.Text})
		case e.Reasoning != "":
			addWords("reasoning", object{"reasoningContent": object{"text": e.Reasoning}})
		case e.Signature != "":
			addWords("reasoning", object{"reasoningContent": object{"signature": e.Signature}})
		case e.Call != nil:
			index, isOpen := calls[e.Call.Index]
			if !isOpen {
				index = blocks
				calls[e.Call.Index] = index
				open = ""
				blocks++
				frames = append(frames, d.event("contentBlockStart", object{
					"contentBlockIndex": index, "start": object{"toolUse": object{"toolUseId": e.Call.ID, "name": e.Call.Name}},
				}))
			}
			if e.Call.Args != "" {
				delta(index, object{"toolUse": object{"input": e.Call.Args}})
			}
		}
	}
	for index := range blocks {
		frames = append(frames, d.event("contentBlockStop", object{"contentBlockIndex": index}))
	}
	return append(frames, d.lastFrames(r)...)
}

// lastFrames returns the frames after the last block.
func (d Bedrock) lastFrames(r Reply) []string {
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

// The last byte of the malformed frame breaks its checksum.
func (d Bedrock) traits() traits {
	exceptions := map[string]string{"rate_limit_error": "throttlingException", "invalid_request_error": "validationException"}
	keepAlive := d.event("messageStart", object{"role": "assistant"})
	malformed := []byte(keepAlive)
	malformed[len(malformed)-1] ^= 1
	return traits{
		APIKey: func(h http.Header) string { return strings.TrimPrefix(h.Get("Authorization"), "Bearer ") },
		StreamError: func(kind, message string) string {
			return d.frame("exception", cmp.Or(exceptions[kind], "internalServerException"), marshal(object{"message": message}))
		},
		Malformed: string(malformed),
		KeepAlive: keepAlive,
		Query: `[.messages[].content[]] as $blocks | {
			temperature: .inferenceConfig.temperature, tools: [.toolConfig.tools[]?.toolSpec.name],
			tool_choice: (.toolConfig.toolChoice | if .any then "required" elif .auto then "auto" else .tool.name // "" end),
			results: [$blocks[].toolResult.toolUseId // empty],
			signature: (first($blocks[].reasoningContent.reasoningText.signature // empty) // "")
		}`,
		SignsReasoning: true,
		ReportedUsage: func(u agent.Usage) agent.Usage {
			u.ReasoningTokens = 0
			return u
		},
		CanSend: func(e Event) bool { return e.Text != "" || e.Reasoning != "" || e.Signature != "" || e.Call != nil },
	}
}

// Refusal implements Dialect.
func (Bedrock) Refusal(_ int, _, message string) string { return marshal(object{"message": message}) }
