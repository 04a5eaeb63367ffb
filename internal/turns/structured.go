package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// structuredTool is the tool through which a model answers that enforces no schema itself (LangChain v1's ToolStrategy).
const structuredTool = "structured_response"

// structuredTries is how many replies may miss the output schema before the turn fails.
const structuredTries = 2

// shape asks for a structured answer in the way that a model understands: its own, or by a tool that it has to call. It returns the
// tool's name, "" when there is none.
func shape(req *agent.ModelRequest, m agent.Model) string {
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

// answer makes the request in the shape that the model understands. Where a tool carries the answer, words beside it are held back
// until it is known whether they are of the conversation or only beside the answer.
func answer(ctx context.Context, m agent.Model, req agent.ModelRequest, emit func(agent.Delta) error) (agent.ModelReply, error) {
	tool := shape(&req, m)
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
	text := unwrap(&reply, tool)
	if text == "" {
		text = held.String()
	}
	if text != "" {
		err = emit(agent.Delta{Text: text})
	}
	return reply, err
}

// unwrap turns the call of the structured tool into the text that a model of its own schema would have written, and returns that text.
// Beside calls of real tools the answer came too early, and goes.
func unwrap(reply *agent.ModelReply, tool string) string {
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
	// What a model says beside its answer is no part of it.
	kept = slices.DeleteFunc(kept, func(b agent.Block) bool { return b.Type == agent.BlockText })
	kept = append(kept, agent.Text(text))
	reply.Blocks = kept
	if reply.FinishReason == agent.FinishToolCalls {
		reply.FinishReason = agent.FinishStop
	}
	return text
}

// structure checks a final reply against the turn's schema. One that misses it goes back to the model with what is wrong.
func (r *modelRun) structure(reply *agent.ModelReply) {
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

// structuredOf is the document that a reply's text is, "" when it is no text.
func structuredOf(blocks []agent.Block) json.RawMessage {
	return json.RawMessage(strings.TrimSpace(agent.Normalize(blocks)))
}

// compact returns a document without needless space, or what came when it is none.
func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return string(raw)
	}
	return out.String()
}
