package traces

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"

	"github.com/turnstone-run/turnstone/agent"
)

// contentFilter drops or redacts message text, as the configuration says.
type contentFilter struct {
	mode     Content
	redact   func(string) string
	maxBytes int // of one piece
}

func (c *contentFilter) isOn() bool { return c.mode != ContentOff }

// addContent adds a piece of filtered content.
func (l *attributeList) addContent(k attribute.Key, v string) {
	if v != "" {
		*l = append(*l, k.String(v))
	}
}

// addContent adds a piece of filtered content. If Langfuse is a receiver, it adds the piece under a name of Langfuse too.
func (t *Tracing) addContent(l *attributeList, key, langfuseKey attribute.Key, v string) {
	l.addContent(key, v)
	if t.langfuse {
		l.addContent(langfuseKey, v)
	}
}

// text returns a filtered text, cut to maxBytes with a note. It is empty if content is off.
func (c *contentFilter) text(s string) string { return c.textWithin(s, c.maxBytes) }

// textWithin returns a filtered text, cut to maxBytes with a note. It redacts before it cuts, because part of a secret is not recognised.
func (c *contentFilter) textWithin(s string, maxBytes int) string {
	switch {
	case !c.isOn() || s == "":
		return ""
	case len(s) > maxRawContent:
		return fmt.Sprintf("[left out: %d bytes]", len(s))
	case c.mode == ContentRedacted:
		s = c.redact(s)
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxBytes {
		return s
	}
	cut := maxBytes
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… [cut: %d of %d bytes]", s[:cut], len(s)-cut, len(s))
}

// otelMessage is a message as in the semantic conventions.
type otelMessage struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

// part is one piece of a message.
type part struct {
	Type      string `json:"type"`
	Content   string `json:"content,omitempty"`
	ID        string `json:"id,omitempty"`
	Name      string `json:"name,omitempty"`
	Arguments any    `json:"arguments,omitempty"`
	Response  any    `json:"response,omitempty"`
	Modality  string `json:"modality,omitempty"`
	MIMEType  string `json:"mime_type,omitempty"`
	URI       string `json:"uri,omitempty"`
	FileID    string `json:"file_id,omitempty"`
}

// system returns a filtered system prompt as JSON.
func (c *contentFilter) system(prompt string) string {
	if text := c.text(prompt); text != "" {
		return encode([]part{{Type: "text", Content: text}})
	}
	return ""
}

// messages returns the newest messages of a conversation that fit into maxBytes, filtered, as JSON.
func (c *contentFilter) messages(all []agent.Message) string {
	if !c.isOn() || len(all) == 0 {
		return ""
	}
	room := c.maxBytes
	var newest []otelMessage
	for i := len(all) - 1; i >= 0 && room > 0; i-- {
		m, size := c.message(string(all[i].Role), all[i].Blocks, room)
		newest = append(newest, m)
		room -= size
	}
	slices.Reverse(newest)
	if missing := len(all) - len(newest); missing > 0 {
		note := otelMessage{Role: string(agent.RoleSystem), Parts: []part{{Type: "text", Content: fmt.Sprintf("[left out: %d earlier messages]", missing)}}}
		newest = slices.Insert(newest, 0, note)
	}
	return encode(newest)
}

// reply returns a filtered reply as JSON.
func (c *contentFilter) reply(blocks []agent.Block, finishReason string) string {
	if !c.isOn() || len(blocks) == 0 {
		return ""
	}
	m, _ := c.message(string(agent.RoleAssistant), blocks, c.maxBytes)
	m.FinishReason = finishReason
	return encode([]otelMessage{m})
}

// message returns a filtered message, and its approximate size. Blocks that exceed room are left out.
func (c *contentFilter) message(role string, blocks []agent.Block, room int) (otelMessage, int) {
	m := otelMessage{Role: role, Parts: make([]part, 0, len(blocks))}
	size := 64
	for i := range blocks {
		if size >= room {
			m.Parts = append(m.Parts, part{Type: "text", Content: fmt.Sprintf("[left out: %d more]", len(blocks)-i)})
			break
		}
		p, n := c.part(&blocks[i], room-size)
		m.Parts = append(m.Parts, p)
		size += n
	}
	return m, size
}

// part returns a filtered block and its approximate size.
func (c *contentFilter) part(b *agent.Block, room int) (part, int) {
	p := part{Type: string(b.Type)}
	size := 64
	text := func(s string) string {
		s = c.textWithin(s, room)
		size += len(s)
		return s
	}
	switch b.Type {
	case agent.BlockText:
		p.Content = text(b.Text)
	case agent.BlockReasoning:
		p.Content = text(b.Reasoning)
	case agent.BlockToolCall, agent.BlockServerToolCall, agent.BlockInvalidToolCall:
		p.Type, p.ID, p.Name, p.Arguments = "tool_call", text(b.ID), text(b.Name), asJSON(text(string(b.Args)))
	case agent.BlockToolResult, agent.BlockServerToolResult:
		p.Type, p.ID, p.Response = "tool_call_response", text(string(b.ToolCallID)), asJSON(text(string(b.Output)))
	case agent.BlockImage, agent.BlockAudio, agent.BlockFile:
		// A caller may put any text into these fields.
		p.Modality, p.MIMEType, p.FileID = string(b.Type), text(b.MIMEType), text(b.FileID)
		switch {
		case b.Base64 != "": // media itself is never exported
			p.Type, p.Content = "blob", fmt.Sprintf("[left out: %d bytes of base64]", len(b.Base64))
		case b.URL != "":
			p.Type, p.URI = "uri", text(b.URL)
		default:
			p.Type = "file"
		}
	case agent.BlockNonStandard:
		p.Content = text(string(b.Value))
	}
	return p, size
}

// asJSON returns valid JSON unchanged, and other text as a string: cutting or redaction may have made it invalid.
func asJSON(s string) any {
	switch {
	case s == "":
		return nil
	case json.Valid([]byte(s)):
		return json.RawMessage(s)
	default:
		return s
	}
}

// withSystem returns JSON messages with the system prompt as their first message, which is the form of Langfuse.
func withSystem(system, messages string) string {
	if system == "" {
		return messages
	}
	head := `[{"role":"system","parts":` + system + `}`
	if messages == "" {
		return head + "]"
	}
	return head + "," + strings.TrimPrefix(messages, "[")
}

// encode returns a value as JSON.
func encode(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return ""
	}
	return strings.TrimSuffix(b.String(), "\n")
}
