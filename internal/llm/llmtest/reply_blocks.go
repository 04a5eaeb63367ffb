package llmtest

import (
	"encoding/json"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// replyBlock is a kind of block that a provider may send.
type replyBlock struct {
	name   string // of the row in docs/reference/models.md
	events []Event
	want   agent.Block
}

// replyBlocks returns the kinds of block that a reply may contain.
func replyBlocks() []replyBlock {
	const url, callID, audioPiece = "https://example.org/w", "srvtoolu_1", "AAEC"
	start, end := 0, 12
	citation := agent.Annotation{Type: "citation", URL: url, Title: "Weather", CitedText: "It rains.", StartIndex: &start, EndIndex: &end}
	serverCall := []Event{
		{ServerCall: &Fragment{Index: 7, ID: callID, Name: "web_search"}},
		{ServerCall: &Fragment{Index: 7, Args: `{"query":`}},
		{ServerCall: &Fragment{Index: 7, Args: `"weather"}`}},
	}
	serverResult := agent.Block{
		Type: agent.BlockServerToolResult, ToolCallID: callID, Status: agent.ResultSuccess, Output: searchResults(),
	}
	redacted := json.RawMessage(`{"type":"redacted_thinking","data":"b3BhcXVl"}`)
	unknown := json.RawMessage(`{"type":"from_the_future","x":1}`)
	cited := agent.Block{Type: agent.BlockText, Text: "It rains.", Annotations: []agent.Annotation{citation}}
	signed := agent.Block{Type: agent.BlockReasoning, Reasoning: "Hm.", Signature: "c2ln"}
	invalid := agent.Block{Type: agent.BlockInvalidToolCall, ID: "call_a", Name: "forecast", Args: json.RawMessage(`"{\"city\":"`), Error: "any"}
	search := agent.Block{Type: agent.BlockServerToolCall, ID: callID, Name: "web_search", Args: json.RawMessage(`{"query":"weather"}`)}
	audio := agent.Block{Type: agent.BlockAudio, Base64: audioPiece + audioPiece, MIMEType: "audio/pcm"}
	return []replyBlock{
		{"text", []Event{{Text: "It "}, {Text: "rains."}}, agent.Text("It rains.")},
		{"citation", []Event{{Text: "It rains."}, {Citation: &citation}}, cited},
		{"reasoning", []Event{{Reasoning: "Hm."}}, agent.Block{Type: agent.BlockReasoning, Reasoning: "Hm."}},
		{"reasoning, signed", []Event{{Reasoning: "Hm."}, {Signature: "c2ln"}}, signed},
		{"reasoning, encrypted", []Event{{Redacted: "b3BhcXVl"}}, agent.Block{Type: agent.BlockNonStandard, Value: redacted}},
		{"tool call", callEvents(3, "call_a", "forecast", `{"city":"NYC"}`), callBlock("call_a", "forecast", `{"city":"NYC"}`)},
		{"invalid tool call", callEvents(3, "call_a", "forecast", `{"city":`), invalid},
		{"server tool call", serverCall, search},
		{"server tool result", []Event{{ServerResult: &ServerResult{callID, "web_search_tool_result", searchResults()}}}, serverResult},
		{"image", []Event{{Image: pixel}}, agent.Block{Type: agent.BlockImage, Base64: pixel, MIMEType: "image/png"}},
		{"audio", []Event{{Audio: audioPiece}, {Audio: audioPiece}}, audio},
		{"block of an unknown type", []Event{{Unknown: unknown}}, agent.Block{Type: agent.BlockNonStandard, Value: unknown}},
	}
}

func searchResults() json.RawMessage {
	return json.RawMessage(`[{"type":"web_search_result","title":"Weather","url":"https://example.org/w","encrypted_content":"ZW5j","page_age":null}]`)
}

// comparableBlock returns a block as JSON, without the details that differ between dialects.
func comparableBlock(b agent.Block) string {
	b.Extras = nil
	if b.Error != "" {
		b.Error = "any"
	}
	b.Annotations = slices.Clone(b.Annotations)
	for i, a := range b.Annotations {
		b.Annotations[i] = agent.Annotation{Type: a.Type, URL: a.URL, Title: a.Title}
	}
	return marshal(b)
}

// canSend reports whether a dialect has a form for every event of a block.
func (b *replyBlock) canSend(d Dialect) bool {
	return !slices.ContainsFunc(b.events, func(e Event) bool { return !d.traits().CanSend(e) })
}

func (b *replyBlock) reply() Reply {
	return Reply{Events: b.events, Usage: usage, Finish: agent.FinishStop}
}

// requireBlock checks that a reply is the block. The block has to be emitted too, unless it is streamed in fragments or a tool call. Of a text, the
// citations have to be emitted.
func (c *caseRun) requireBlock(b *replyBlock, o outcome) {
	require.Len(c, o.reply.Blocks, 1)
	got := o.reply.Blocks[0]
	require.JSONEq(c, comparableBlock(b.want), comparableBlock(got))
	switch got.Type {
	case agent.BlockReasoning, agent.BlockToolCall, agent.BlockInvalidToolCall:
		require.Empty(c, o.blocks)
	case agent.BlockText:
		var emitted []agent.Annotation
		for i := range o.blocks {
			require.Equal(c, agent.BlockText, o.blocks[i].Type)
			emitted = append(emitted, o.blocks[i].Annotations...)
		}
		require.Equal(c, got.Annotations, emitted)
	default:
		require.Equal(c, []agent.Block{got}, o.blocks, "the emitted block is the one in the reply")
	}
}

func replyBlockCases(d Dialect) []testCase {
	var cases []testCase
	for _, b := range replyBlocks() {
		if !b.canSend(d) {
			continue
		}
		cases = append(cases, testCase{"reply block/" + b.name, func(c *caseRun) {
			c.requireBlock(&b, c.generateReply(b.reply(), toolRequest()))
		}}, testCase{"reply block/" + b.name + ", cut off", func(c *caseRun) { c.breakAfterEachFrame(b.reply()) }})
	}
	return cases
}

// breakAfterEachFrame checks that a reply fails wherever the connection breaks, and that no incomplete block has been emitted until then.
func (c *caseRun) breakAfterEachFrame(r Reply) {
	frames := c.h.Dialect.Frames(r)
	complete := c.generateReply(r, toolRequest())
	for n := range frames {
		server := c.serve(func(x *exchange) { x.send(frames[:n]...); x.breakConnection() })
		o := generate(c.openModel(server), toolRequest())
		c.requireError(o, agent.CodeUnavailable)
		require.LessOrEqual(c, len(o.blocks), len(complete.blocks))
		require.Equal(c, append([]agent.Block{}, complete.blocks[:len(o.blocks)]...), append([]agent.Block{}, o.blocks...), "an incomplete block")
		for _, b := range o.reply.Blocks {
			require.Contains(c, []agent.BlockType{agent.BlockText, agent.BlockReasoning}, b.Type, "a partial reply has text and reasoning only")
		}
	}
}

// ReplyRows returns, for each kind of block, what an implementation makes of it in a reply: block; lost; fails, if the whole reply fails; and – if the
// protocol has no form for it.
func ReplyRows(h Harness) []Row {
	var rows []Row
	for _, b := range replyBlocks() {
		outcome := notSent
		if b.canSend(h.Dialect) {
			outcome = replyOutcome(h, &b)
		}
		rows = append(rows, Row{b.name, outcome})
	}
	return rows
}

func replyOutcome(h Harness, b *replyBlock) string {
	failed := false
	failure := runCase(h, func(c *caseRun) {
		o := generate(c.openModel(c.serveReply(b.reply())), toolRequest())
		failed = o.err != nil
		c.requireBlock(b, o)
	})
	switch {
	case failed:
		return "fails"
	case failure != "":
		return "lost"
	default:
		return "block"
	}
}
