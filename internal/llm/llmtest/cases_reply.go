package llmtest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

// usage is what scripted replies cost; providers without cached or reasoning tokens report the rest.
var usage = agent.Usage{InputTokens: 120, OutputTokens: 45, CachedTokens: 80, ReasoningTokens: 12}

// TextReply says s in pieces of at most n runes.
func TextReply(s string, n int) Reply {
	r := Reply{Usage: usage, Finish: agent.FinishStop}
	for runes := []rune(s); len(runes) > 0; {
		k := min(n, len(runes))
		r.Events = append(r.Events, Event{Text: string(runes[:k])})
		runes = runes[k:]
	}
	return r
}

// callEvents splits the arguments of a call at every character.
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

func call(id, name, args string) agent.Block {
	return agent.Block{Type: agent.BlockToolCall, ID: id, Name: name, Args: json.RawMessage(args)}
}

const sentence = "Straße, naïve, 東京 and 🦉 — in “pieces”.\nA second line.\tDone."

func replyCases() []testCase {
	return []testCase{
		{"reply/text", func(c *C) {
			o := generate(c.model(c.replies(TextReply("Hello there.", 100))), ask())
			require.NoError(c, o.err)
			require.Equal(c, []agent.Block{agent.Text("Hello there.")}, o.reply.Blocks)
			require.Equal(c, agent.FinishStop, o.reply.FinishReason)
			require.Equal(c, "Hello there.", o.text)
		}},
		{"reply/model as reported", func(c *C) {
			req := ask()
			req.Model = "alias"
			o := generate(c.model(c.replies(TextReply("Hi", 9))), req)
			require.NoError(c, o.err)
			require.Equal(c, ModelName, o.reply.Model)
		}},
		{"reply/text in many chunks", func(c *C) {
			o := generate(c.model(c.replies(TextReply(sentence, 1))), ask())
			require.NoError(c, o.err)
			require.Equal(c, []agent.Block{agent.Text(sentence)}, o.reply.Blocks)
			require.Equal(c, sentence, o.text)
			require.Equal(c, len([]rune(sentence)), o.deltas, "each piece is passed on when it comes")
		}},
		{"reply/frames split at every byte", func(c *C) {
			whole := strings.Join(c.h.Dialect.Frames(TextReply(sentence, 8)), "")
			s := c.serve(func(x *exchange) { x.send(strings.Split(whole, "")...) })
			o := generate(c.model(s), ask())
			require.NoError(c, o.err)
			require.Equal(c, sentence, o.text)
			require.Equal(c, usage.OutputTokens, o.reply.Usage.OutputTokens)
		}},
		{"reply/line over 64 KiB", func(c *C) {
			long := strings.Repeat("0123456789abcdef", 20_000)
			o := generate(c.model(c.replies(TextReply(long, len(long)))), ask())
			require.NoError(c, o.err)
			require.Equal(c, agent.Normalize(o.reply.Blocks), long, "the text differs")
			require.Equal(c, o.text, long, "the deltas differ")
		}},
		{"reply/one tool call", func(c *C) {
			args := `{"city":"東京","days":3,"note":"a \"quoted\" \\ thing"}`
			o := generate(c.model(c.replies(callsReply(callEvents(0, "call_a", "forecast", args)...))), withTools())
			require.NoError(c, o.err)
			require.Equal(c, []agent.Block{call("call_a", "forecast", args)}, o.reply.Blocks)
			require.Equal(c, agent.FinishToolCalls, o.reply.FinishReason)
			require.Empty(c, o.text, "fragments of a tool call are no text")
			require.Zero(c, o.deltas, "fragments of a tool call are not emitted")
		}},
		{"reply/parallel tool calls interleaved", func(c *C) {
			one, two := callEvents(0, "call_a", "forecast", `{"city":"NYC"}`), callEvents(1, "call_b", "forecast", `{"city":"LAX","days":2}`)
			var events []Event
			for i := range max(len(one), len(two)) {
				if i < len(one) {
					events = append(events, one[i])
				}
				if i < len(two) {
					events = append(events, two[i])
				}
			}
			o := generate(c.model(c.replies(callsReply(events...))), withTools())
			require.NoError(c, o.err)
			require.Equal(c, []agent.Block{
				call("call_a", "forecast", `{"city":"NYC"}`), call("call_b", "forecast", `{"city":"LAX","days":2}`),
			}, o.reply.Blocks)
		}},
		{"reply/text and tool call", func(c *C) {
			events := slices.Concat(TextReply("Let me look.", 4).Events, callEvents(0, "call_a", "forecast", `{"city":"NYC"}`))
			o := generate(c.model(c.replies(callsReply(events...))), withTools())
			require.NoError(c, o.err)
			require.Equal(c, []agent.Block{agent.Text("Let me look."), call("call_a", "forecast", `{"city":"NYC"}`)}, o.reply.Blocks)
			require.Equal(c, "Let me look.", o.text)
			require.Equal(c, agent.FinishToolCalls, o.reply.FinishReason)
		}},
		{"reply/empty arguments", func(c *C) {
			o := generate(c.model(c.replies(callsReply(callEvents(0, "call_a", "now", "")...))), withTools())
			require.NoError(c, o.err)
			require.Equal(c, []agent.Block{call("call_a", "now", `{}`)}, o.reply.Blocks)
		}},
		{"reply/arguments that are no JSON", func(c *C) {
			o := generate(c.model(c.replies(callsReply(callEvents(0, "call_a", "forecast", `{"city":"N`)...))), withTools())
			require.NoError(c, o.err)
			require.Len(c, o.reply.Blocks, 1)
			b := o.reply.Blocks[0]
			require.NotEmpty(c, b.Error)
			b.Error = ""
			require.Equal(c, agent.Block{Type: agent.BlockInvalidToolCall, ID: "call_a", Name: "forecast", Args: json.RawMessage(`"{\"city\":\"N"`)}, b)
		}},
		{"reply/reasoning", func(c *C) {
			r := TextReply("Four.", 2)
			r.Events = append([]Event{{Reasoning: "Two and "}, {Reasoning: "two."}, {Signature: "c2lnbmVk"}}, r.Events...)
			o := generate(c.model(c.replies(r)), ask())
			require.NoError(c, o.err)
			require.Len(c, o.reply.Blocks, 2)
			require.Equal(c, agent.BlockReasoning, o.reply.Blocks[0].Type)
			require.Equal(c, "Two and two.", o.reply.Blocks[0].Reasoning)
			require.Equal(c, agent.Text("Four."), o.reply.Blocks[1])
			require.Equal(c, "Two and two.", o.reasoning)
			require.Equal(c, "Four.", o.text)
		}},
		{"reply/usage", func(c *C) {
			o := generate(c.model(c.replies(TextReply("Hi", 9))), ask())
			require.NoError(c, o.err)
			want := usage
			if reported := c.h.Dialect.traits().Reported; reported != nil {
				want = reported(usage)
			}
			require.Equal(c, want, o.reply.Usage)
		}},
		{"reply/finish reasons", func(c *C) {
			for _, reason := range []agent.FinishReason{agent.FinishStop, agent.FinishLength, agent.FinishContentFilter} {
				r := TextReply("Hi", 9)
				r.Finish = reason
				o := generate(c.model(c.replies(r)), ask())
				require.NoError(c, o.err)
				require.Equal(c, reason, o.reply.FinishReason)
			}
		}},
		{"reply/many at once", func(c *C) {
			said := strings.Repeat("ab", 200)
			m := c.model(c.replies(TextReply(said, 3)))
			outcomes := make([]outcome, 8)
			var wg sync.WaitGroup
			for i := range outcomes {
				wg.Go(func() { outcomes[i] = generate(m, ask()) })
			}
			wg.Wait()
			for _, o := range outcomes {
				require.NoError(c, o.err)
				require.Equal(c, said, o.text)
				require.Equal(c, []agent.Block{agent.Text(said)}, o.reply.Blocks)
			}
		}},
	}
}
