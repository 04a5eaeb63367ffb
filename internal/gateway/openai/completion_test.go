package openai_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
)

func TestWholeAnswer(t *testing.T) {
	d := open(t, nil)
	d.script(running(), thinks("model/1", "hm"), says("model/1", "Two "), says("model/1", "words <&>"), ends("Two words <&>", nil))
	a := d.ask("", "Idempotency-Key", "k1")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, "turn-1", a.header.Get("Turnstone-Turn-Id"))
	require.Equal(t, "turn-1", a.header.Get("Turnstone-Session-Id"))
	whole := `{"id":"chatcmpl-turn-1","object":"chat.completion","created":1,"model":"analyst","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"Two words <&>","reasoning_content":"hm","refusal":null},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},` +
		`"completion_tokens_details":{"reasoning_tokens":2}},"system_fingerprint":null}` + "\n"
	require.Equal(t, whole, timeless(t, a.body))

	e := d.rt.Submitted()[0]
	require.Equal(t, "openai", e.Channel)
	require.Equal(t, "openai", e.Request.Channel)
	require.Equal(t, "k1", e.Request.IdempotencyKey)
	require.Equal(t, agent.HistoryFresh, e.Request.History)
	require.Equal(t, timeless(t, a.body), timeless(t, d.ask("", "Idempotency-Key", "k1").body), "the same key joins the same turn")
}

func TestStreamedAnswer(t *testing.T) {
	d := open(t, nil)
	d.script(running(), thinks("model/1", "hm"), says("model/1", "Two "), says("model/1", "words <&>"), ends("Two words <&>", nil))
	a := d.ask(`,"stream":true,"stream_options":{"include_usage":true}`)
	require.Equal(t, 200, a.status)
	require.Equal(t, "text/event-stream; charset=utf-8", a.header.Get("Content-Type"))
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	require.Equal(t, "turn-1", a.header.Get("Turnstone-Turn-Id"))
	chunk := func(choices, more string) string {
		return `data: {"id":"chatcmpl-turn-1","object":"chat.completion.chunk","created":1,"model":"analyst","system_fingerprint":null,"choices":[` +
			choices + `]` + more + "}\n\n"
	}
	choice := func(delta, finish string) string {
		return `{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + finish + `}`
	}
	require.Equal(t, chunk(choice(`{"role":"assistant","content":""}`, `null`), ``)+
		chunk(choice(`{"reasoning_content":"hm"}`, `null`), ``)+
		chunk(choice(`{"content":"Two "}`, `null`), ``)+
		chunk(choice(`{"content":"words <&>"}`, `null`), ``)+
		chunk(choice(`{}`, `"stop"`), ``)+
		chunk(``, `,"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},`+
			`"completion_tokens_details":{"reasoning_tokens":2}}`)+
		"data: [DONE]\n\n", timeless(t, a.body))

	plain := listen(t, d.ask(`,"stream":true`).body)
	require.Empty(t, plain.usage, "nobody asked for it")
}

