package openai

import (
	"cmp"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// reply collects the chunks of one completion.
type reply struct {
	wire.Reply

	call      *wire.Call
	chunk     chunk       // the last one, whose memory is used again
	calls     []*toolCall // in order of appearance
	isRefusal bool
}

type toolCall struct {
	index int64
	id    string
	name  string
	args  strings.Builder
}

// add adds the data of one event, and reports whether it ends the stream.
func (r *reply) add(data []byte) (done bool, err error) {
	if isDone(data) {
		return true, nil
	}
	r.chunk = chunk{Choices: r.chunk.Choices[:0]}
	if err := wire.Decode(data, &r.chunk); err != nil {
		return false, r.call.Malformed(err)
	}
	if r.chunk.isError() {
		return false, r.call.StreamError(data)
	}
	return false, r.addChunk(&r.chunk)
}

func (r *reply) addChunk(chunk *chunk) error {
	if chunk.Model != "" {
		r.Model = chunk.Model
	}
	if chunk.Usage != nil {
		r.Usage = agent.Usage{
			InputTokens:     chunk.Usage.PromptTokens,
			OutputTokens:    chunk.Usage.CompletionTokens,
			CachedTokens:    chunk.Usage.PromptTokensDetails.CachedTokens,
			ReasoningTokens: chunk.Usage.CompletionTokensDetails.ReasoningTokens,
		}
	}
	for i := range chunk.Choices {
		if chunk.Choices[i].Index != 0 { // requests ask for one
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
		if err := r.AddReasoning(s); err != nil {
			return err
		}
	}
	if delta.Refusal != "" {
		r.isRefusal = true
	}
	transcript := ""
	if delta.Audio != nil {
		transcript = delta.Audio.Transcript
	}
	for _, s := range []string{delta.Content, delta.Refusal, transcript} {
		if s == "" {
			continue
		}
		if err := r.AddText(s); err != nil {
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
		r.Finish = finishOf(choice.FinishReason)
	}
	return nil
}

// addCall adds a fragment to the call of its index. A new id begins another call, because some servers number every call 0.
func (r *reply) addCall(d *callDelta) error {
	var call *toolCall
	for _, c := range r.calls {
		if c.index == d.Index {
			call = c // the last one counts
		}
	}
	if call == nil || (d.ID != "" && call.id != "" && d.ID != call.id) {
		call = &toolCall{index: d.Index}
		r.calls = append(r.calls, call)
	}
	if d.ID != "" {
		call.id = d.ID
	}
	if d.Function.Name != call.name { // some servers repeat the name in every chunk
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

// end returns the reply after a stream that ended with streamError.
func (r *reply) end(streamError error) (agent.ModelReply, error) {
	var calls []agent.Block
	for _, c := range r.calls {
		calls = append(calls, wire.ToolCall(c.id, c.name, c.args.String()))
	}
	reply, err := r.End(streamError, calls)
	if err == nil && r.isRefusal {
		reply.FinishReason = agent.FinishContentFilter
	}
	return reply, err
}
