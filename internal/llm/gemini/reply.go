package gemini

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// chunk is one event of the stream. Its usage is for the whole reply until then.
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

// reply collects the chunks of one reply.
type reply struct {
	wire.Reply

	call  *wire.Call
	calls []agent.Block
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
		r.Model = c.Model
	}
	if u := c.Usage; u != nil {
		r.Usage = agent.Usage{
			InputTokens: u.Prompt + u.ToolPrompt, OutputTokens: u.Candidates + u.Thoughts, CachedTokens: u.Cached, ReasoningTokens: u.Thoughts,
		}
	}
	if c.Feedback != nil && c.Feedback.BlockReason != "" {
		r.Finish = agent.FinishContentFilter
	}
	for i := range min(1, len(c.Candidates)) { // requests ask for one
		candidate := &c.Candidates[i]
		for j := range candidate.Content.Parts {
			if err := r.addPart(&candidate.Content.Parts[j]); err != nil {
				return err
			}
		}
		if err := r.setFinish(candidate.Finish); err != nil {
			return err
		}
	}
	return nil
}

func (r *reply) addPart(p *part) error {
	switch {
	case p.Text != "" && p.Thought:
		return r.AddReasoning(p.Text)
	case p.Text != "":
		return r.AddText(p.Text)
	case p.Call != nil:
		b := wire.ToolCall(p.Call.ID, p.Call.Name, string(p.Call.Args))
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
	if strings.HasPrefix(d.MIMEType, "audio/") { // it comes in pieces
		piece, err := base64.StdEncoding.DecodeString(d.Data)
		if err != nil {
			return r.call.Malformed(err)
		}
		return r.AddAudio(piece, d.MIMEType)
	}
	b := agent.Block{Type: agent.BlockFile, MIMEType: d.MIMEType, Base64: d.Data}
	if strings.HasPrefix(d.MIMEType, "image/") {
		b.Type = agent.BlockImage
	}
	if b.Validate("media") != nil { // without a MIME type it is of no use
		return r.call.Count(len(d.Data))
	}
	return r.AddMedia(b, len(d.Data))
}

// setFinish sets the finish reason. A malformed tool call is an error, because a retry may help.
func (r *reply) setFinish(reason string) error {
	switch reason {
	case "", "FINISH_REASON_UNSPECIFIED":
	case "STOP":
		r.Finish = agent.FinishStop
	case "MAX_TOKENS":
		r.Finish = agent.FinishLength
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		r.Finish = agent.FinishContentFilter
	case "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return r.call.StreamError([]byte(`{"error":{"message":"the model's tool call cannot be read","type":"` + strings.ToLower(reason) + `"}}`))
	default:
		r.Finish = agent.FinishStop
	}
	return nil
}
