package llmtest

import (
	"encoding/json"

	"github.com/turnstone-run/turnstone/agent"
)

// Ollama is the dialect of Ollama's own chat endpoint: one JSON object per line.
type Ollama struct{}

// BaseURL implements Dialect.
func (Ollama) BaseURL(server string) string { return server }

// Path implements Dialect.
func (Ollama) Path() string { return "/api/chat" }

// ContentType implements Dialect.
func (Ollama) ContentType() string { return "application/x-ndjson" }

func (Ollama) line(fields object) string {
	fields["model"], fields["created_at"] = ModelName, "2025-12-01T00:00:00Z"
	return marshal(fields) + "\n"
}

// Frames implements Dialect. It sends each call whole, after all text.
func (d Ollama) Frames(r Reply) []string {
	var frames []string
	for _, e := range r.Events {
		switch {
		case e.Text != "":
			frames = append(frames, d.line(object{"message": object{"role": "assistant", "content": e.Text}, "done": false}))
		case e.Reasoning != "":
			frames = append(frames, d.line(object{"message": object{"role": "assistant", "content": "", "thinking": e.Reasoning}, "done": false}))
		}
	}
	for _, c := range wholeCalls(r.Events) {
		args := json.RawMessage(c.Args)
		if !json.Valid(args) {
			args = json.RawMessage("{}")
		}
		frames = append(frames, d.line(object{"message": object{
			"role": "assistant", "content": "",
			"tool_calls": []object{{"id": c.ID, "function": object{"name": c.Name, "arguments": args}}},
		}, "done": false}))
	}
	reason := "stop"
	if r.Finish == agent.FinishLength {
		reason = "length"
	}
	return append(frames, d.line(object{
		"message": object{"role": "assistant", "content": ""}, "done": true, "done_reason": reason,
		"total_duration": 1000, "prompt_eval_count": r.Usage.InputTokens, "eval_count": r.Usage.OutputTokens,
	}))
}

func (d Ollama) traits() traits {
	return traits{
		StreamError: func(_, message string) string { return marshal(object{"error": message}) + "\n" },
		Malformed:   "{\"model\":\"scripted-1\",\"mess\n",
		KeepAlive:   d.line(object{"message": object{"role": "assistant", "content": ""}, "done": false}),
		Query: `{
			temperature: .options.temperature, tools: [.tools[]?.function.name], has_schema: ((.format // "") != ""),
			results: [.messages[].tool_call_id // empty]
		}`,
		ReportedUsage: func(u agent.Usage) agent.Usage {
			return agent.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
		},
		CanSend: func(e Event) bool { return e.Text != "" || e.Reasoning != "" || e.Call != nil },
	}
}

// Refusal implements Dialect.
func (Ollama) Refusal(_ int, _, message string) string { return marshal(object{"error": message}) }
