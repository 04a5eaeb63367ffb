package anthropic

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/llm/wire"
)

// Types of the API's blocks.
const (
	serverToolUse = "server_tool_use"
	resultSuffix  = "_tool_result"
	errorSuffix   = "_error"
	// blockType is the name of the API's type in the extras of a block, as in LangChain v1.
	blockType = "block_type"
)

// sendable has, for each type of object that the API sends, the members that it takes back. It refuses other members. For a server tool call and its
// result, these are the members that are not fields of a block. Objects of other types are sent back unchanged.
//
//nolint:gochecknoglobals // never changed
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

// prune returns valid JSON from the API without the members that are not sendable.
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
	pruned := fields{"type": all["type"]}
	for _, name := range names {
		if value, ok := all[name]; ok {
			pruned[name] = prune(value)
		}
	}
	out, _ := json.Marshal(pruned)
	return out
}

func jsonString(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always marshals
	return b
}

// extrasOf returns the extras of a block: the JSON object of the API without the members that have fields in the block, and with its type as blockType.
// It returns nil if raw is not an object.
func extrasOf(raw json.RawMessage, fieldNames ...string) json.RawMessage {
	var all fields
	if json.Unmarshal(raw, &all) != nil || all == nil {
		return nil
	}
	for _, name := range fieldNames {
		delete(all, name)
	}
	if kind, ok := all["type"]; ok {
		delete(all, "type")
		all[blockType] = kind
	}
	out, _ := json.Marshal(all) // its values have been parsed
	return out
}

// restoreExtras reverses extrasOf. It returns the JSON object of the API with members, and its type, which is empty if the extras are not from the API.
func restoreExtras(extras json.RawMessage, members fields) (raw []byte, kind string) {
	var all fields
	if json.Unmarshal(extras, &all) != nil || json.Unmarshal(all[blockType], &kind) != nil {
		return nil, ""
	}
	all["type"] = all[blockType]
	delete(all, blockType)
	maps.Copy(all, members)
	raw, err := json.Marshal(all)
	if err != nil {
		return nil, ""
	}
	return raw, kind
}

// redactedData returns the data of encrypted thinking, empty for other blocks.
func redactedData(b *agent.Block) string {
	raw := b.Value
	if b.Type == agent.BlockReasoning {
		raw = b.Extras // of a block that an earlier version stored
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

// serverCallID returns the id of the call that a server tool call or result belongs to, empty for other blocks.
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

// sendableServerCalls returns the ids of the server tool calls of a message that can be sent back. The API requires each call with its result.
func sendableServerCalls(blocks []agent.Block) map[string]bool {
	calls, complete := map[string]bool{}, map[string]bool{}
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
			calls[id] = true
		} else if calls[id] {
			complete[id] = true
		}
	}
	return complete
}

// serverBlock returns a server tool call or result in the form of the API, false if the block is from another provider.
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
		isObject := json.Valid(b.Args) && strings.HasPrefix(strings.TrimSpace(string(b.Args)), "{")
		return block, block.Type == serverToolUse && isObject
	}
	block.ToolUseID, block.Content = string(b.ToolCallID), prune(b.Output)
	return block, strings.HasSuffix(block.Type, resultSuffix) && json.Valid(b.Output)
}

// citationAnnotation returns the annotation of a citation. The position in the source is in its extras.
func citationAnnotation(raw json.RawMessage) (agent.Annotation, bool) {
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
	return agent.Annotation{Type: "citation", URL: c.URL, Title: cmp.Or(c.Title, c.DocumentTitle), CitedText: c.CitedText, Extras: extras}, true
}

// citedText returns a text in the form of the API, with the citations that came from the API.
func citedText(b *agent.Block) content {
	text := textBlock(b.Text)
	var citations []json.RawMessage
	for i := range b.Annotations {
		a := &b.Annotations[i]
		members := fields{"cited_text": jsonString(a.CitedText)}
		if a.URL != "" {
			members["url"] = jsonString(a.URL)
		}
		if raw, kind := restoreExtras(a.Extras, members); strings.HasSuffix(kind, "_location") && sendable[kind] != nil {
			citations = append(citations, prune(raw))
		}
	}
	if citations != nil {
		text.Citations = citations
	}
	return text
}
