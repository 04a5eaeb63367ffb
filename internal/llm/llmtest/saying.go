package llmtest

import (
	"encoding/json"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// saying is a block of some kind as a provider says it, within a reply.
type saying struct {
	name   string // of the row in docs/reference/models.md
	events []Event
	// check holds the reply's blocks, without the text around, and what was emitted as whole blocks against what was said.
	check func(t require.TestingT, said, emitted []agent.Block)
}

const (
	searchID = "srvtoolu_1"
	sound    = "AAEC"
)

func searchResults() json.RawMessage {
	return json.RawMessage(`[{"type":"web_search_result","title":"Weather","url":"https://example.org/w","encrypted_content":"ZW5j","page_age":null}]`)
}

func served(args string) []Event {
	return []Event{
		{Served: &Fragment{Index: 7, ID: searchID, Name: "web_search"}},
		{Served: &Fragment{Index: 7, Args: args[:len(args)/2]}},
		{Served: &Fragment{Index: 7, Args: args[len(args)/2:]}},
	}
}

// sayings are the kinds of block that a reply may hold.
func sayings() []saying {
	start, end := 0, 12
	cited := agent.Annotation{Type: "citation", URL: "https://example.org/w", Title: "Weather", CitedText: "It rains.", StartIndex: &start, EndIndex: &end}
	return []saying{
		{"text", []Event{{Text: "It "}, {Text: "rains."}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, agent.Text("It rains."), b)
		}, 0)},
		{"citation", []Event{{Text: "It rains."}, {Citation: &cited}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, agent.BlockText, b.Type)
			require.Len(t, b.Annotations, 1)
			a := b.Annotations[0]
			require.Equal(t, []string{"citation", cited.URL, cited.Title}, []string{a.Type, a.URL, a.Title})
		}, 1)},
		{"reasoning", []Event{{Reasoning: "Hm."}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, []string{"reasoning", "Hm."}, []string{string(b.Type), b.Reasoning})
		}, 0)},
		{"reasoning, signed", []Event{{Reasoning: "Hm."}, {Signature: "c2ln"}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, agent.Block{Type: agent.BlockReasoning, Reasoning: "Hm.", Signature: "c2ln"}, b)
		}, 0)},
		{"reasoning, encrypted", []Event{{Redacted: "b3BhcXVl"}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, agent.BlockNonStandard, b.Type)
			require.JSONEq(t, `{"type":"redacted_thinking","data":"b3BhcXVl"}`, string(b.Value))
		}, 1)},
		{"tool call", callEvents(3, "call_a", "forecast", `{"city":"NYC"}`), one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, call("call_a", "forecast", `{"city":"NYC"}`), b)
		}, 0)},
		{"invalid tool call", callEvents(3, "call_a", "forecast", `{"city":`), one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, []string{"invalid_tool_call", "call_a", `"{\"city\":"`}, []string{string(b.Type), b.ID, string(b.Args)})
		}, 0)},
		{"server tool call", served(`{"query":"weather"}`), one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, []string{"server_tool_call", searchID, "web_search", `{"query":"weather"}`}, []string{string(b.Type), b.ID, b.Name, string(b.Args)})
		}, 1)},
		{"server tool result", []Event{{Result: &Result{searchID, "web_search_tool_result", searchResults()}}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, []string{"server_tool_result", searchID, "success"}, []string{string(b.Type), string(b.ToolCallID), b.Status})
			require.JSONEq(t, string(searchResults()), string(b.Output))
		}, 1)},
		{"image", []Event{{Image: pixel}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, agent.Block{Type: agent.BlockImage, Base64: pixel, MIMEType: "image/png"}, b)
		}, 1)},
		{"audio", []Event{{Audio: sound}, {Audio: sound}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, []string{"audio", sound + sound}, []string{string(b.Type), b.Base64})
		}, 1)},
		{"block of an unknown type", []Event{{Unknown: json.RawMessage(`{"type":"from_the_future","x":1}`)}}, one(func(t require.TestingT, b agent.Block) {
			require.Equal(t, agent.BlockNonStandard, b.Type)
			require.JSONEq(t, `{"type":"from_the_future","x":1}`, string(b.Value))
		}, 1)},
	}
}

// one checks that a saying is one block, and how often it is emitted as a whole one: text, reasoning and calls are not.
func one(check func(t require.TestingT, b agent.Block), whole int) func(t require.TestingT, said, emitted []agent.Block) {
	return func(t require.TestingT, said, emitted []agent.Block) {
		require.Len(t, said, 1)
		check(t, said[0])
		require.Len(t, emitted, whole)
		for i := range emitted {
			require.Equal(t, said[0].Type, emitted[i].Type)
			if said[0].Type != agent.BlockText {
				require.Equal(t, said[0], emitted[i], "what is emitted is what the reply holds")
			} else {
				require.Equal(t, said[0].Annotations, emitted[i].Annotations)
			}
		}
	}
}

// sayable reports whether a dialect has a form for every fragment of a saying.
func sayable(d Dialect, s saying) bool {
	for i := range s.events {
		if !d.traits().CanSend(s.events[i]) {
			return false
		}
	}
	return true
}

// reply is a whole reply of a saying.
func (s saying) reply() Reply { return Reply{Events: s.events, Usage: usage, Finish: agent.FinishStop} }

func sayingCases(d Dialect) []testCase {
	var cases []testCase
	for _, s := range sayings() {
		if !sayable(d, s) {
			continue
		}
		cases = append(cases, testCase{"says/" + s.name, func(c *C) {
			o := generate(c.model(c.replies(s.reply())), withTools())
			require.NoError(c, o.err)
			s.check(c, o.reply.Blocks, o.blocks)
		}}, testCase{"says/" + s.name + ", cut off", func(c *C) { c.cutEverywhere(s) }})
	}
	return cases
}

// cutEverywhere breaks the connection behind every frame of a reply: it fails, and what was handed on as whole until then is whole.
func (c *C) cutEverywhere(s saying) {
	frames := c.h.Dialect.Frames(s.reply())
	whole := generate(c.model(c.replies(s.reply())), withTools())
	require.NoError(c, whole.err)
	for n := range frames {
		server := c.serve(func(x *exchange) { x.send(frames[:n]...); x.cut() })
		o := generate(c.model(server), withTools())
		c.fails(o, agent.CodeUnavailable)
		require.LessOrEqual(c, len(o.blocks), len(whole.blocks))
		require.Equal(c, append([]agent.Block{}, whole.blocks[:len(o.blocks)]...), append([]agent.Block{}, o.blocks...), "no half block")
		for _, b := range o.reply.Blocks {
			require.Contains(c, []agent.BlockType{agent.BlockText, agent.BlockReasoning}, b.Type, "a partial reply holds words alone")
		}
	}
}
