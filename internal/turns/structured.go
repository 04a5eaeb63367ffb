package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// structuredTool is the name of the tool for structured answers of models that cannot enforce a schema (LangChain v1's ToolStrategy).
const structuredTool = "structured_response"

// structuredTries is the number of replies that may violate the output schema before the turn fails.
const structuredTries = 2

// addAnswerTool adds a tool for the structured answer to a request, if the request has an output schema that the model cannot enforce. It returns the
// name of the tool, or "" if it has added none.
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

// requestReply makes a request, with an answer tool if the model needs one. It then holds the text back until the reply is complete, because the text is
// shown only if the model has not called the answer tool.
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

// unwrapAnswer replaces the call of the answer tool by its arguments as text, and returns that text. If the reply also calls other tools, the answer is
// premature and unwrapAnswer only removes it.
func unwrapAnswer(reply *agent.ModelReply, tool string) string {
	var text string
	var kept []agent.Block
	isPremature := false
	for i := range reply.Blocks {
		b := &reply.Blocks[i]
		switch {
		case (b.Type == agent.BlockToolCall || b.Type == agent.BlockInvalidToolCall) && b.Name == tool:
			if text == "" {
				text = compact(b.Args)
			}
			continue
		case b.Type == agent.BlockToolCall, b.Type == agent.BlockInvalidToolCall:
			isPremature = true
		}
		kept = append(kept, *b)
	}
	if text == "" || isPremature {
		reply.Blocks = kept
		return ""
	}
	// Other text of the reply is not part of the answer.
	kept = slices.DeleteFunc(kept, func(b agent.Block) bool { return b.Type == agent.BlockText })
	kept = append(kept, agent.Text(text))
	reply.Blocks = kept
	if reply.FinishReason == agent.FinishToolCalls {
		reply.FinishReason = agent.FinishStop
	}
	return text
}

// checkStructure checks a final reply against the turn's schema. If the reply violates the schema, it gets feedback for the model.
func (r *modelRun) checkStructure(reply *agent.ModelReply) {
	if len(r.turn.schema) == 0 || slices.ContainsFunc(reply.Blocks, func(b agent.Block) bool { return b.Type == agent.BlockToolCall }) {
		return
	}
	err := r.ts.Schemas.Check("output", r.turn.schema, structuredOf(reply.Blocks))
	if err == nil {
		return
	}
	r.schemaError = err.Error()
	reply.Feedback = "Your answer does not satisfy the required JSON schema: " + r.schemaError +
		"\nAnswer again with JSON that satisfies it, and nothing else."
}

// structuredOf returns the text of a reply as a JSON document, which is not checked.
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