// TestStreamedAndWholeAgree is the promise of the package: what a program reads does not depend on how it reads.
func TestStreamedAndWholeAgree(t *testing.T) {
	long := strings.Repeat("word ", 30_000)
	cases := map[string]struct {
		events             []agent.Event
		more               string
		content, reasoning string
		finish             string
	}{
		"steps": {
			events: slices.Concat([]agent.Event{running(), thinks("model/1", "a"), says("model/1", "Let me look.")}, calls("c1", "look", `{}`),
				[]agent.Event{thinks("model/2", "b"), says("model/2", "Here "), says("model/2", "it is."), ends("Here it is.", nil)}),
			content: "Let me look.\n\nHere it is.", reasoning: "a\n\nb",
		},
		"lines end already": {
			events:  []agent.Event{says("model/1", "one\n"), says("model/2", "two\n\n"), says("answer/3", "three"), ends("three", nil)},
			content: "one\n\ntwo\n\nthree",
		},
		"said again after a reset": {
			events: []agent.Event{
				says("model/1", "It "), says("model/1", "is cold"), reset("model/1", 1), says("model/1", "It is"),
				says("model/1", " cold today"), ends("It is cold today", nil),
			},
			content: "It is cold today",
		},
		"a later step began again": {
			events:  []agent.Event{says("model/1", "First."), says("model/2", "Second"), reset("model/2", 2), says("model/2", "Second!"), ends("Second!", nil)},
			content: "First.\n\nSecond!",
		},
		"began again twice, once from the middle": {
			events: []agent.Event{
				says("model/1", "ab"), says("model/1", "cd"), reset("model/1", 2), says("model/1", "cd"), reset("model/1", 1),
				says("model/1", "abc"), says("model/1", "def"), ends("abcdef", nil),
			},
			content: "abcdef",
		},
		"a reset of what said nothing": {
			events:  []agent.Event{says("model/1", "x"), reset("tool/1/c1", 1), reset("model/1", 9), ends("x", nil)},
			content: "x",
		},
		"a late reset of what said nothing": {
			events:  []agent.Event{says("model/1", "x"), says("model/2", "y"), reset("model/1", 9), ends("y", nil)},
			content: "x\n\ny",
		},
		"no words in the events":  {events: []agent.Event{running(), ends("from the cache", nil)}, content: "from the cache"},
		"no words at all":         {events: []agent.Event{running(), ends("No output from agent.", nil)}, content: "No output from agent."},
		"more than one write":     {events: []agent.Event{says("model/1", long), says("model/1", long), ends("word…", nil)}, content: long + long},
		"the model's bound":       {events: []agent.Event{says("model/1", "cut o"), ends("cut o", stopped(agent.TurnCompleted, agent.StopMaxTokens))}, content: "cut o", finish: "length"},
		"the provider's filter":   {events: []agent.Event{says("model/1", "cut o"), ends("cut o", stopped(agent.TurnCompleted, agent.StopFiltered))}, content: "cut o", finish: "content_filter"},
		"the turn's bound":        {events: []agent.Event{says("model/1", "cut o"), ends("cut o", stopped(agent.TurnFailed, agent.StopTokens))}, content: "cut o", finish: "length"},
		"closing words":           {events: []agent.Event{says("model/1", "a"), says("answer/2", "That is all."), ends("That is all.", stopped(agent.TurnCompleted, agent.StopToolCalls))}, content: "a\n\nThat is all."},
		"a document, tried twice": {events: []agent.Event{says("model/1", `{"n":"x"}`), says("model/2", `{"n": 1}`), ends(`{"n":1}`, structured(`{"n":1}`))}, more: schema, content: `{"n":1}`},
		"a document, too large for the result": {
			events: []agent.Event{says("model/1", "words"), says("model/2", `{"n": `), says("model/2", `1}`), ends(`{"n":…`, nil)}, more: schema, content: `{"n": 1}`,
		},
		"a document in other words after a reset": {
			events: []agent.Event{says("model/1", `{"n":2}`), reset("model/1", 1), says("model/1", `{"n":1}`), ends(`{"n":1}`, structured(`{"n":1}`))},
			more:   `,"response_format":{"type":"json_object"}`, content: `{"n":1}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.script(c.events...)
			if c.finish == "" {
				c.finish = "stop"
			}
			var whole struct {
				Choices []struct {
					Message struct {
						Content   string `json:"content"`
						Reasoning string `json:"reasoning_content"`
					} `json:"message"`
					Finish string `json:"finish_reason"`
				} `json:"choices"`
				Usage json.RawMessage `json:"usage"`
			}
			a := d.ask(c.more)
			require.Equal(t, 200, a.status, "%s", a.body)
			require.NoError(t, json.Unmarshal([]byte(a.body), &whole))
			require.Equal(t, c.content, whole.Choices[0].Message.Content)
			require.Equal(t, c.reasoning, whole.Choices[0].Message.Reasoning)
			require.Equal(t, c.finish, whole.Choices[0].Finish)

			h := listen(t, d.ask(c.more+`,"stream":true,"stream_options":{"include_usage":true}`).body)
			require.Nil(t, h.err)
			require.Equal(t, c.content, h.content)
			require.Equal(t, c.reasoning, h.reasoning)
			require.Equal(t, c.finish, h.finish)
			require.JSONEq(t, string(whole.Usage), string(h.usage))
		})
	}
}

const schema = `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`

func stopped(status agent.TurnStatus, why agent.StopReason) func(*agent.AgentStepOutput) {
	return func(o *agent.AgentStepOutput) {
		o.Status, o.StopReason = status, why
		if status == agent.TurnFailed {
			o.Error = &agent.Failure{Type: string(why), Message: "the end was " + string(why)}
		}
	}
}

func structured(document string) func(*agent.AgentStepOutput) {
	return func(o *agent.AgentStepOutput) { o.Structured = json.RawMessage(document) }
}

// TestTextIsNeverTakenBack: whatever differs from what was sent ends the stream, and the whole answer is right nonetheless.
func TestTextIsNeverTakenBack(t *testing.T) {
	cases := map[string]struct {
		events         []agent.Event
		sent, whole    string
		wholeReasoning string
	}{
		"other words": {
			[]agent.Event{says("model/1", "It is hot"), reset("model/1", 1), says("model/1", "It is"), says("model/1", " cold"), ends("It is cold", nil)},
			"It is hot", "It is cold", "",
		},
		"fewer words": {
			[]agent.Event{says("model/1", "It is hot today"), reset("model/1", 1), says("model/1", "It is hot"), ends("It is hot", nil)},
			"It is hot today", "It is hot", "",
		},
		"another speaker": {
			[]agent.Event{says("model/1", "My number is"), reset("model/1", 1), says("answer/1", "I may not say."), ends("I may not say.", nil)},
			"My number is", "I may not say.", "",
		},
		"none at all": {
			[]agent.Event{says("model/1", "psst"), reset("model/1", 1), ends("No output from agent.", nil)},
			"psst", "No output from agent.", "",
		},
		"a step before the last": {
			[]agent.Event{says("model/1", "one"), says("model/2", "two"), reset("model/1", 1), ends("two", nil)},
			"one\n\ntwo", "two", "",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.script(c.events...)
			a := d.ask(`,"stream":true`)
			h := listen(t, a.body)
			require.Equal(t, c.sent, h.content)
			require.Empty(t, h.finish)
			require.NotContains(t, a.body, "[DONE]")
			require.Equal(t, "stream_restarted", h.err.Code)
			require.Equal(t, "turn-1", h.err.TurnID)
			require.Contains(t, h.err.Message, "/v1/turns/turn-1")
			require.Contains(t, timeless(t, d.ask("").body), fmt.Sprintf(`"content":%q`, c.whole))
		})
	}
}

// TestReasoningThatDiffersIsDropped: it is no part of the answer, and no reason to lose that.
func TestReasoningThatDiffersIsDropped(t *testing.T) {
	d := open(t, nil)
	d.script(thinks("model/1", "first"), reset("model/1", 1), thinks("model/1", "second"), thinks("model/1", " and more"), says("model/1", "x"), ends("x", nil))
	h := listen(t, d.ask(`,"stream":true`).body)
	require.Nil(t, h.err)
	require.Equal(t, "first", h.reasoning)
	require.Equal(t, "x", h.content)
	require.Contains(t, d.ask("").body, `"reasoning_content":"second and more"`)
}

// TestEverySplit cuts an answer in two at every byte and begins again there: the client reads the same.
func TestEverySplit(t *testing.T) {
	text := "Ünï — 多言語 \"q\" \\ \u2028\n\n<b>&amp;</b> 👩‍🚀."
	d := open(t, nil)
	for cut := range text {
		head, tail := text[:cut], text[cut:]
		d.script(says("model/1", head), says("model/1", tail), reset("model/1", 1), says("model/1", head), reset("model/1", 1), says("model/1", text), ends(text, nil))
		h := listen(t, d.ask(`,"stream":true`).body)
		require.Nil(t, h.err)
		require.Equal(t, text, h.content, "cut at %d", cut)
	}
}
