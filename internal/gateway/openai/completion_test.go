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
	d.script(running(), reasoning("model/1", "hm"), token("model/1", "Two "), token("model/1", "words <&>"), terminal("Two words <&>", nil))
	a := d.complete("", "Idempotency-Key", "k1")
	require.Equal(t, 200, a.status, "%s", a.body)
	require.Equal(t, "turn-1", a.header.Get("Turnstone-Turn-Id"))
	require.Equal(t, "turn-1", a.header.Get("Turnstone-Session-Id"))
	want := `{"id":"chatcmpl-turn-1","object":"chat.completion","created":1,"model":"analyst","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"Two words <&>","reasoning_content":"hm","refusal":null},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},` +
		`"completion_tokens_details":{"reasoning_tokens":2}},"system_fingerprint":null}` + "\n"
	require.Equal(t, want, withoutTimes(t, a.body))

	e := d.rt.Submitted()[0]
	require.Equal(t, "openai", e.Channel)
	require.Equal(t, "openai", e.Request.Channel)
	require.Equal(t, "k1", e.Request.IdempotencyKey)
	require.Equal(t, agent.HistoryFresh, e.Request.History)
	require.Equal(t, withoutTimes(t, a.body), withoutTimes(t, d.complete("", "Idempotency-Key", "k1").body), "the same key joins the same turn")
}

func TestStreamedAnswer(t *testing.T) {
	d := open(t, nil)
	d.script(running(), reasoning("model/1", "hm"), token("model/1", "Two "), token("model/1", "words <&>"), terminal("Two words <&>", nil))
	a := d.complete(`,"stream":true,"stream_options":{"include_usage":true}`)
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
		"data: [DONE]\n\n", withoutTimes(t, a.body))

	require.Empty(t, readStream(t, d.complete(`,"stream":true`).body).usage, "the request does not ask for it")
}

// A streamed answer and a whole answer have the same content.
func TestStreamedEqualsWhole(t *testing.T) {
	long := strings.Repeat("word ", 30_000)
	cases := map[string]struct {
		events             []agent.Event
		more               string
		content, reasoning string
		finish             string
	}{
		"steps": {
			events: slices.Concat([]agent.Event{running(), reasoning("model/1", "a"), token("model/1", "Let me look.")}, toolCall("c1", "look", `{}`),
				[]agent.Event{reasoning("model/2", "b"), token("model/2", "Here "), token("model/2", "it is."), terminal("Here it is.", nil)}),
			content: "Let me look.\n\nHere it is.", reasoning: "a\n\nb",
		},
		"steps that end with line feeds": {
			events:  []agent.Event{token("model/1", "one\n"), token("model/2", "two\n\n"), token("answer/3", "three"), terminal("three", nil)},
			content: "one\n\ntwo\n\nthree",
		},
		"repeated after a reset": {
			events: []agent.Event{
				token("model/1", "It "), token("model/1", "is cold"), reset("model/1", 1), token("model/1", "It is"),
				token("model/1", " cold today"), terminal("It is cold today", nil),
			},
			content: "It is cold today",
		},
		"a reset of a later step": {
			events:  []agent.Event{token("model/1", "First."), token("model/2", "Second"), reset("model/2", 2), token("model/2", "Second!"), terminal("Second!", nil)},
			content: "First.\n\nSecond!",
		},
		"two resets, one from the middle": {
			events: []agent.Event{
				token("model/1", "ab"), token("model/1", "cd"), reset("model/1", 2), token("model/1", "cd"), reset("model/1", 1),
				token("model/1", "abc"), token("model/1", "def"), terminal("abcdef", nil),
			},
			content: "abcdef",
		},
		"a reset of a producer without text": {
			events:  []agent.Event{token("model/1", "x"), reset("tool/1/c1", 1), reset("model/1", 9), terminal("x", nil)},
			content: "x",
		},
		"a reset of an earlier producer, after its text": {
			events:  []agent.Event{token("model/1", "x"), token("model/2", "y"), reset("model/1", 9), terminal("y", nil)},
			content: "x\n\ny",
		},
		"no text in the events":         {events: []agent.Event{running(), terminal("from the cache", nil)}, content: "from the cache"},
		"no text at all":                {events: []agent.Event{running(), terminal("No output from agent.", nil)}, content: "No output from agent."},
		"a long text":                   {events: []agent.Event{token("model/1", long), token("model/1", long), terminal("word…", nil)}, content: long + long},
		"the model's limit":             {events: []agent.Event{token("model/1", "cut o"), terminal("cut o", stoppedBy(agent.TurnCompleted, agent.StopMaxTokens))}, content: "cut o", finish: "length"},
		"the provider's filter":         {events: []agent.Event{token("model/1", "cut o"), terminal("cut o", stoppedBy(agent.TurnCompleted, agent.StopFiltered))}, content: "cut o", finish: "content_filter"},
		"the turn's limit":              {events: []agent.Event{token("model/1", "cut o"), terminal("cut o", stoppedBy(agent.TurnFailed, agent.StopTokens))}, content: "cut o", finish: "length"},
		"an answer of another producer": {events: []agent.Event{token("model/1", "a"), token("answer/2", "That is all."), terminal("That is all.", stoppedBy(agent.TurnCompleted, agent.StopToolCalls))}, content: "a\n\nThat is all."},
		"a document, second try":        {events: []agent.Event{token("model/1", `{"n":"x"}`), token("model/2", `{"n": 1}`), terminal(`{"n":1}`, withDocument(`{"n":1}`))}, more: schema, content: `{"n":1}`},
		"a document, too large for the result": {
			events: []agent.Event{token("model/1", "words"), token("model/2", `{"n": `), token("model/2", `1}`), terminal(`{"n":…`, nil)}, more: schema, content: `{"n": 1}`,
		},
		"another document after a reset": {
			events: []agent.Event{token("model/1", `{"n":2}`), reset("model/1", 1), token("model/1", `{"n":1}`), terminal(`{"n":1}`, withDocument(`{"n":1}`))},
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
			a := d.complete(c.more)
			require.Equal(t, 200, a.status, "%s", a.body)
			require.NoError(t, json.Unmarshal([]byte(a.body), &whole))
			require.Equal(t, c.content, whole.Choices[0].Message.Content)
			require.Equal(t, c.reasoning, whole.Choices[0].Message.Reasoning)
			require.Equal(t, c.finish, whole.Choices[0].Finish)

			h := readStream(t, d.complete(c.more+`,"stream":true,"stream_options":{"include_usage":true}`).body)
			require.Nil(t, h.err)
			require.Equal(t, c.content, h.content)
			require.Equal(t, c.reasoning, h.reasoning)
			require.Equal(t, c.finish, h.finish)
			require.JSONEq(t, string(whole.Usage), string(h.usage))
		})
	}
}

