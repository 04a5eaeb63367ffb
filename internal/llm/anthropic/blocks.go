package anthropic

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Names in the API's blocks.
const (
	serverToolUse = "server_tool_use"
	resultSuffix  = "_tool_result"
	errorSuffix   = "_error"
	// blockType keeps, in the extras of a block, the type that the API gave it (as LangChain v1 does).
	blockType = "block_type"
)

// sendable lists, by type, the members that the API takes back of what it sent; it refuses others. Of a server tool call and its result they
// are those besides the fields of a block. An object of another type goes back as it came.
//
//nolint:gochecknoglobals // a constant in all but syntax
var sendable = map[string][]string{
	serverToolUse:                            {"caller"},
	"web_search_tool_result":                 {"caller"},
	"web_fetch_tool_result":                  {"caller"},
	"code_execution_tool_result":             {},
	"bash_code_execution_tool_result":        {},
	"text_editor_code_execution_tool_result": {},
	"tool_search_tool_result":                {},
	"web_search_result":                      {"encrypted_content", "page_age", "title", "url"},
	"code_execution_result":                  {"content", "return_code", "stderr", "stdout"},
	"encrypted_code_execution_result":        {"content", "encrypted_stdout", "return_code", "stderr"},
	"code_execution_output":                  {"file_id"},
	"bash_code_execution_result":             {"content", "return_code", "stderr", "stdout"},
	"bash_code_execution_output":             {"file_id"},
	"tool_search_tool_search_result":         {"tool_references"},
	"tool_reference":                         {"tool_name"},
	"char_location":                          {"cited_text", "document_index", "document_title", "start_char_index", "end_char_index"},
	"page_location":                          {"cited_text", "document_index", "document_title", "start_page_number", "end_page_number"},
	"content_block_location":                 {"cited_text", "document_index", "document_title", "start_block_index", "end_block_index"},
	"search_result_location":                 {"cited_text", "search_result_index", "source", "title", "start_block_index", "end_block_index"},
	"web_search_result_location":             {"cited_text", "encrypted_index", "title", "url"},
}

type fields = map[string]json.RawMessage

// prune returns JSON of the API's, which has been parsed before, with the members that are sendable.
func prune(raw json.RawMessage) json.RawMessage {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil && list != nil {
		for i := range list {
			list[i] = prune(list[i])
		}
		out, _ := json.Marshal(list)
		return out
	}
	var all fields
	var kind string
	if json.Unmarshal(raw, &all) != nil || json.Unmarshal(all["type"], &kind) != nil {
		return raw
	}
	names := sendable[kind]
	if strings.HasSuffix(kind, resultSuffix+errorSuffix) {
		names = []string{"error_code", "error_message"}
	}
	if names == nil {
		return raw
	}
	kept := fields{"type": all["type"]}
	for _, name := range names {
		if value, ok := all[name]; ok {
			kept[name] = prune(value)
		}
	}
	out, _ := json.Marshal(kept)
	return out
}

func jsonString(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// extrasOf returns a JSON object without the fields that a block holds, with the type under another name; nil if raw is no object.
func extrasOf(raw json.RawMessage, taken ...string) json.RawMessage {
	var all fields
	if json.Unmarshal(raw, &all) != nil || all == nil {
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
	var extras fields
	var block content
	if json.Unmarshal(b.Extras, &extras) != nil || json.Unmarshal(extras[blockType], &block.Type) != nil || sendable[block.Type] == nil {
		return content{}, false
	}
	if caller := extras["caller"]; string(caller) != "null" && slices.Contains(sendable[block.Type], "caller") {
		block.Caller = caller
	}
	if b.Type == agent.BlockServerToolCall {
		block.ID, block.Name, block.Input = b.ID, b.Name, b.Args
		return block, block.Type == serverToolUse && json.Valid(b.Args) && strings.HasPrefix(strings.TrimSpace(string(b.Args)), "{")
	}
	block.ToolUseID, block.Content = string(b.ToolCallID), prune(b.Output)
	return block, strings.HasSuffix(block.Type, resultSuffix) && json.Valid(b.Output)
}

// citation returns the annotation of a citation. Its position is in the extras.
func citation(raw json.RawMessage) (agent.Annotation, bool) {
	var c struct {
		CitedText     string `json:"cited_text"`
		URL           string `json:"url"`
		Title         string `json:"title"`
		DocumentTitle string `json:"document_title"`
	}
	extras := extrasOf(raw, "cited_text", "url")
	if extras == nil || json.Unmarshal(raw, &c) != nil {
		return agent.Annotation{}, false
	}
	if c.Title == "" {
		c.Title = c.DocumentTitle
	}
	return agent.Annotation{Type: "citation", URL: c.URL, Title: c.Title, CitedText: c.CitedText, Extras: extras}, true
}

// citedText returns a text for the API with this provider's citations.
func citedText(b *agent.Block) content {
	text := textBlock(b.Text)
	var citations []json.RawMessage
	for i := range b.Annotations {
		a := &b.Annotations[i]
		taken := fields{"cited_text": jsonString(a.CitedText)}
		if a.URL != "" {
			taken["url"] = jsonString(a.URL)
		}
		if raw, kind := restoreExtras(a.Extras, taken); strings.HasSuffix(kind, "_location") && sendable[kind] != nil {
			citations = append(citations, prune(raw))
		}
	}
	if citations != nil {
		text.Citations = citations
	}
	return text
}
