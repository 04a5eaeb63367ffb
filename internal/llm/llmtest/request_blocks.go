package llmtest

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// Row is a row of a table: a kind of block and its outcome.
type Row struct{ Name, Outcome string }

// Outcomes of a block in a request.
const (
	passes  = "passes"
	noted   = "note"
	notSent = "–"
)

// requestBlock is a kind of block in the history of a request.
type requestBlock struct {
	name       string // of the row in docs/reference/models.md
	messages   []agent.Message
	marks      []string // the request contains one of these if the block passes
	isOptional bool     // it may be left out without a note, because it is not part of the conversation's text
}

// requestBlocks returns the kinds of block that a request may contain.
func requestBlocks() []requestBlock {
	user := func(name, mark string, b agent.Block) requestBlock {
		return requestBlock{name: name, marks: []string{mark}, messages: []agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{agent.Text("Look."), b}}}}
	}
	assistant := func(name string, isOptional bool, mark string, blocks ...agent.Block) requestBlock {
		return requestBlock{name: name, marks: []string{mark}, isOptional: isOptional, messages: []agent.Message{
			agent.UserText("Well?"), {Role: agent.RoleAssistant, Blocks: append(blocks, agent.Text("Done."))},
		}}
	}
	const url, id, text = "https://example.org/marked", "file-marked", "bWFya2Vk"
	results := serverCallAndResult()
	markdown := user("text file in base64", text, agent.Block{Type: agent.BlockFile, Base64: text, MIMEType: "text/markdown"})
	markdown.marks = append(markdown.marks, `"marked"`) // decoded
	return []requestBlock{
		user("image by URL", url, agent.Block{Type: agent.BlockImage, URL: url}),
		user("image in base64", pixel, agent.Block{Type: agent.BlockImage, Base64: pixel, MIMEType: "image/png"}),
		user("image in base64 (SVG)", text, agent.Block{Type: agent.BlockImage, Base64: text, MIMEType: "image/svg+xml"}),
		user("image by id", id, agent.Block{Type: agent.BlockImage, FileID: id}),
		user("audio by URL", url, agent.Block{Type: agent.BlockAudio, URL: url}),
		user("audio in base64 (wav, mp3)", text, agent.Block{Type: agent.BlockAudio, Base64: text, MIMEType: "audio/wav"}),
		user("audio by id", id, agent.Block{Type: agent.BlockAudio, FileID: id}),
		user("PDF by URL", url, agent.Block{Type: agent.BlockFile, URL: url}),
		user("PDF in base64", text, agent.Block{Type: agent.BlockFile, Base64: text, MIMEType: "application/pdf"}),
		markdown,
		user("other file in base64", text, agent.Block{Type: agent.BlockFile, Base64: text, MIMEType: "application/zip"}),
		user("file by id", id, agent.Block{Type: agent.BlockFile, FileID: id}),
		user("content that is not base64", "%%%", agent.Block{Type: agent.BlockImage, Base64: "%%%", MIMEType: "image/png"}),
		user("non-standard block", "marked", agent.Block{Type: agent.BlockNonStandard, Value: json.RawMessage(`{"type":"x","x":"marked"}`)}),
		assistant("reasoning, signed", true, "c2lnbmVk", agent.Block{Type: agent.BlockReasoning, Reasoning: "Hm.", Signature: "c2lnbmVk"}),
		assistant("reasoning, unsigned", true, "unsigned", agent.Block{Type: agent.BlockReasoning, Reasoning: "unsigned"}),
		assistant("reasoning, encrypted", true, text, agent.Block{
			Type: agent.BlockNonStandard, Value: json.RawMessage(`{"type":"redacted_thinking","data":"` + text + `"}`),
		}),
		assistant("citation", true, url, agent.Block{Type: agent.BlockText, Text: "It rains.", Annotations: []agent.Annotation{{
			Type: "citation", URL: url, Title: "Weather", CitedText: "It rains.",
			Extras: json.RawMessage(`{"block_type":"web_search_result_location","encrypted_index":"ZW5j"}`),
		}}}),
		assistant("server tool call and result", false, "srvtoolu_marked", results...),
		assistant("server tool call without its result", false, "srvtoolu_marked", results[0]),
		assistant("server tool result without its call", false, "srvtoolu_marked", results[1]),
		assistant("server tools of another provider", false, "ws_marked",
			agent.Block{Type: agent.BlockServerToolCall, ID: "ws_marked", Name: "web_search", Args: json.RawMessage(`{}`)},
			agent.Block{Type: agent.BlockServerToolResult, ToolCallID: "ws_marked", Status: agent.ResultSuccess, Output: json.RawMessage(`[]`)}),
		assistant("image in a reply", false, pixel, agent.Block{Type: agent.BlockImage, Base64: pixel, MIMEType: "image/png"}),
		assistant("audio in a reply", false, text, agent.Block{Type: agent.BlockAudio, Base64: text, MIMEType: "audio/pcm"}),
		assistant("invalid tool call", false, "call_marked", agent.Block{
			Type: agent.BlockInvalidToolCall, ID: "call_marked", Name: "now", Args: json.RawMessage(`"{"`), Error: "the arguments are not valid JSON",
		}),
		assistant("tool call without a name", false, "call_marked", agent.Block{
			Type: agent.BlockInvalidToolCall, ID: "call_marked", Args: json.RawMessage(`"{"`), Error: "the call names no tool",
		}),
	}
}

