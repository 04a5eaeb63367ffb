package chat_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway"
	"github.com/turnstone-run/turnstone/internal/gateway/chat"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// door is a gateway with the chat door over a scripted runtime.
type door struct {
	*gateway.Gateway

	rt  *gatewaytest.Runtime
	url string
	t   *testing.T
}

func open(t *testing.T, change func(*gateway.Config)) *door {
	t.Helper()
	rt := gatewaytest.New()
	cfg := gateway.Config{Ports: gatewaytest.Ports(rt, &gatewaytest.Catalog{}), Version: "test", Doors: []gateway.Door{chat.New(nil)}}
	if change != nil {
		change(&cfg)
	}
	g := gatewaytest.Serve(t, cfg)
	return &door{Gateway: g, rt: rt, url: "http://" + g.HTTPAddr(), t: t}
}

// script makes every turn emit events.
func (d *door) script(events ...agent.Event) {
	d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		for i := range events {
			if r := events[i].Result; r != nil {
				c := *r
				c.TurnID, c.SessionID = id, "s1"
				events[i].Result = &c
			}
		}
		rt.Emit(id, events...)
	}
}

type answer struct {
	status int
	header http.Header
	body   string
}

func (d *door) chat(body string, header ...string) answer {
	d.t.Helper()
	status, answered, data := gatewaytest.Send(d.t, http.MethodPost, d.url+"/api/chat", body, header...)
	return answer{status, answered, string(data)}
}

func ends(o *agent.AgentStepOutput) agent.Event {
	return agent.Event{Type: agent.EventStatus, Status: agent.TerminalStatus(o.Status), Result: o}
}

func starts(id, tool, args string) agent.Event {
	return agent.Event{Type: agent.EventToolStart, ToolCallID: agent.CallID(id), ToolName: tool, Input: json.RawMessage(args)}
}

// TestAnswers compares the whole body of each kind of answer.
func TestAnswers(t *testing.T) {
	type output = agent.AgentStepOutput
	completed := func(o output, before ...agent.Event) []agent.Event {
		o.Status, o.StopReason = agent.TurnCompleted, cmp.Or(o.StopReason, agent.StopEndTurn)
		return append(before, ends(&o))
	}
	body := func(output, tool, input, failure string) string {
		return fmt.Sprintf(`{"output":"%s","session_id":"s1","tool_name":%s,"tool_input":%s,"error":%s,"turn_id":"turn-1"}`, output, tool, input, failure)
	}
	plain := func(output string) string { return body(output, "null", "null", "null") }
	failed := func(output, failure string) string { return body(output, "null", "null", `"`+failure+`"`) }
	image := agent.Block{Type: agent.BlockImage, URL: "https://example.com/a.png"}
	fetch, sort := agent.ToolCallNote{ID: "c1", Tool: "fetch"}, agent.ToolCallNote{ID: "c2", Tool: "sort"}
	fetching, sorting := starts("c1", "fetch", `{"from":"NYC"}`), starts("c2", "sort", `{"by":"price"}`)
	cases := map[string]struct {
		events []agent.Event
		want   string
	}{
		"plain text":          {completed(output{Output: "two <&>", Blocks: []agent.Block{agent.Text("two <&>")}}), plain("two <&>")},
		"content blocks":      {completed(output{Blocks: []agent.Block{agent.Text("two "), image, agent.Text("flights")}}), plain("two flights")},
		"blocks without text": {completed(output{Blocks: []agent.Block{image}}), plain("No text content in response.")},
		"nothing":             {completed(output{}), plain("No output from agent.")},
		"cut by the model's bound": {
			completed(output{Output: "two", StopReason: agent.StopMaxTokens}),
			failed("two", "The answer is cut short: it reached the model's output limit."),
		},
		"cut by the provider's filter": {
			completed(output{Output: "two", StopReason: agent.StopFiltered}),
			failed("two", "The answer is cut short: the model provider's content filter stopped it."),
		},
		"tools": {
			completed(output{Output: "x", ToolCalls: []agent.ToolCallNote{fetch, sort}},
				fetching, starts("prepare/retrieve", "retrieve", `{"q":1}`), starts("c2", "sort", `{"by":"old"}`), sorting),
			body("x", `"sort"`, `{"by":"price"}`, "null"),
		},
		"parallel tools": {
			completed(output{Output: "x", ToolCalls: []agent.ToolCallNote{fetch, sort}}, sorting, fetching), body("x", `"sort"`, `{"by":"price"}`, "null"),
		},
		"a tool whose call left no event": {
			completed(output{Output: "x", ToolCalls: []agent.ToolCallNote{fetch}}), body("x", `"fetch"`, "null", "null"),
		},
		"an error": {
			[]agent.Event{fetching, ends(&output{
				Status: agent.TurnFailed, StopReason: agent.StopModelError, Output: "half", ToolCalls: []agent.ToolCallNote{fetch},
				Error: &agent.Failure{Type: "model_error", Message: "the provider said no"},
			})},
			body("half", `"fetch"`, `{"from":"NYC"}`, `"the provider said no"`),
		},
		"an error without words": {
			[]agent.Event{ends(&output{Status: agent.TurnFailed, StopReason: agent.StopWallTime})}, failed("", "the turn failed: wall_time_limit"),
		},
		"cancelled": {[]agent.Event{ends(&output{Status: agent.TurnCancelled, StopReason: agent.StopCancelled})}, failed("", "the turn was cancelled")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			d.script(c.events...)
			a := d.chat(`{"message":"hello","session_id":"s1"}`)
			require.Equal(t, 200, a.status)
			require.Equal(t, c.want+"\n", a.body)
			require.Equal(t, "turn-1", a.header.Get("Turnstone-Turn-Id"))
			require.Equal(t, "/v1/turns/turn-1", a.header.Get("Location"))
		})
	}
}

