package openai

import (
	"cmp"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/dialog"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// reply gathers the chunks of one completion.
type reply struct {
	call      *wire.Call
	model     string
	reasoning strings.Builder
	text      strings.Builder
	cited     []agent.Annotation // of the text
	media     []agent.Block      // images and audio, whole
	sound     []byte             // audio as far as it has arrived
	calls     []*toolCall        // in order of appearance
	usage     agent.Usage
	finish    agent.FinishReason
	refused   bool
}

type toolCall struct {
	index int64
	id    string
	name  string
	args  strings.Builder
}

// add takes the data of one event. done reports that it ends the stream.
func (r *reply) add(data []byte) (done bool, err error) {
	if isDone(data) {
		return true, nil
	}
	var c chunk
	if err := c.decode(data); err != nil {
		return false, r.call.Malformed(err)
	}
	if c.reportsError() {
		return false, r.call.StreamError(data)
	}
	return false, r.addChunk(&c)
}

func (r *reply) addChunk(chunk *chunk) error {
	if chunk.Model != "" {
		r.model = chunk.Model
	}
	if chunk.Usage != nil {
		r.usage = agent.Usage{
			InputTokens:     chunk.Usage.PromptTokens,
			OutputTokens:    chunk.Usage.CompletionTokens,
			CachedTokens:    chunk.Usage.PromptTokensDetails.CachedTokens,
			ReasoningTokens: chunk.Usage.CompletionTokensDetails.ReasoningTokens,
		}
	}
	for i := range chunk.Choices {
		if chunk.Choices[i].Index != 0 { // we ask for one
			continue
		}
		if err := r.addChoice(&chunk.Choices[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *reply) addChoice(choice *choice) error {
	delta := &choice.Delta
	if s := cmp.Or(delta.ReasoningContent, delta.Reasoning); s != "" {
		r.reasoning.WriteString(s)
		if err := r.call.Emit(agent.Delta{Reasoning: s}); err != nil {
			return err
		}
	}
	if delta.Refusal != "" {
		r.refused = true
	}
	transcript := ""
	if delta.Audio != nil {
		transcript = delta.Audio.Transcript
	}
	for _, s := range []string{delta.Content, delta.Refusal, transcript} {
		if s == "" {
			continue
		}
		r.text.WriteString(s)
		if err := r.call.Emit(agent.Delta{Text: s}); err != nil {
			return err
		}
	}
	if err := r.addExtras(delta); err != nil {
		return err
	}
	for i := range delta.ToolCalls {
		if err := r.addCall(&delta.ToolCalls[i]); err != nil {
			return err
		}
	}
	if choice.FinishReason != "" {
		r.finish = finishOf(choice.FinishReason)
	}
	return nil
}

// addCall puts a fragment where it belongs: by index, except that a new id at a known index is a new call, for servers that number
// every call 0.
func (r *reply) addCall(d *callDelta) error {
	var call *toolCall
	for _, c := range r.calls {
		if c.index == d.Index {
			call = c // the last of that index
		}
	}
	if call == nil || (d.ID != "" && call.id != "" && d.ID != call.id) {
		call = &toolCall{index: d.Index}
		r.calls = append(r.calls, call)
	}
	if d.ID != "" {
		call.id = d.ID
	}
	if d.Function.Name != call.name { // some servers repeat it in every chunk
		call.name += d.Function.Name
	}
	call.args.WriteString(d.Function.Arguments)
	return r.call.Count(len(d.ID) + len(d.Function.Name) + len(d.Function.Arguments))
}

func finishOf(reason string) agent.FinishReason {
	switch reason {
	case "length":
		return agent.FinishLength
	case "content_filter":
		return agent.FinishContentFilter
	case "tool_calls", "function_call":
		return agent.FinishToolCalls
	default:
		return agent.FinishStop
	}
}

// partial is the reply so far: never authoritative, hence without tool calls.
func (r *reply) partial() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, Received: r.call.Received()}
	if r.reasoning.Len() > 0 {
		reply.Blocks = append(reply.Blocks, agent.Block{Type: agent.BlockReasoning, Reasoning: r.reasoning.String()})
	}
	if r.text.Len() > 0 {
		text := agent.Text(r.text.String())
		text.Annotations = r.cited
		reply.Blocks = append(reply.Blocks, text)
	}
	return reply
}

func (r *reply) complete() agent.ModelReply {
	reply := r.partial()
	reply.Received = 0 // nothing is missing
	reply.Blocks = append(reply.Blocks, r.media...)
	for _, c := range r.calls {
		reply.Blocks = append(reply.Blocks, dialog.Call(c.id, c.name, c.args.String()))
	}
	reply.FinishReason = r.finish
	switch {
	case r.refused:
		reply.FinishReason = agent.FinishContentFilter
	case r.finish == agent.FinishStop && len(r.calls) > 0: // some servers say stop
		reply.FinishReason = agent.FinishToolCalls
	}
	return reply
}