// serverCallAndResult returns a server tool call and its result in the form that Anthropic's client gives them.
func serverCallAndResult() []agent.Block {
	return []agent.Block{
		{
			Type: agent.BlockServerToolCall, ID: "srvtoolu_marked", Name: "web_search", Args: json.RawMessage(`{"query":"weather"}`),
			Extras: json.RawMessage(`{"block_type":"server_tool_use"}`),
		},
		{
			Type: agent.BlockServerToolResult, ToolCallID: "srvtoolu_marked", Name: "web_search", Status: agent.ResultSuccess, Output: searchResults(),
			Extras: json.RawMessage(`{"block_type":"web_search_tool_result"}`),
		},
	}
}

// sendBlock sends a block between other messages, which have to arrive, and returns its outcome.
func (c *caseRun) sendBlock(b *requestBlock) string {
	req := toolRequest()
	req.Messages = slices.Concat([]agent.Message{agent.UserText("First."), {Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text("Second.")}}},
		b.messages, []agent.Message{agent.UserText("Last.")})
	body, _ := c.send(req)
	for _, text := range []string{"First.", "Second.", "Last."} {
		require.Contains(c, string(body), text)
	}
	for _, m := range b.messages {
		if text := agent.Normalize(m.Blocks); m.Role == agent.RoleUser || text == "Done." {
			require.Contains(c, string(body), text)
		}
	}
	hasNote := bytes.Contains(body, []byte("was left out"))
	switch {
	case slices.ContainsFunc(b.marks, func(mark string) bool { return bytes.Contains(body, []byte(mark)) }):
		require.False(c, hasNote, "a block that passes needs no note")
		return passes
	case hasNote:
		return noted
	default:
		return notSent
	}
}

func requestBlockCases() []testCase {
	var cases []testCase
	for _, b := range requestBlocks() {
		cases = append(cases, testCase{"request block/" + b.name, func(c *caseRun) {
			if outcome := c.sendBlock(&b); !b.isOptional {
				require.NotEqual(c, notSent, outcome, "a block that cannot be sent leaves a note")
			}
		}})
	}
	return cases
}

// RequestRows returns, for each kind of block, what an implementation makes of it in a request: passes, note, – if it is left out, or fails.
func RequestRows(h Harness) []Row {
	var rows []Row
	for _, b := range requestBlocks() {
		outcome := ""
		if runCase(h, func(c *caseRun) { outcome = c.sendBlock(&b) }) != "" {
			outcome = "fails"
		}
		rows = append(rows, Row{b.name, outcome})
	}
	return rows
}