// TestCopies: a completed answer is handed on once, for the user who asked; no copy is made of a failure, a joined turn or nobody's question.
func TestCopies(t *testing.T) {
	type copied struct{ tenant, user, text string }
	var copies []copied
	d := open(t, func(c *gateway.Config) {
		c.Doors = []gateway.Door{chat.New(func(tenant, user, text string) { copies = append(copies, copied{tenant, user, text}) })}
	})
	d.script(ends(&agent.AgentStepOutput{Status: agent.TurnCompleted, Output: "three flights"}))
	for _, body := range []string{
		`{"message":"hello","user_id":"ann","idempotency_key":"k"}`, `{"message":"hello","user_id":"ann","idempotency_key":"k"}`, `{"message":"hello"}`,
	} {
		require.Equal(t, 200, d.chat(body).status)
	}
	d.script(ends(&agent.AgentStepOutput{Status: agent.TurnFailed, StopReason: agent.StopModelError, Output: "half"}))
	require.Equal(t, 200, d.chat(`{"message":"hello","user_id":"ann"}`).status)
	require.Equal(t, []copied{{"default", "ann", "three flights"}}, copies)
}

// TestRequests is what becomes of requests.
func TestRequests(t *testing.T) {
	cases := map[string]struct{ body, want string }{
		"the least":        {`{"message":"hello"}`, `{"message":"hello","session_id":"turn-1"}`},
		"history loaded":   {`{"message":"hello","session_id":"s1","chat_history":null}`, `{"message":"hello","session_id":"s1"}`},
		"history left out": {`{"message":"hello","session_id":"s1","agent_name":"analyst"}`, `{"message":"hello","session_id":"s1","agent":"analyst"}`},
		"fresh":            {`{"message":"hello","session_id":"s1","chat_history":[]}`, `{"message":"hello","session_id":"s1","history":"fresh"}`},
		"agent, by its alias": {
			`{"message":"hello","agent":"analyst","agent_name":"analyst","session_id":"s1"}`, `{"message":"hello","agent":"analyst","session_id":"s1"}`,
		},
		"a history of its own": {
			`{"message":"and now?","session_id":"s1","chat_history":[{"role":"system","content":"Be brief."},{"role":"user","content":"hello"},
			{"role":"assistant","blocks":[{"type":"tool_call","id":"c1","name":"f","args":{}}]},
			{"role":"tool","blocks":[{"type":"tool_result","tool_call_id":"c1","status":"success","output":"x"}]},{"role":"assistant","content":"hi"}]}`,
			`{"session_id":"s1","history":"fresh","messages":[{"role":"system","blocks":[{"type":"text","text":"Be brief."}]},
			{"role":"user","blocks":[{"type":"text","text":"hello"}]},{"role":"assistant","blocks":[{"type":"tool_call","id":"c1","name":"f","args":{}}]},
			{"role":"tool","blocks":[{"type":"tool_result","tool_call_id":"c1","status":"success","output":"x"}]},
			{"role":"assistant","blocks":[{"type":"text","text":"hi"}]},{"role":"user","blocks":[{"type":"text","text":"and now?"}]}]}`,
		},
		"everything else": {
			`{"message":"hello","session_id":"s1","user_id":"u1","model":"fast","on_busy":"reject","idempotency_key":"k",
			"context":{"user_id":"u1","ui_page":"home","flags":{"beta":true},"metadata":{"x":1}}}`,
			`{"message":"hello","session_id":"s1","model":"fast","on_busy":"reject","idempotency_key":"k",
			"context":{"user_id":"u1","ui_page":"home","flags":{"beta":true},"metadata":{"x":1}}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			d := open(t, nil)
			var got agent.TurnRequest
			d.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
				got = r
				rt.Say(id, "x")
			}
			a := d.chat(c.body)
			require.Equal(t, 200, a.status, "%s", a.body)
			require.Equal(t, "web", got.Channel)
			require.Equal(t, "web", d.rt.Submitted()[0].Channel)
			require.Equal(t, "default", got.Context.Tenant)
			got.Channel, got.Context.Tenant = "", ""
			raw, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, c.want, string(raw))
			require.Contains(t, a.body, `"session_id":"`+string(got.SessionID)+`"`)
		})
	}
}

func TestBadRequests(t *testing.T) {
	cases := map[string]struct{ body, field string }{
		"no message":              {`{}`, "message"},
		"a blank message":         {`{"message":" \n"}`, "message"},
		"an unknown field":        {`{"message":"x","mesage":"x"}`, "mesage"},
		"stream_to":               {`{"message":"x","stream_to":{"workflow_id":"w","signal":"s"}}`, "stream_to"},
		"an odd session":          {`{"message":"x","session_id":"a b"}`, "session_id"},
		"an odd agent":            {`{"message":"x","agent":"a b"}`, "agent"},
		"an odd agent_name":       {`{"message":"x","agent_name":"a b"}`, "agent_name"},
		"two agents":              {`{"message":"x","agent":"a","agent_name":"b"}`, "agent"},
		"two users":               {`{"message":"x","user_id":"a","context":{"user_id":"b"}}`, "user_id"},
		"a history of no kind":    {`{"message":"x","chat_history":{}}`, "chat_history"},
		"an entry of no content":  {`{"message":"x","chat_history":[{"role":"user"}]}`, "chat_history[0]"},
		"an entry of two":         {`{"message":"x","chat_history":[{"role":"user","content":"a","blocks":[{"type":"text","text":"b"}]}]}`, "chat_history[0]"},
		"an entry of no role":     {`{"message":"x","chat_history":[{"content":"a"}]}`, "chat_history[0].role"},
		"an entry of blanks":      {`{"message":"x","chat_history":[{"role":"user","content":"a"},{"role":"user","content":" "}]}`, "chat_history[1].blocks[0].text"},
		"a tool's words":          {`{"message":"x","chat_history":[{"role":"tool","content":"a"}]}`, "chat_history[0].blocks"},
		"a result of no call":     {`{"message":"x","chat_history":[{"role":"tool","blocks":[{"type":"tool_result","tool_call_id":"c","status":"success"}]}]}`, "chat_history[0].blocks[0].tool_call_id"},
		"something unknown in it": {`{"message":"x","chat_history":[{"role":"user","text":"a"}]}`, "chat_history[0].text"},
		"an odd wish":             {`{"message":"x","on_busy":"shout"}`, "on_busy"},
		"two keys":                {`{"message":"x","idempotency_key":"other"}`, "idempotency_key"},
	}
	d := open(t, nil)
	d.script(ends(&agent.AgentStepOutput{Status: agent.TurnCompleted, Output: "an answer, though the request is bad"}))
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := d.chat(c.body, "Idempotency-Key", "k")
			require.Equal(t, 400, a.status, "%s", a.body)
			var body struct {
				Error agent.Failure `json:"error"`
			}
			require.NoError(t, json.Unmarshal([]byte(a.body), &body))
			require.Equal(t, c.field, body.Error.Field, "%s", a.body)
		})
	}
	require.Empty(t, d.rt.Submitted(), "a refused request starts nothing")
}

// TestRefusals: what keeps a turn from beginning is an HTTP status, as at every other door.
func TestRefusals(t *testing.T) {
	for status, err := range map[int]error{
		404: agent.FieldErrorf(agent.CodeNotFound, "agent", "there is none"), 409: agent.Errorf(agent.CodeConflict, "", "busy"),
		429: &agent.Error{Code: agent.CodeRateLimited, RetryAfter: 7 * time.Second, Err: errors.New("many")},
		503: agent.Errorf(agent.CodeUnavailable, "", "later"), 500: errors.New("connect to db.internal"),
	} {
		d := open(t, nil)
		d.rt.Refuse = func(agent.Envelope) error { return err }
		a := d.chat(`{"message":"x"}`)
		require.Equal(t, status, a.status)
		require.Equal(t, map[int]string{429: "7", 503: "1"}[status], a.header.Get("Retry-After"))
		require.NotContains(t, a.body, "db.internal")
	}
}

// A fault of a turn's request is told under the name that the body of this API has.
func TestFaultsNameTheFieldOfTheBody(t *testing.T) {
	d := open(t, nil)
	for _, c := range [][3]string{
		{`{"message":"x","user_id":"u"}`, "context.user_id", "user_id"},
		{`{"message":"x","context":{"user_id":"u"}}`, "context.user_id", "context.user_id"},
		{`{"message":"x","agent_name":"a"}`, "agent", "agent_name"},
		{`{"message":"x","agent":"a"}`, "agent", "agent"},
		{`{"message":"x","chat_history":[{"role":"user","content":"a"}]}`, "messages[0].role", "chat_history[0].role"},
	} {
		d.rt.Refuse = func(agent.Envelope) error { return agent.Invalid(c[1], "is odd") }
		require.Contains(t, d.chat(c[0]).body, `"field":"`+c[2]+`"`)
	}
}

func TestHumanPause(t *testing.T) {
	d := open(t, nil)
	d.script(gatewaytest.Status(agent.StatusRunning),
		agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: "a1", ToolName: "send_mail"}},
		gatewaytest.Status(agent.StatusWaiting))
	a := d.chat(`{"message":"send it","idempotency_key":"k"}`)
	require.Equal(t, 202, a.status)
	require.JSONEq(t, `{"output":"This waits for a person to decide: send_mail.","session_id":"turn-1","tool_name":null,"tool_input":null,"error":null,`+
		`"turn_id":"turn-1","stream_id":"turn-1","state":"waiting","status":"waiting","pending":[{"approval_id":"a1","turn_id":"","call_id":"","step":0,`+
		`"tool_name":"send_mail"}]}`, a.body)

	d.rt.Emit("turn-1", agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{ApprovalID: "a1"}}, starts("c1", "send_mail", `{"to":"x"}`),
		ends(&agent.AgentStepOutput{Status: agent.TurnCompleted, Output: "Sent.", ToolCalls: []agent.ToolCallNote{{ID: "c1", Tool: "send_mail"}}}))
	a = d.chat(`{"message":"send it","idempotency_key":"k"}`)
	require.Equal(t, 200, a.status, "the same request again joins the turn")
	require.Contains(t, a.body, `"tool_name":"send_mail","tool_input":{"to":"x"}`)
	d.rt.Expire(9)
	require.Contains(t, d.chat(`{"message":"send it","idempotency_key":"k"}`).body, `"tool_name":"send_mail","tool_input":null`, "its events are gone")
}

func TestWaitingHasAnEnd(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.WaitTimeout = 20 * time.Millisecond })
	a := d.chat(`{"message":"x"}`)
	require.Equal(t, 202, a.status)
	require.JSONEq(t, `{"output":"","session_id":"turn-1","tool_name":null,"tool_input":null,"error":null,"turn_id":"turn-1","stream_id":"turn-1",`+
		`"state":"running","status":"running"}`, a.body)
}

func TestPlaces(t *testing.T) {
	d := open(t, func(c *gateway.Config) { c.Limits.Streams = 1 })
	first := make(chan answer, 1)
	go func() { first <- d.chat(`{"message":"x"}`) }()
	require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
	require.Equal(t, 429, d.chat(`{"message":"x"}`).status)
	require.Len(t, d.rt.Submitted(), 1)
	d.rt.Say("turn-1", "done")
	require.Equal(t, 200, (<-first).status)
	d.script(ends(&agent.AgentStepOutput{Status: agent.TurnCompleted}))
	for range 3 {
		require.Eventually(t, func() bool { return d.chat(`{"message":"x"}`).status == 200 }, 20*time.Second, time.Millisecond, "the place is free again")
	}
}

func TestShutdown(t *testing.T) {
	d := open(t, nil)
	got := make(chan answer, 1)
	go func() { got <- d.chat(`{"message":"x"}`) }()
	require.Eventually(t, func() bool { return d.rt.Followers() == 1 }, 20*time.Second, time.Millisecond)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	require.NoError(t, d.Shutdown(ctx))
	require.Equal(t, 202, (<-got).status, "the turn was accepted and goes on")
}
