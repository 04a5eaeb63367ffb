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

// Frames implements Dialect. Ollama sends each call whole.
func (d Ollama) Frames(r Reply) []string {
	var frames []string
	var calls []*Fragment
	for _, e := range r.Events {
		switch {
		case e.Text != "":
			frames = append(frames, d.line(object{"message": object{"role": "assistant", "content": e.Text}, "done": false}))
		case e.Reasoning != "":
			frames = append(frames, d.line(object{"message": object{"role": "assistant", "content": "", "thinking": e.Reasoning}, "done": false}))
		case e.Call != nil && e.Call.Index < len(calls):
			calls[e.Call.Index].Args += e.Call.Args
		case e.Call != nil:
			whole := *e.Call
			calls = append(calls, &whole)
		}
	}
	for _, c := range calls {
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
		Fault:     func(_, message string) string { return marshal(object{"error": message}) + "\n" },
		Malformed: "{\"model\":\"scripted-1\",\"mess\n",
		Idle:      d.line(object{"message": object{"role": "assistant", "content": ""}, "done": false}),
		Reported: func(u agent.Usage) agent.Usage {
			return agent.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens}
		},
		CanSend: func(e Event) bool { return e.Text != "" || e.Reasoning != "" || e.Call != nil },
	}
}

// Refusal implements Dialect.
func (Ollama) Refusal(_ int, _, message string) string { return marshal(object{"error": message}) }

func (Ollama) read(body []byte) (sentRequest, error) {
	var req struct {
		Options struct{ Temperature *float64 }
		Tools   []struct{ Function struct{ Name string } }
		Format  json.RawMessage
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return sentRequest{}, err
	}
	s := sentRequest{Temperature: req.Options.Temperature, Schema: len(req.Format) > 2, Results: resultsOf(body)}
	for _, t := range req.Tools {
		s.Tools = append(s.Tools, t.Function.Name)
	}
	return s, nil
}
