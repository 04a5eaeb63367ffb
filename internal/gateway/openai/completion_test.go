package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
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

func TestTurnsWithoutAnAnswer(t *testing.T) {
	cases := map[string]struct {
		events []agent.Event
		status int
		want   problem
	}{
		"waits for a person": {
			append([]agent.Event{running(), says("model/1", "I will")}, asks("a1", "send_mail")...), 409,
			problem{Type: "awaiting_approval", Code: "awaiting_approval", Message: "turn turn-1 waits for a person to decide on send_mail (a1): POST /v1/turns/turn-1/decisions"},
		},
		"the provider failed": {
			[]agent.Event{running(), says("model/1", "half"), ends("half", stopped(agent.TurnFailed, agent.StopModelError))},
			500,
			problem{Type: "server_error", Code: "model_error", Message: "the end was model_error"},
		},
		"a limit of cost": {
			[]agent.Event{ends("", stopped(agent.TurnFailed, agent.StopCost))},
			500,
			problem{Type: "server_error", Code: "cost_limit", Message: "the end was cost_limit"},
		},
		"cancelled": {
			[]agent.Event{ends("", stopped(agent.TurnCancelled, agent.StopCancelled))},
			499,
			problem{Type: "server_error", Code: "cancelled", Message: "turn turn-1 ended as cancelled: cancelled"},
		},
		"no room at the provider": {
			[]agent.Event{ends("", func(o *agent.AgentStepOutput) {
				o.Status, o.StopReason = agent.TurnFailed, agent.StopModelError
				o.Error = &agent.Failure{Type: string(agent.CodeUnavailable), Message: "overloaded"}
			})},
			503,
			problem{Type: "server_error", Code: "unavailable", Message: "overloaded"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.script(c.events...)
			a := d.ask("", "Idempotency-Key", "k")
			require.Equal(t, c.status, a.status, "%s", a.body)
			require.Equal(t, "false", a.header.Get("X-Should-Retry"), "the same request again would be another turn, or end the same")
			p := a.problem(t)
			require.Equal(t, "turn-1", p.TurnID)
			if p.Type == "awaiting_approval" {
				require.Equal(t, "send_mail", p.Pending[0].ToolName)
			}
			p.TurnID, p.Pending = "", nil
			require.Equal(t, c.want, p)

			h := listen(t, d.ask(`,"stream":true`, "Idempotency-Key", "k").body)
			require.Equal(t, c.want.Code, h.err.Code)
			require.Equal(t, c.want.Message, h.err.Message)
			require.Empty(t, h.finish)
		})
	}
}

func TestPausesOfThePast(t *testing.T) {
	d := open(t, nil)
	approved := agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{ApprovalID: "a1"}}
	d.script(slices.Concat([]agent.Event{running()}, asks("a1", "send_mail"))...)
	require.Equal(t, 409, d.ask("", "Idempotency-Key", "k").status)
	d.rt.Emit("turn-1", approved, running(), says("model/2", "Sent."), ends("Sent.", nil))
	a := d.ask("", "Idempotency-Key", "k")
	require.Equal(t, 200, a.status, "the same request again joins the turn: %s", a.body)
	require.Contains(t, a.body, `"content":"Sent."`)
	require.Equal(t, "Sent.", listen(t, d.ask(`,"stream":true`, "Idempotency-Key", "k").body).content)
	require.Len(t, d.rt.Submitted(), 3)
}

