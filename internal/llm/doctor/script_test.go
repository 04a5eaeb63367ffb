package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// answer is a scripted reply or failure.
type answer struct {
	agent.ModelReply

	isEndless bool // repeat the text until the context ends
	err       error
}

func textAnswer(s string) answer { return reply(agent.FinishStop, agent.Text(s)) }

func calls(name string, args ...string) answer {
	var blocks []agent.Block
	for i, raw := range args {
		blocks = append(blocks, wire.ToolCall(string(rune('a'+i)), name, raw))
	}
	return reply(agent.FinishToolCalls, blocks...)
}

func reply(finish agent.FinishReason, blocks ...agent.Block) answer {
	return answer{ModelReply: agent.ModelReply{Blocks: blocks, FinishReason: finish, Usage: agent.Usage{InputTokens: 120, OutputTokens: 45}}}
}

func failure(code agent.Code) answer {
	return answer{err: agent.Errorf(code, "call model", "scripted")}
}

// question is a request that a script answers.
type question struct {
	model     string
	text      string // the last message of the user
	code      string // in the result of the tool
	hasResult bool
	hasTools  bool
	hasSchema bool
}

// script is a scripted model.
type script func(question) answer

func (m script) Generate(ctx context.Context, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	q := question{model: req.Model, hasTools: len(req.Tools) > 0, hasSchema: len(req.OutputSchema) > 0}
	for _, message := range req.Messages {
		var result struct{ Code string }
		switch message.Role {
		case agent.RoleUser:
			q.text = agent.Normalize(message.Blocks)
		case agent.RoleTool:
			_ = json.Unmarshal(message.Blocks[0].Output, &result)
			q.hasResult, q.code = true, result.Code
		case agent.RoleSystem, agent.RoleAssistant:
		}
	}
	a := m(q)
	if a.err != nil {
		return agent.ModelReply{}, a.err
	}
	for text := agent.Normalize(a.Blocks); ; {
		for i := 0; i < len(text); i += 4 {
			if err := errors.Join(agent.Interrupted(ctx, "call model"), emit(agent.Delta{Text: text[i:min(len(text), i+4)]})); err != nil {
				return agent.ModelReply{}, err
			}
		}
		if !a.isEndless {
			return a.ModelReply, nil
		}
	}
}

// correctAnswer is the script of a model that passes all checks.
func correctAnswer(q question) answer {
	switch {
	case strings.HasPrefix(q.model, "no-such-model"):
		return failure(agent.CodeNotFound)
	case q.hasResult && q.hasSchema:
		return textAnswer(`{"code":"` + q.code + `"}`)
	case q.hasResult:
		return textAnswer("The code is " + q.code + ".")
	case q.hasTools && strings.Contains(q.text, "Oslo"):
		return calls("lookup_code", `{"city":"Lisbon"}`, `{"city":"Oslo"}`)
	case q.hasTools:
		return calls("lookup_code", `{"city":"Lisbon"}`)
	case q.hasSchema:
		return textAnswer(`{"city":"Lisbon","coastal":true,"rivers":1}`)
	case strings.Contains(q.text, "story"):
		story := textAnswer("and then ")
		story.isEndless = true
		return story
	case strings.Contains(q.text, "Count"):
		return textAnswer("1 2 3 4 5 6 7 8 9")
	case strings.Contains(q.text, "colour"):
		return textAnswer("Red.")
	default:
		return textAnswer("ready")
	}
}
