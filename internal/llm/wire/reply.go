package wire

import (
	"encoding/base64"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// Reply collects the fragments of one reply, for providers that do not number its blocks. It emits text and reasoning as they come, and media once
// they are complete.
type Reply struct {
	Model  string
	Usage  agent.Usage
	Finish agent.FinishReason // empty until the provider has sent it

	call      *Call
	reasoning strings.Builder
	text      strings.Builder
	citations []agent.Annotation // of the text
	media     []agent.Block
	audio     []byte // that has arrived so far
	audioType string
}

// NewReply returns an empty reply of the exchange by a model.
func (c *Call) NewReply(model string) Reply { return Reply{call: c, Model: model} }

// AddText adds and emits a fragment of text.
func (r *Reply) AddText(s string) error {
	r.text.WriteString(s)
	return r.call.Emit(agent.Delta{Text: s})
}

// AddReasoning adds and emits a fragment of reasoning.
func (r *Reply) AddReasoning(s string) error {
	r.reasoning.WriteString(s)
	return r.call.Emit(agent.Delta{Reasoning: s})
}

// AddCitations adds and emits citations of the text. They came in size bytes.
func (r *Reply) AddCitations(citations []agent.Annotation, size int) error {
	r.citations = append(r.citations, citations...)
	return r.emitBlock(agent.Block{Type: agent.BlockText, Annotations: citations}, size)
}

// AddMedia adds and emits a complete block. It came in size bytes.
func (r *Reply) AddMedia(b agent.Block, size int) error {
	r.media = append(r.media, b)
	return r.emitBlock(b, size)
}

func (r *Reply) emitBlock(b agent.Block, size int) error {
	if err := r.call.Count(size); err != nil {
		return err
	}
	return r.call.Emit(agent.Delta{Block: &b})
}

// AddAudio adds a piece of audio. All pieces become one block at the end.
func (r *Reply) AddAudio(piece []byte, mimeType string) error {
	r.audio, r.audioType = append(r.audio, piece...), mimeType
	return r.call.Count(len(piece))
}

// Partial returns the text and reasoning so far, without media and tool calls.
func (r *Reply) Partial() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.Usage, Model: r.Model, Received: r.call.Received()}
	if r.reasoning.Len() > 0 {
		reply.Blocks = append(reply.Blocks, agent.Block{Type: agent.BlockReasoning, Reasoning: r.reasoning.String()})
	}
	if r.text.Len() > 0 {
		text := agent.Text(r.text.String())
		text.Annotations = r.citations
		reply.Blocks = append(reply.Blocks, text)
	}
	return reply
}

// End returns the complete reply with its tool calls. If the stream ended with streamError or without a finish reason, it returns the partial reply
// and the failure.
func (r *Reply) End(streamError error, calls []agent.Block) (agent.ModelReply, error) {
	if err := r.call.Failure(streamError); err != nil {
		return r.Partial(), err
	}
	if r.Finish == "" {
		return r.Partial(), r.call.Incomplete()
	}
	if len(r.audio) > 0 {
		b := agent.Block{Type: agent.BlockAudio, MIMEType: r.audioType, Base64: base64.StdEncoding.EncodeToString(r.audio)}
		if err := r.AddMedia(b, 0); err != nil {
			return r.Partial(), r.call.Failure(err)
		}
	}
	reply := r.Partial()
	reply.Received = 0 // it is for partial replies only
	reply.Blocks = append(append(reply.Blocks, r.media...), calls...)
	reply.FinishReason = r.Finish
	if r.Finish == agent.FinishStop && len(calls) > 0 { // some servers say stop in both cases
		reply.FinishReason = agent.FinishToolCalls
	}
	return reply, nil
}