func TestJoinedTurnWhoseEventsAreGone(t *testing.T) {
	for _, stream := range []string{"", `,"stream":true`} {
		t.Run("stream"+stream, func(t *testing.T) {
			d := open(t, nil)
			d.rt.Script = nil
			content := func(a answer) string {
				require.Equal(t, 200, a.status, "%s", a.body)
				if stream != "" {
					return listen(t, a.body).content
				}
				_, rest, _ := strings.Cut(a.body, `"content":"`)
				text, _, _ := strings.Cut(rest, `"`)
				return text
			}
			_, err := d.rt.Submit(t.Context(), agent.Envelope{Request: agent.TurnRequest{IdempotencyKey: "k", Context: agent.InvocationContext{Tenant: "default"}}})
			require.NoError(t, err)
			d.rt.Emit("turn-1", running(), says("model/1", "Here "), says("model/1", "it "))
			d.rt.Expire(3)
			got := make(chan answer, 1)
			go func() { got <- d.ask(stream, "Idempotency-Key", "k") }()
			require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
			d.rt.Emit("turn-1", says("model/1", "is."), ends("Here it is.", nil))
			require.Equal(t, "Here it is.", content(<-got), "it goes on")
			require.Equal(t, "Here it is.", content(d.ask(stream, "Idempotency-Key", "k")), "it is over")
		})
	}
}

func TestResultThatTheLastEventLacks(t *testing.T) {
	d := open(t, nil)
	d.script(says("model/1", "x"), agent.Event{Type: agent.EventStatus, Status: agent.StatusCompleted, Result: &agent.AgentStepOutput{Status: agent.TurnCompleted}})
	require.Contains(t, d.ask("").body, `"content":"x"`)
}

func TestWaitingHasAnEnd(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.WaitTimeout = 20 * time.Millisecond })
	for key, retry := range map[string]string{"": "false", "k": ""} {
		a := d.ask("", "Idempotency-Key", key)
		require.Equal(t, 503, a.status)
		p := a.problem(t)
		require.Equal(t, "turn_running", p.Code)
		require.Contains(t, p.Message, "/v1/turns/"+p.TurnID)
		require.Equal(t, retry, a.header.Get("X-Should-Retry"), "key %q", key)
	}
}

func TestShutdown(t *testing.T) {
	d := open(t, nil)
	d.script(running(), says("model/1", "half"))
	whole, streamed := make(chan answer, 1), make(chan answer, 1)
	go func() { whole <- d.ask("") }()
	go func() { streamed <- d.ask(`,"stream":true`) }()
	require.Eventually(t, func() bool { return d.rt.Followers() == 2 }, 20*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, d.Shutdown(ctx))
	a := <-whole
	require.Equal(t, 503, a.status)
	require.Equal(t, "turn_running", a.problem(t).Code)
	h := listen(t, (<-streamed).body)
	require.Equal(t, "turn_running", h.err.Code)
}