const schema = `,"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"}}}`

func stoppedBy(status agent.TurnStatus, why agent.StopReason) func(*agent.AgentStepOutput) {
	return func(o *agent.AgentStepOutput) {
		o.Status, o.StopReason = status, why
		if status == agent.TurnFailed {
			o.Error = &agent.Failure{Type: string(why), Message: "the end was " + string(why)}
		}
	}
}

func withDocument(document string) func(*agent.AgentStepOutput) {
	return func(o *agent.AgentStepOutput) { o.Structured = json.RawMessage(document) }
}

// Text that differs from the text that was sent ends the stream with an error. An answer that is not streamed has the right text.
func TestStreamRestarted(t *testing.T) {
	cases := map[string]struct {
		events   []agent.Event
		streamed string
		whole    string
	}{
		"other words": {
			[]agent.Event{token("model/1", "It is hot"), reset("model/1", 1), token("model/1", "It is"), token("model/1", " cold"), terminal("It is cold", nil)},
			"It is hot", "It is cold",
		},
		"fewer words": {
			[]agent.Event{token("model/1", "It is hot today"), reset("model/1", 1), token("model/1", "It is hot"), terminal("It is hot", nil)},
			"It is hot today", "It is hot",
		},
		"another producer": {
			[]agent.Event{token("model/1", "My number is"), reset("model/1", 1), token("answer/1", "I may not say."), terminal("I may not say.", nil)},
			"My number is", "I may not say.",
		},
		"no text": {
			[]agent.Event{token("model/1", "psst"), reset("model/1", 1), terminal("No output from agent.", nil)},
			"psst", "No output from agent.",
		},
		"a step before the last": {
			[]agent.Event{token("model/1", "one"), token("model/2", "two"), reset("model/1", 1), terminal("two", nil)},
			"one\n\ntwo", "two",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.script(c.events...)
			a := d.complete(`,"stream":true`)
			h := readStream(t, a.body)
			require.Equal(t, c.streamed, h.content)
			require.Empty(t, h.finish)
			require.NotContains(t, a.body, "[DONE]")
			require.Equal(t, "stream_restarted", h.err.Code)
			require.Equal(t, "turn-1", h.err.TurnID)
			require.Contains(t, h.err.Message, "/v1/turns/turn-1")
			require.Contains(t, withoutTimes(t, d.complete("").body), fmt.Sprintf(`"content":%q`, c.whole))
		})
	}
}

// Reasoning that differs after a reset is dropped. It does not end the stream, because it is not part of the content.
func TestRestartedReasoningIsDropped(t *testing.T) {
	d := open(t, nil)
	d.script(reasoning("model/1", "first"), reset("model/1", 1), reasoning("model/1", "second"), reasoning("model/1", " and more"), token("model/1", "x"), terminal("x", nil))
	h := readStream(t, d.complete(`,"stream":true`).body)
	require.Nil(t, h.err)
	require.Equal(t, "first", h.reasoning)
	require.Equal(t, "x", h.content)
	require.Contains(t, d.complete("").body, `"reasoning_content":"second and more"`)
}

// A reset after each prefix of an answer does not change what the client reads.
func TestResetAfterEachPrefix(t *testing.T) {
	text := "Ünï — 多言語 \"q\" \\ \u2028\n\n<b>&amp;</b> 👩‍🚀."
	d := open(t, nil)
	for cut := range text {
		head, tail := text[:cut], text[cut:]
		d.script(token("model/1", head), token("model/1", tail), reset("model/1", 1), token("model/1", head), reset("model/1", 1), token("model/1", text), terminal(text, nil))
		h := readStream(t, d.complete(`,"stream":true`).body)
		require.Nil(t, h.err)
		require.Equal(t, text, h.content, "cut at %d", cut)
	}
}
