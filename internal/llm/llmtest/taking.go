package llmtest

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// taking is a block of some kind in the history of a request.
type taking struct {
	name     string // of the row in docs/reference/models.md
	messages []agent.Message
	marks    []string // of which one is in the request when the block is
	quiet    bool     // it may be left out without a note: it is no part of what was said
}

// What becomes of a block ([Takes]).
const (
	Passes = "passes"
	Noted  = "note"
	Left   = "–"
)

// takings are the kinds of block that a request may hold.
func takings() []taking {
	user := func(name, mark string, b agent.Block) taking {
		return taking{name: name, marks: []string{mark}, messages: []agent.Message{{Role: agent.RoleUser, Blocks: []agent.Block{agent.Text("Look."), b}}}}
	}
	assistant := func(name string, quiet bool, mark string, blocks ...agent.Block) taking {
		return taking{name: name, marks: []string{mark}, quiet: quiet, messages: []agent.Message{
			agent.UserText("Well?"), {Role: agent.RoleAssistant, Blocks: append(blocks, agent.Text("Done."))},
		}}
	}
	const at, id, text = "https://example.org/marked", "file-marked", "bWFya2Vk"
	results := takeResults()
	markdown := user("text file in base64", text, agent.Block{Type: agent.BlockFile, Base64: text, MIMEType: "text/markdown"})
	markdown.marks = append(markdown.marks, `"marked"`) // decoded
	return []taking{
		user("image by URL", at, agent.Block{Type: agent.BlockImage, URL: at}),
		user("image in base64", pixel, agent.Block{Type: agent.BlockImage, Base64: pixel, MIMEType: "image/png"}),
		user("image in base64 (SVG)", text, agent.Block{Type: agent.BlockImage, Base64: text, MIMEType: "image/svg+xml"}),
		user("image by id", id, agent.Block{Type: agent.BlockImage, FileID: id}),
		user("audio by URL", at, agent.Block{Type: agent.BlockAudio, URL: at}),
		user("audio in base64 (wav, mp3)", text, agent.Block{Type: agent.BlockAudio, Base64: text, MIMEType: "audio/wav"}),
		user("audio by id", id, agent.Block{Type: agent.BlockAudio, FileID: id}),
		user("PDF by URL", at, agent.Block{Type: agent.BlockFile, URL: at}),
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
		assistant("citation", true, at, agent.Block{Type: agent.BlockText, Text: "It rains.", Annotations: []agent.Annotation{{
			Type: "citation", URL: at, Title: "Weather", CitedText: "It rains.",
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

// takeResults are a server tool call and its result as Anthropic's client makes them.
func takeResults() []agent.Block {
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

// take sends a block between two messages and says what became of it. The call never fails for it, and what is around it arrives.
func (c *C) take(t taking) string {
	req := withTools()
	req.Messages = slices.Concat([]agent.Message{agent.UserText("First."), {Role: agent.RoleAssistant, Blocks: []agent.Block{agent.Text("Second.")}}},
		t.messages, []agent.Message{agent.UserText("Last.")})
	body, _ := c.sent(req)
	for _, words := range []string{"First.", "Second.", "Last."} {
		require.Contains(c, string(body), words)
	}
	for _, m := range t.messages {
		if text := agent.Normalize(m.Blocks); m.Role == agent.RoleUser || text == "Done." {
			require.Contains(c, string(body), text)
		}
	}
	for _, mark := range t.marks {
		if bytes.Contains(body, []byte(mark)) {
			require.NotContains(c, string(body), "was left out", "what passes needs no note")
			return Passes
		}
	}
	if bytes.Contains(body, []byte("was left out")) {
		return Noted
	}
	return Left
}

func takingCases() []testCase {
	var cases []testCase
	for _, t := range takings() {
		cases = append(cases, testCase{"takes/" + t.name, func(c *C) {
			if outcome := c.take(t); !t.quiet {
				require.NotEqual(c, Left, outcome, "what cannot be sent leaves a note")
			}
		}})
	}
	return cases
}