func TestBrokenEventLog(t *testing.T) {
	d := open(t, nil)
	d.script(running(), says("model/1", "half"))
	resp := d.open(t.Context(), "POST", "/v1/chat/completions", `{"model":"analyst","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	next := events(resp.Body)
	for range 2 {
		_, err := next()
		require.NoError(t, err)
	}
	d.rt.Expire(9)
	d.rt.Emit("turn-1", says("model/1", "more"))
	event, err := next()
	require.NoError(t, err)
	p := problemIn(t, strings.TrimPrefix(event, "data: "))
	require.Equal(t, "gap", p.Code)
	require.Equal(t, "turn-1", p.TurnID)
	_, err = next()
	require.ErrorIs(t, err, io.EOF)
}

func TestHeartbeat(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.Heartbeat = 5 * time.Millisecond })
	d.script(running())
	next := events(d.open(t.Context(), "POST", "/v1/chat/completions", `{"model":"analyst","stream":true,"messages":[{"role":"user","content":"x"}]}`).Body)
	event, err := next()
	require.NoError(t, err)
	require.Contains(t, event, `"role":"assistant"`, "before the first word")
	for range 2 {
		event, err = next()
		require.NoError(t, err)
		require.Equal(t, ":\n", event)
	}
}

func TestDisconnect(t *testing.T) {
	for _, c := range []struct {
		stream, header string
		cancels        bool
	}{
		{`,"stream":true`, "", false}, {`,"stream":true`, "continue", false}, {`,"stream":true`, "cancel", true}, {"", "", false}, {"", "cancel", true},
	} {
		t.Run(c.stream+c.header, func(t *testing.T) {
			d := open(t, nil)
			cancelled := make(chan agent.CancelRequest, 1)
			d.rt.Cancelled = func(_ agent.TurnID, r agent.CancelRequest) error { cancelled <- r; return nil }
			d.script(running())
			ctx, hangUp := context.WithCancel(t.Context())
			defer hangUp()
			over := make(chan struct{})
			go func() {
				defer close(over)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/chat/completions",
					strings.NewReader(`{"model":"analyst","user":"u1","messages":[{"role":"user","content":"x"}]`+c.stream+`}`))
				if err != nil {
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Turnstone-On-Disconnect", c.header)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
			hangUp()
			<-over
			require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 20*time.Second, time.Millisecond, "the follow loop goes with its client")
			if c.cancels {
				require.Equal(t, agent.CancelRequest{Reason: "the client disconnected", By: "u1"}, <-cancelled)
				return
			}
			shut, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			require.NoError(t, d.Shutdown(shut)) // the handler has returned
			require.Empty(t, cancelled)
		})
	}
}

// TestCancelIsForThoseWhoLeave: a client that got its answer has not disconnected before it.
func TestCancelIsForThoseWhoLeave(t *testing.T) {
	d := open(t, nil)
	d.rt.Cancelled = func(agent.TurnID, agent.CancelRequest) error {
		t.Error("a turn that was answered is cancelled")
		return nil
	}
	d.script(says("model/1", "x"), ends("x", nil))
	for _, stream := range []string{"", `,"stream":true`} {
		require.Equal(t, 200, d.ask(stream, "Turnstone-On-Disconnect", "cancel").status)
	}
}

func TestStuckClientIsDropped(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.WriteTimeout = time.Second })
	d.script(running())
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", d.HTTPAddr())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4096))
	body := `{"model":"analyst","stream":true,"messages":[{"role":"user","content":"x"}]}`
	_, err = fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
	text := strings.Repeat("x", 1<<19) // more, in all, than all buffers between it and us hold
	for range 15 {
		d.rt.Emit("turn-1", says("model/1", text))
	}
	require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 60*time.Second, time.Millisecond, "it reads nothing, and is dropped")
}

func TestPlaces(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.Streams = 1 })
	d.script(running())
	d.open(t.Context(), "POST", "/v1/chat/completions", `{"model":"analyst","stream":true,"messages":[{"role":"user","content":"x"}]}`)
	a := d.ask("")
	require.Equal(t, 429, a.status)
	require.Equal(t, "5", a.header.Get("Retry-After"))
	require.Equal(t, "rate_limit_exceeded", a.problem(t).Code)
	require.Len(t, d.rt.Submitted(), 1, "a refused request starts nothing")
	d.rt.Emit("turn-1", ends("done", nil))
	require.Eventually(t, func() bool { return d.rt.Followers() == 0 }, 20*time.Second, time.Millisecond)
	d.script(ends("done", nil))
	require.Eventually(t, func() bool { return d.ask("").status == 200 }, 20*time.Second, time.Millisecond, "the place is free again")
	for range 3 {
		require.Eventually(t, func() bool { return d.ask(`,"stream":true`).status == 200 }, 20*time.Second, time.Millisecond)
	}
}

func TestRefusals(t *testing.T) {
	cases := map[string]struct {
		err            error
		status         int
		typ, code      string
		param, message string
		retryAfter     string
	}{
		"unknown agent":   {agent.FieldErrorf(agent.CodeNotFound, "agent", "there is none"), 404, "invalid_request_error", "model_not_found", "model", "model: there is none", ""},
		"unknown profile": {agent.FieldErrorf(agent.CodeNotFound, "model", "there is none"), 404, "invalid_request_error", "model_not_found", "model", "model: there is none", ""},
		"a bad schema":    {agent.Invalid("output_schema.type", "is odd"), 400, "invalid_request_error", "invalid_value", "response_format.type", "response_format.type: is odd", ""},
		"no credential":   {agent.Errorf(agent.CodeUnauthenticated, "", "who?"), 401, "invalid_request_error", "invalid_api_key", "", "who?", ""},
		"not allowed":     {agent.Errorf(agent.CodeDenied, "", "no"), 403, "permission_error", "permission_denied", "", "no", ""},
		"a busy session":  {agent.Errorf(agent.CodeConflict, "", "busy"), 409, "conflict_error", "conflict", "", "busy", ""},
		"too large":       {agent.Errorf(agent.CodeOverflow, "", "big"), 413, "invalid_request_error", "request_too_large", "", "big", ""},
		"too many": {
			&agent.Error{Code: agent.CodeRateLimited, RetryAfter: 1500 * time.Millisecond, Err: errors.New("many")}, 429,
			"rate_limit_exceeded", "rate_limit_exceeded", "", "many", "2",
		},
		"not now":     {agent.Errorf(agent.CodeUnavailable, "", "later"), 503, "server_error", "unavailable", "", "later", "1"},
		"our own":     {errors.New("connect to db.internal"), 500, "server_error", "internal_error", "", "internal error; the server's log has the details under this request's id", ""},
		"an odd code": {agent.Errorf(agent.CodeCancelled, "", "gone"), 499, "server_error", "cancelled", "", "gone", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.rt.Refuse = func(agent.Envelope) error { return c.err }
			for _, stream := range []string{"", `,"stream":true`} {
				a := d.ask(stream)
				require.Equal(t, c.status, a.status, "%s", a.body)
				require.Equal(t, c.retryAfter, a.header.Get("Retry-After"))
				p := a.problem(t)
				want := problem{Type: c.typ, Code: c.code, Message: c.message}
				if c.param != "" {
					want.Param = &c.param
				}
				require.Equal(t, want, p)
			}
		})
	}
}

func TestModels(t *testing.T) {
	d := open(t, nil)
	published := &agent.Artifact{CompiledAt: time.Unix(1_790_000_000, 0)}
	d.catalog.AgentList = []agent.AgentInfo{
		{Name: "analyst", Tenant: agent.SharedTenant, Models: []string{"main", "fast", "x:y"}, Description: "flights", Artifact: published},
		{Name: "broken", Tenant: "default", Fault: "its model is gone", Models: []string{"main"}},
		{Name: "writer", Tenant: "default", Models: []string{"main"}},
	}
	a := d.send("GET", "/v1/models", "")
	require.Equal(t, 200, a.status)
	one := func(id string) string {
		return `{"id":"` + id + `","object":"model","created":1790000000,"owned_by":"turnstone","description":"flights"}`
	}
	writer := `{"id":"writer","object":"model","created":0,"owned_by":"default"}`
	require.Equal(t, `{"object":"list","data":[`+one("analyst")+`,`+one("analyst:fast")+`,`+one("analyst:x:y")+`,`+writer+"]}\n", a.body)
	require.Equal(t, one("analyst:fast")+"\n", d.send("GET", "/v1/models/analyst%3Afast", "").body)
	require.Equal(t, writer+"\n", d.send("GET", "/v1/models/writer", "").body)
	for _, name := range []string{"broken", "nobody", "", "analyst/fast"} {
		a := d.send("GET", "/v1/models/"+name, "")
		require.Equal(t, 404, a.status, name)
		require.Equal(t, "model_not_found", a.problem(t).Code)
	}
	d.catalog.AgentList = nil
	require.JSONEq(t, `{"object":"list","data":[]}`, d.send("GET", "/v1/models", "").body)
	require.Equal(t, 405, d.send("DELETE", "/v1/models", "").status)

	for i := range 1200 {
		d.catalog.AgentList = append(d.catalog.AgentList, agent.AgentInfo{Name: fmt.Sprintf("a%04d", i), Tenant: "default"})
	}
	require.Equal(t, 1200, strings.Count(d.send("GET", "/v1/models", "").body, `"object":"model"`), "every page")
	require.Equal(t, 200, d.send("GET", "/v1/models/a1199", "").status)
}
