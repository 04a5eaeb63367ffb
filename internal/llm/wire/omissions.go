package wire

import (
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// RedactedThinking is the type, within its value, of a non_standard block that holds reasoning its provider has encrypted.
const RedactedThinking = "redacted_thinking"

// Reasons in an [OmissionNote].
const (
	CannotCarry = "the provider cannot take it"
	NotBase64   = "its content is not base64"
)

// OmissionNote returns the text that replaces a block which a provider cannot carry, so that the model knows what is missing. why is a
// few words such as "the provider takes no audio", or empty.
func OmissionNote(b *agent.Block, why string) string {
	var about []string
	for _, s := range []string{b.Name, b.MIMEType} {
		if s != "" {
			about = append(about, s)
		}
	}
	what := describeBlock(b)
	if len(about) > 0 {
		what += " (" + strings.Join(about, ", ") + ")"
	}
	if why != "" {
		why = ": " + why
	}
	return "[" + what + " was left out" + why + ".]"
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

// valueType returns the type in the value of a non_standard block, "" if it has none.
func valueType(b *agent.Block) string {
	var value struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(b.Value, &value) != nil {
		return ""
	}
	return value.Type
}

// IsReasoning reports whether a block is a model's reasoning, readable or not. No [OmissionNote] replaces reasoning: it would teach a
// model to write such notes.
func IsReasoning(b *agent.Block) bool {
	return b.Type == agent.BlockReasoning || (b.Type == agent.BlockNonStandard && valueType(b) == RedactedThinking)
}

// PlainText joins the texts of a message for a provider that takes only text there. Blocks other than reasoning, calls and results become
// an [OmissionNote] with why on a separate line.
func PlainText(blocks []agent.Block, why string) string {
	var text strings.Builder
	noted := false
	for i := range blocks {
		b := &blocks[i]
		switch {
		case b.Type == agent.BlockText && b.Text != "":
			if noted {
				text.WriteString("\n")
			}
			text.WriteString(b.Text)
			noted = false
		case b.Type == agent.BlockText, IsReasoning(b), IsToolCall(b), b.Type == agent.BlockToolResult:
		default:
			if text.Len() > 0 {
				text.WriteString("\n")
			}
			text.WriteString(OmissionNote(b, why))
			noted = true
		}
	}
	return text.String()
}

// DecodeBase64 returns the content of a block. A provider would refuse the whole conversation for a
// block that does not decode, so lacks says what is wrong with it, "" if nothing is.
func DecodeBase64(b *agent.Block) (data []byte, lacks string) {
	data, err := base64.StdEncoding.DecodeString(b.Base64)
	if err != nil {
		return nil, NotBase64
	}
	return data, ""
}
