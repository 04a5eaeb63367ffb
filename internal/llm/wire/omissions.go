package wire

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// RedactedThinking is the type in the value of a non_standard block with encrypted reasoning.
const RedactedThinking = "redacted_thinking"

// Reasons in an [OmissionNote].
const (
	CannotCarry = "the provider cannot take it"
	NotBase64   = "its content is not base64"
)

// OmissionNote returns a text that replaces a block for which the provider has no form, so that the model knows what is missing. The reason is a few
// words such as "the provider takes no audio", or empty.
func OmissionNote(b *agent.Block, reason string) string {
	var details []string
	for _, s := range []string{b.Name, b.MIMEType} {
		if s != "" {
			details = append(details, s)
		}
	}
	note := "[" + describeBlock(b)
	if len(details) > 0 {
		note += " (" + strings.Join(details, ", ") + ")"
	}
	note += " was left out"
	if reason != "" {
		note += ": " + reason
	}
	return note + ".]"
}

func describeBlock(b *agent.Block) string {
	switch b.Type {
	case agent.BlockImage:
		return "An image"
	case agent.BlockAudio:
		return "An audio recording"
	case agent.BlockFile:
		return "A file"
	case agent.BlockInvalidToolCall:
		return "A tool call without a name"
	case agent.BlockServerToolCall:
		return "A call of a tool of another provider"
	case agent.BlockServerToolResult:
		return "The result of a tool of another provider"
	case agent.BlockNonStandard:
		if kind := valueType(b); kind != "" {
			return "A block of type " + kind
		}
		return "A block of an unknown type"
	default:
		return "A block of type " + string(b.Type)
	}
}

// valueType returns the type in the value of a non_standard block, empty if it has none.
func valueType(b *agent.Block) string {
	var value struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(b.Value, &value) != nil {
		return ""
	}
	return value.Type
}

// IsReasoning reports whether a block is a model's reasoning, also encrypted. Reasoning is never replaced by an [OmissionNote], because models would
// learn to write such notes.
func IsReasoning(b *agent.Block) bool {
	return b.Type == agent.BlockReasoning || (b.Type == agent.BlockNonStandard && valueType(b) == RedactedThinking)
}

// PlainText returns the text of a message for a provider that takes only text in it. It leaves out reasoning, calls and results. Any other block
// becomes an [OmissionNote] with the reason, on a separate line.
func PlainText(blocks []agent.Block, reason string) string {
	var text strings.Builder
	endsWithNote := false
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.Type == agent.BlockText && b.Text != "":
			if endsWithNote {
				text.WriteString("\n")
			}
			text.WriteString(b.Text)
			endsWithNote = false
		case b.Type == agent.BlockText, IsReasoning(b), IsToolCall(b), b.Type == agent.BlockToolResult:
		default:
			if text.Len() > 0 {
				text.WriteString("\n")
			}
			text.WriteString(OmissionNote(b, reason))
			endsWithNote = true
		}
	}
	return text.String()
}

// DecodeBase64 returns the content of a block, or the reason for an [OmissionNote] if it is invalid. A provider would refuse the whole conversation
// because of an invalid block.
func DecodeBase64(b *agent.Block) (data []byte, reason string) {
	data, err := base64.StdEncoding.DecodeString(b.Base64)
	if err != nil {
		return nil, NotBase64
	}
	return data, ""
}
