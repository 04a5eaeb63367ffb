package anthropic

import (
	"encoding/json"
	"maps"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Names in the API's blocks.
const (
	serverToolUse = "server_tool_use"
	resultSuffix  = "_tool_result"
	// blockType keeps, in the extras of a block, the type that the API gave it (as LangChain v1 does).
	blockType = "block_type"
)

type fields = map[string]json.RawMessage

func jsonString(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// extrasOf returns a JSON object without the fields that a block holds, with the type under another name; nil if raw is no object.
func extrasOf(raw string, taken ...string) json.RawMessage {
	var all fields
	if json.Unmarshal([]byte(raw), &all) != nil || all == nil {
		return nil
	}
	for _, name := range taken {
		delete(all, name)
	}
	if kind, ok := all["type"]; ok {
		delete(all, "type")
		all[blockType] = kind
	}
	out, _ := json.Marshal(all) // raw messages that were parsed just now
	return out
}

// restoreExtras reverses extrasOf: it returns the API's block with the taken fields. kind is its type, "" if the extras are of another origin.
func restoreExtras(extras json.RawMessage, taken fields) (raw []byte, kind string) {
	var all fields
	if json.Unmarshal(extras, &all) != nil || json.Unmarshal(all[blockType], &kind) != nil {
		return nil, ""
	}
	all["type"] = all[blockType]
	delete(all, blockType)
	maps.Copy(all, taken)
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, ""
	}
	return raw, kind
}

// redactedData returns the data of thinking that the provider encrypted, "" for other blocks.
func redactedData(b *agent.Block) string {
	raw := b.Value
	if b.Type == agent.BlockReasoning {
		raw = b.Extras // where earlier versions kept it
	}
	var value struct {
		Type string `json:"type"`
		Data string `json:"data"`
	}
	if json.Unmarshal(raw, &value) != nil || value.Type != wire.RedactedThinking {
		return ""
	}
	return value.Data
}

// serverCallID returns the id of the server tool call that a block makes or answers, "" for other blocks.
func serverCallID(b *agent.Block) string {
	switch b.Type {
	case agent.BlockServerToolCall:
		return b.ID
	case agent.BlockServerToolResult:
		return string(b.ToolCallID)
	default:
		return ""
	}
}

// servedCalls returns the ids of the server tool calls of a message that can go back: the API requires each with its result, both in its
// form.
func servedCalls(blocks []agent.Block) map[string]bool {
	asked, served := map[string]bool{}, map[string]bool{}
	for i := range blocks {
		b := &blocks[i]
		id := serverCallID(b)
		if id == "" {
			continue
		}
		if _, ok := serverBlock(b); !ok {
			continue
		}
		if b.Type == agent.BlockServerToolCall {
			asked[id] = true
		} else if asked[id] {
			served[id] = true
		}
	}
	return served
}

// serverBlock returns a server tool call or its result for the API; false if it is not this provider's.
func serverBlock(b *agent.Block) (content, bool) {
	var raw []byte
	var kind string
	if b.Type == agent.BlockServerToolCall {
		if !strings.HasPrefix(strings.TrimSpace(string(b.Args)), "{") {
			return content{}, false
		}
		if raw, kind = restoreExtras(b.Extras, fields{"id": jsonString(b.ID), "name": jsonString(b.Name), "input": b.Args}); kind != serverToolUse {
			return content{}, false
		}
	} else {
		if len(b.Output) == 0 {
			return content{}, false
		}
		raw, kind = restoreExtras(b.Extras, fields{"tool_use_id": jsonString(string(b.ToolCallID)), "content": b.Output})
		if !strings.HasSuffix(kind, resultSuffix) {
			return content{}, false
		}
	}
	var block sdk.ContentBlockUnion
	if block.UnmarshalJSON(raw) != nil || block.AsAny() == nil {
		return content{}, false
	}
	return block.ToParam(), true
}

// citation returns the annotation of a citation. Its position is in the extras.
func citation(raw string) (agent.Annotation, bool) {
	var c struct {
		CitedText     string `json:"cited_text"`
		URL           string `json:"url"`
		Title         string `json:"title"`
		DocumentTitle string `json:"document_title"`
	}
	if json.Unmarshal([]byte(raw), &c) != nil {
		return agent.Annotation{}, false
	}
	if c.Title == "" {
		c.Title = c.DocumentTitle
	}
	return agent.Annotation{Type: "citation", URL: c.URL, Title: c.Title, CitedText: c.CitedText, Extras: extrasOf(raw, "cited_text", "url")}, true
}

// citedText returns a text for the API with this provider's citations.
func citedText(b *agent.Block) *sdk.TextBlockParam {
	text := sdk.TextBlock{Text: b.Text, Type: "text"}
	for i := range b.Annotations {
		a := &b.Annotations[i]
		taken := fields{"cited_text": jsonString(a.CitedText)}
		if a.URL != "" {
			taken["url"] = jsonString(a.URL)
		}
		raw, kind := restoreExtras(a.Extras, taken)
		var c sdk.TextCitationUnion
		if kind != "" && c.UnmarshalJSON(raw) == nil && c.AsAny() != nil {
			text.Citations = append(text.Citations, c)
		}
	}
	param := text.ToParam()
	return &param
}
