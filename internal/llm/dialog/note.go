package dialog

import (
	"encoding/json"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
)

// RedactedThinking is the type, within its value, of a non_standard block that holds reasoning its provider has encrypted.
const RedactedThinking = "redacted_thinking"

// Note is the text that stands where a block was left out, because the provider cannot carry it: the model knows then that something is
// missing, and nobody's conversation ends for it. Why is a few words such as "the provider takes no audio"; empty says nothing.
func Note(b *agent.Block, why string) string {
	var about []string
	for _, s := range []string{b.Name, b.MIMEType} {
		if s != "" {
			about = append(about, s)
		}
	}
	what := noun(b)
	if len(about) > 0 {
		what += " (" + strings.Join(about, ", ") + ")"
	}
	if why != "" {
		why = ": " + why
	}
	return "[" + what + " was left out" + why + ".]"
}

func noun(b *agent.Block) string {
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
		if kind := ValueType(b); kind != "" {
			return "A block of type " + kind
		}
		return "A block of an unknown type"
	default:
		return "A block of type " + string(b.Type)
	}
}

// ValueType returns the type that the value of a non_standard block names, "" when it names none.
func ValueType(b *agent.Block) string {
	var value struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(b.Value, &value) != nil {
		return ""
	}
	return value.Type
}

// IsReasoning reports whether a block is a model's reasoning, readable or not. A provider that takes none back is not told that there was
// some: reasoning is no part of what was said, and a note in its place teaches a model to write such notes.
func IsReasoning(b *agent.Block) bool {
	return b.Type == agent.BlockReasoning || (b.Type == agent.BlockNonStandard && ValueType(b) == RedactedThinking)
}

// TextOf joins the texts of a message for a provider that takes nothing else there; anything but reasoning, calls and results leaves a
// note on a line of its own. Why is for those notes.
func TextOf(blocks []agent.Block, why string) string {
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
		case b.Type == agent.BlockText, IsReasoning(b), IsCall(b), b.Type == agent.BlockToolResult:
		default:
			if text.Len() > 0 {
				text.WriteString("\n")
			}
			text.WriteString(Note(b, why))
			noted = true
		}
	}
	return text.String()
}
