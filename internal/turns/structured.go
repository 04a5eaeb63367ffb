package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// structuredTool is the tool for structured answers of models that cannot enforce a schema (LangChain v1's ToolStrategy).
const structuredTool = "structured_response"

// structuredTries is the number of replies that may miss the output schema before the turn fails.
const structuredTries = 2

// addAnswerTool adds a tool for the structured answer to a request, if it has an output schema that the model cannot enforce itself. It returns
// the tool's name, or "".
func addAnswerTool(req *agent.ModelRequest, m agent.Model) string {
	if len(req.OutputSchema) == 0 {
		return ""
	}
	if c, ok := m.(agent.Capable); ok && c.Capabilities().OutputSchema {
		return ""
	}
	name := structuredTool
	for slices.ContainsFunc(req.Tools, func(t agent.ToolSpec) bool { return t.Name == name }) {
		name += "_"
	}
	req.Tools = append(slices.Clip(req.Tools), agent.ToolSpec{
		Name: name, Parameters: req.OutputSchema, Strict: true,
		Description: "Gives the final answer. Call it once, when everything that is needed is known; the arguments are the answer.",
	})
	req.ToolChoice, req.OutputSchema = "required", nil
	return name
}

// requestReply makes a request, with an answer tool if the model needs one. Text beside the call of that tool is held back until the reply is
// complete: it is shown only if there is no answer.
func requestReply(ctx context.Context, m agent.Model, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	tool := addAnswerTool(&req, m)
	if tool == "" {
		return m.Generate(ctx, req, emit)
	}
	var held strings.Builder
	reply, err := m.Generate(ctx, req, func(d agent.Delta) error {
		held.WriteString(d.Text)
		if d.Text = ""; d == (agent.Delta{}) {
			return context.Cause(ctx)
		}
		return emit(d)
	})
	if err != nil {
		return reply, err
	}
	text := unwrapAnswer(&reply, tool)
	if text == "" {
		text = held.String()
	}
	if text != "" {
		err = emit(agent.Delta{Text: text})
	}
	return reply, err
}

// unwrapAnswer replaces the call of the answer tool by its arguments as text, and returns that text. If the reply calls other tools too, the
// answer came too early and is dropped.
func unwrapAnswer(reply *agent.ModelReply, tool string) string {
	if tool == "" {
		return ""
	}
	var text string
	var kept []agent.Block
	early := false
	for i := range reply.Blocks {
		b := &reply.Blocks[i]
		switch {
		case (b.Type == agent.BlockToolCall || b.Type == agent.BlockInvalidToolCall) && b.Name == tool:
			if text == "" {
				text = compact(b.Args)
			}
			continue
		case b.Type == agent.BlockToolCall, b.Type == agent.BlockInvalidToolCall:
			early = true
		}
		kept = append(kept, *b)
	}
	if text == "" || early {
		reply.Blocks = kept
		return ""
	}
	// Text beside the answer is no part of it.
	kept = slices.DeleteFunc(kept, func(b agent.Block) bool { return b.Type == agent.BlockText })
	kept = append(kept, agent.Text(text))
	reply.Blocks = kept
	if reply.FinishReason == agent.FinishToolCalls {
		reply.FinishReason = agent.FinishStop
	}
	return text
}

// checkStructure checks a final reply against the turn's schema. A reply that misses it gets feedback for the model.
func (r *modelRun) checkStructure(reply *agent.ModelReply) {
	if len(r.turn.schema) == 0 || slices.ContainsFunc(reply.Blocks, func(b agent.Block) bool { return b.Type == agent.BlockToolCall }) {
		return
	}
	err := r.ts.Schemas.Check("output", r.turn.schema, structuredOf(reply.Blocks))
	if err == nil {
		return
	}
	r.missed = err.Error()
	reply.Feedback = "Your answer does not satisfy the required JSON schema: " + r.missed +
		"\nAnswer again with JSON that satisfies it, and nothing else."
}

// structuredOf returns the text of a reply as a document, empty if there is none.
func structuredOf(blocks []agent.Block) json.RawMessage {
	return json.RawMessage(strings.TrimSpace(agent.Normalize(blocks)))
}

// compact returns a document without white space, or the input if it is not JSON.
func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return string(raw)
	}
	return out.String()
}
