package gemini

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/dialog"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// chunk is one event of the stream. Its usage is that of the reply so far.
type chunk struct {
	Candidates []struct {
		Content content `json:"content"`
		Finish  string  `json:"finishReason"`
	} `json:"candidates"`
	Usage *struct {
		Prompt     int64 `json:"promptTokenCount"`
		ToolPrompt int64 `json:"toolUsePromptTokenCount"`
		Candidates int64 `json:"candidatesTokenCount"`
		Thoughts   int64 `json:"thoughtsTokenCount"`
		Cached     int64 `json:"cachedContentTokenCount"`
	} `json:"usageMetadata"`
	Feedback *struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Model string          `json:"modelVersion"`
	Error json.RawMessage `json:"error"`
}

// reply gathers the chunks of one reply.
type reply struct {
	call      *wire.Call
	model     string
	reasoning strings.Builder
	text      strings.Builder
	media     []agent.Block
	sound     []byte // audio as far as it has arrived, of soundType
	soundType string
	calls     []agent.Block
	usage     agent.Usage
	finish    agent.FinishReason
}

func (r *reply) add(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return r.call.Malformed(err)
	}
	if len(c.Error) > 0 {
		return r.call.StreamError(data)
	}
	if c.Model != "" {
		r.model = c.Model
	}
	if u := c.Usage; u != nil {
		r.usage = agent.Usage{
			InputTokens: u.Prompt + u.ToolPrompt, OutputTokens: u.Candidates + u.Thoughts, CachedTokens: u.Cached, ReasoningTokens: u.Thoughts,
		}
	}
	if c.Feedback != nil && c.Feedback.BlockReason != "" {
		r.finish = agent.FinishContentFilter
	}
	for i := range min(1, len(c.Candidates)) { // we ask for one
		candidate := &c.Candidates[i]
		for j := range candidate.Content.Parts {
			if err := r.addPart(&candidate.Content.Parts[j]); err != nil {
				return err
			}
		}
		if err := r.end(candidate.Finish); err != nil {
			return err
		}
	}
	return nil
}

func (r *reply) addPart(p *part) error {
	switch {
	case p.Text != "" && p.Thought:
		r.reasoning.WriteString(p.Text)
		return r.call.Emit(agent.Delta{Reasoning: p.Text})
	case p.Text != "":
		r.text.WriteString(p.Text)
		return r.call.Emit(agent.Delta{Text: p.Text})
	case p.Call != nil:
		b := dialog.Call(p.Call.ID, p.Call.Name, string(p.Call.Args))
		if p.Signature != "" {
			b.Extras, _ = json.Marshal(extras{p.Signature}) // a string always marshals
		}
		r.calls = append(r.calls, b)
		return r.call.Count(len(p.Call.Name) + len(p.Call.Args) + len(p.Signature))
	case p.Data != nil:
		return r.addMedia(p.Data)
	}
	return nil
}

func (r *reply) addMedia(d *blob) error {
	if strings.HasPrefix(d.MIMEType, "audio/") { // in pieces
		piece, err := base64.StdEncoding.DecodeString(d.Data)
		if err != nil {
			return r.call.Malformed(err)
		}
		r.sound, r.soundType = append(r.sound, piece...), d.MIMEType
		return r.call.Count(len(piece))
	}
	b := agent.Block{Type: agent.BlockFile, MIMEType: d.MIMEType, Base64: d.Data}
	if strings.HasPrefix(d.MIMEType, "image/") {
		b.Type = agent.BlockImage
	}
	if b.Validate("media") != nil { // a type that no client could show
		return r.call.Count(len(d.Data))
	}
	if err := r.call.Count(len(d.Data)); err != nil {
		return err
	}
	return r.pass(b)
}

// endSound makes a block of the audio, once it is whole.
func (r *reply) endSound() error {
	if len(r.sound) == 0 {
		return nil
	}
	return r.pass(agent.Block{Type: agent.BlockAudio, MIMEType: r.soundType, Base64: base64.StdEncoding.EncodeToString(r.sound)})
}

// pass hands a whole block on.
func (r *reply) pass(b agent.Block) error {
	r.media = append(r.media, b)
	return r.call.Emit(agent.Delta{Block: &b})
}

// end takes the reason for which a candidate ended. A call that the model garbled is not in the reply: trying again may help.
func (r *reply) end(reason string) error {
	switch reason {
	case "", "FINISH_REASON_UNSPECIFIED":
	case "STOP":
		r.finish = agent.FinishStop
	case "MAX_TOKENS":
		r.finish = agent.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		r.finish = agent.FinishContentFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return r.call.StreamError([]byte(`{"error":{"message":"the model's tool call cannot be read","type":"` + strings.ToLower(reason) + `"}}`))
	default:
		r.finish = agent.FinishStop
	}
	return nil
}

// partial is the reply so far: never authoritative, hence without tool calls.
func (r *reply) partial() agent.ModelReply {
	reply := agent.ModelReply{Usage: r.usage, Model: r.model, Received: r.call.Received()}
	if r.reasoning.Len() > 0 {
		reply.Blocks = append(reply.Blocks, agent.Block{Type: agent.BlockReasoning, Reasoning: r.reasoning.String()})
	}
	if r.text.Len() > 0 {
		reply.Blocks = append(reply.Blocks, agent.Text(r.text.String()))
	}
	return reply
}

func (r *reply) complete() agent.ModelReply {
	reply := r.partial()
	reply.Received = 0 // nothing is missing
	reply.Blocks = append(append(reply.Blocks, r.media...), r.calls...)
	reply.FinishReason = r.finish
	if r.finish == agent.FinishStop && len(r.calls) > 0 { // the API says STOP for both
		reply.FinishReason = agent.FinishToolCalls
	}
	return reply
}
