package llmtest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// usage is the usage of scripted replies.
var usage = agent.Usage{InputTokens: 120, OutputTokens: 45, CachedTokens: 80, ReasoningTokens: 12}

// TextReply returns a reply that sends a text in pieces of at most n runes.
func TextReply(text string, n int) Reply {
	r := Reply{Usage: usage, Finish: agent.FinishStop}
	for piece := range slices.Chunk([]rune(text), n) {
		r.Events = append(r.Events, Event{Text: string(piece)})
	}
	return r
}

// callEvents returns a call whose arguments come character by character.
func callEvents(index int, id, name, args string) []Event {
	events := []Event{{Call: &Fragment{Index: index, ID: id, Name: name}}}
	for _, char := range args {
		events = append(events, Event{Call: &Fragment{Index: index, Args: string(char)}})
	}
	return events
}

func callsReply(events ...Event) Reply {
	return Reply{Events: events, Usage: usage, Finish: agent.FinishToolCalls}
}

func callBlock(id, name, args string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: name, Args: json.RawMessage(args)}
}

const sentence = "Straße, naïve, 東京 and 🦉 — in “pieces”.\nA second line.\tDone."

func replyCases() []testCase { return append(textCases(), callCases()...) }

func textCases() []testCase {
	return []testCase{
		{"reply/model as reported", func(c *caseRun) {
			req := simpleRequest()
			req.Model = "alias"
			require.Equal(c, ModelName, c.generateReply(TextReply("Hi", 9), req).reply.Model)
		}},
		{"reply/text in many chunks", func(c *caseRun) {
			o := c.generateReply(TextReply(sentence, 1), simpleRequest())
			require.Equal(c, []agent.Block{agent.Text(sentence)}, o.reply.Blocks)
			require.Equal(c, sentence, o.text)
			require.Equal(c, len([]rune(sentence)), o.deltas, "each piece is emitted when it comes")
		}},
		{"reply/frames split at every byte", func(c *caseRun) {
			frames := strings.Join(c.h.Dialect.Frames(TextReply(sentence, 8)), "")
			o := generate(c.openModel(c.serve(func(x *exchange) { x.send(strings.Split(frames, "")...) })), simpleRequest())
			require.NoError(c, o.err)
			require.Equal(c, sentence, o.text)
			require.Equal(c, usage.OutputTokens, o.reply.Usage.OutputTokens)
		}},
		{"reply/line over 64 KiB", func(c *caseRun) {
			long := strings.Repeat("0123456789abcdef", 20_000)
			o := c.generateReply(TextReply(long, len(long)), simpleRequest())
			require.Equal(c, agent.Normalize(o.reply.Blocks), long, "the text differs")
			require.Equal(c, o.text, long, "the deltas differ")
		}},
		{"reply/reasoning", func(c *caseRun) {
			r := TextReply("Four.", 2)
			r.Events = append([]Event{{Reasoning: "Two and "}, {Reasoning: "two."}, {Signature: "c2lnbmVk"}}, r.Events...)
			o := c.generateReply(r, simpleRequest())
			require.Len(c, o.reply.Blocks, 2)
			require.Equal(c, agent.BlockReasoning, o.reply.Blocks[0].Type)
			require.Equal(c, "Two and two.", o.reply.Blocks[0].Reasoning)
			require.Equal(c, agent.Text("Four."), o.reply.Blocks[1])
			require.Equal(c, "Two and two.", o.reasoning)
			require.Equal(c, "Four.", o.text)
		}},
		{"reply/usage", func(c *caseRun) {
			want := usage
			if reported := c.h.Dialect.traits().ReportedUsage; reported != nil {
				want = reported(usage)
			}
			require.Equal(c, want, c.generateReply(TextReply("Hi", 9), simpleRequest()).reply.Usage)
		}},
		{"reply/finish reasons", func(c *caseRun) {
			for _, reason := range []agent.FinishReason{agent.FinishStop, agent.FinishLength, agent.FinishContentFilter} {
				r := TextReply("Hi", 9)
				r.Finish = reason
				require.Equal(c, reason, c.generateReply(r, simpleRequest()).reply.FinishReason)
			}
		}},
		{"reply/concurrent calls", func(c *caseRun) {
			text := strings.Repeat("ab", 200)
			m := c.openModel(c.serveReply(TextReply(text, 3)))
			outcomes := make([]outcome, 8)
			var wg sync.WaitGroup
			for i := range outcomes {
				wg.Go(func() { outcomes[i] = generate(m, simpleRequest()) })
			}
			wg.Wait()
			for _, o := range outcomes {
				require.NoError(c, o.err)
				require.Equal(c, text, o.text)
				require.Equal(c, []agent.Block{agent.Text(text)}, o.reply.Blocks)
			}
		}},
	}
}

func callCases() []testCase {
	return []testCase{
		{"reply/one tool call", func(c *caseRun) {
			args := `{"city":"東京","days":3,"note":"a \"quoted\" \\ thing"}`
			o := c.generateReply(callsReply(callEvents(0, "call_a", "forecast", args)...), toolRequest())
			require.Equal(c, []agent.Block{callBlock("call_a", "forecast", args)}, o.reply.Blocks)
			require.Equal(c, agent.FinishToolCalls, o.reply.FinishReason)
			require.Empty(c, o.text, "fragments of a tool call are no text")
			require.Zero(c, o.deltas, "fragments of a tool call are not emitted")
		}},
		{"reply/parallel tool calls interleaved", func(c *caseRun) {
			nyc, lax := callEvents(0, "call_a", "forecast", `{"city":"NYC"}`), callEvents(1, "call_b", "forecast", `{"city":"LAX","days":2}`)
			var events []Event
			for i := range lax {
				if i < len(nyc) {
					events = append(events, nyc[i])
				}
				events = append(events, lax[i])
			}
			o := c.generateReply(callsReply(events...), toolRequest())
			require.Equal(c, []agent.Block{
				callBlock("call_a", "forecast", `{"city":"NYC"}`), callBlock("call_b", "forecast", `{"city":"LAX","days":2}`),
			}, o.reply.Blocks)
		}},
		{"reply/text and tool call", func(c *caseRun) {
			events := slices.Concat(TextReply("Let me look.", 4).Events, callEvents(0, "call_a", "forecast", `{"city":"NYC"}`))
			o := c.generateReply(callsReply(events...), toolRequest())
			require.Equal(c, []agent.Block{agent.Text("Let me look."), callBlock("call_a", "forecast", `{"city":"NYC"}`)}, o.reply.Blocks)
			require.Equal(c, "Let me look.", o.text)
			require.Equal(c, agent.FinishToolCalls, o.reply.FinishReason)
		}},
		{"reply/empty arguments", func(c *caseRun) {
			o := c.generateReply(callsReply(callEvents(0, "call_a", "now", "")...), toolRequest())
			require.Equal(c, []agent.Block{callBlock("call_a", "now", `{}`)}, o.reply.Blocks)
		}},
	}
}
