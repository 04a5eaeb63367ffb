package cli

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/turnstone-run/turnstone/agent"
	"github.com/turnstone-run/turnstone/internal/gateway/gatewaytest"
)

// flights is a turn with a pipeline, its result and the answer.
func flights(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
	rt.Emit(id, gatewaytest.Status(agent.StatusRunning),
		agent.Event{Type: agent.EventRoute, Route: json.RawMessage(`{}`)},
		agent.Event{
			Type: agent.EventToolStart, ToolCallID: "c1", ToolName: "execute_pipeline",
			Input: json.RawMessage(`{"pipeline":[{"step":"http_request","url":"http://flights/search","params":{"origin":"NYC"}},` +
				`{"step":"table_sort","field":"price"},{"step":"top_k","k":3}]}`),
		},
		agent.Event{Type: agent.EventToolProgress, ToolCallID: "c1", ToolName: "execute_pipeline", Text: "fetched 20 rows"},
		agent.Event{
			Type: agent.EventToolEnd, ToolCallID: "c1", ToolName: "execute_pipeline", Output: json.RawMessage(`{"rows": [{"price": 199}]}`),
		},
		agent.Event{Meta: agent.EventMeta{Producer: "model/2"}, Type: agent.EventToken, Text: "The cheapest flight\n"},
		agent.Event{Meta: agent.EventMeta{Producer: "model/2"}, Type: agent.EventToken, Text: "costs $199."},
		agent.Event{Type: agent.EventUsage, Usage: &agent.Usage{InputTokens: 10}},
	)
	rt.Finish(id, agent.TurnCompleted, "The cheapest flight\ncosts $199.")
}

func TestChat(t *testing.T) {
	b := setup(t)
	b.rt.Script = flights
	require.Equal(t, 0, b.run(noInput(), "chat", "--session", "s1", "--agent", "analyst", "--model", "offline", "fetch", "flights"))
	golden(t, "chat", b.screen.String())
	require.Equal(t, "The cheapest flight\ncosts $199.\n", b.screen.out(), "standard output has only the answer")
	r := b.rt.Submitted()[0].Request
	require.Equal(t, "fetch flights", r.Message)
	require.Equal(t, "analyst", r.Agent)
	require.Equal(t, "offline", r.Model)
	require.Equal(t, "cli", r.Channel)
	require.Equal(t, agent.TurnID("turn-2"), answer[agent.AgentStepOutput](b, "chat", "x").TurnID)
}

func TestChatLoopKeepsTheSession(t *testing.T) {
	b := setup(t)
	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, r agent.TurnRequest) {
		if r.Message == "break" {
			rt.Finish(id, agent.TurnFailed, "")
			return
		}
		rt.Say(id, "you said "+r.Message)
	}
	require.Equal(t, 0, b.run(strings.NewReader("hello\n\nbreak\nagain\n/quit\nnot read\n"), "chat", "--session", "s1"))
	golden(t, "chat_loop", b.screen.String())
	sent := b.rt.Submitted()
	require.Len(t, sent, 3)
	for _, e := range sent {
		require.Equal(t, agent.SessionID("s1"), e.Request.SessionID)
	}
	require.Equal(t, 0, b.run(strings.NewReader("one\ntwo"), "chat"))
	sent = b.rt.Submitted()[3:]
	require.Equal(t, sent[0].Request.SessionID, sent[1].Request.SessionID, "both turns have the same new session")
	require.True(t, strings.HasPrefix(string(sent[0].Request.SessionID), "cli-"))
}

func TestChatShowsNothingTwice(t *testing.T) {
	say := gatewaytest.Token
	reset := func(from int64) agent.Event {
		return agent.Event{Type: agent.EventReset, Producer: "model/1", FromIndex: from}
	}
	const void = "↻ the model started again; the text above is void\n"
	cases := map[string]struct {
		events []agent.Event
		answer string
		want   string
	}{
		"the same again":     {[]agent.Event{say("Hello "), say("wor"), reset(1), say("Hel"), say("lo world")}, "Hello world", "Hello world\n"},
		"the same, shorter":  {[]agent.Event{say("Hello world"), reset(1), say("Hello")}, "Hello", "Hello world\n" + void + "Hello\n"},
		"different text":     {[]agent.Event{say("Hello "), reset(1), say("Good"), say(" day")}, "Good day", "Hello \n" + void + "Good day\n"},
		"from the middle":    {[]agent.Event{say("Hello "), say("moon"), reset(2), say("moon"), say("light")}, "Hello moonlight", "Hello moonlight\n"},
		"twice":              {[]agent.Event{say("a"), reset(1), say("a"), say("b"), reset(1), say("ab"), say("c")}, "abc", "abc\n"},
		"reset of another":   {[]agent.Event{say("a"), {Type: agent.EventReset, Producer: "model/9", FromIndex: 1}, say("b")}, "ab", "ab\n"},
		"reset at the start": {[]agent.Event{reset(1), say("a")}, "a", "a\n"},
		"not streamed":       {nil, "the whole answer", "the whole answer\n"},
		"control characters": {[]agent.Event{say("a\x1b[2Jb\r\n")}, "ab", "a\uFFFD[2Jb\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
				rt.Emit(id, c.events...)
				rt.Finish(id, agent.TurnCompleted, c.answer)
			}
			require.Equal(t, 0, b.run(noInput(), "chat", "x"))
			got, _, _ := strings.Cut(b.screen.String(), "— turn")
			require.Equal(t, c.want, got)
		})
	}
}

func TestChatAsksForApprovals(t *testing.T) {
	cases := map[string]struct {
		typed string
		want  agent.Decision
	}{
		"approve":                {"a\n", agent.Decision{Decision: agent.DecisionApprove}},
		"asks again, then edits": {"what?\ne {\"to\"\ne {\"to\":\"you\"}\n", agent.Decision{Decision: agent.DecisionEdit, Args: json.RawMessage(`{"to":"you"}`)}},
		"reject":                 {"r not today\n", agent.Decision{Decision: agent.DecisionReject, Message: "not today"}},
		"respond":                {"= it is sent\n", agent.Decision{Decision: agent.DecisionRespond, Message: "it is sent"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			var got agent.Decision
			b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
				rt.Emit(id, agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{
					ApprovalID: "a1", TurnID: id, ToolName: "send_mail", Args: json.RawMessage(`{"to":"x"}`),
				}}, agent.Event{Type: agent.EventStatus, Status: agent.StatusWaiting, Reason: "approval"})
			}
			b.rt.Decided = func(id agent.TurnID, d agent.Decision) error {
				got = d
				b.rt.Emit(id, agent.Event{Type: agent.EventApprovalResolved, Approval: &agent.Approval{
					ApprovalID: "a1", Decision: d.Decision, By: "me",
				}})
				b.rt.Say(id, "done")
				return nil
			}
			require.Equal(t, 0, b.run(strings.NewReader(c.typed), "chat", "x"))
			c.want.ApprovalID = "a1"
			require.Equal(t, c.want, got)
			if name == "approve" {
				// The order of the prompt and the events is not fixed.
				require.Contains(t, b.screen.String(), "? send_mail wants to run: {\"to\":\"x\"}\n  starter decide turn-1 a1 approve\n")
				require.Contains(t, b.screen.String(), "[a]pprove")
				require.Contains(t, b.screen.String(), "✓ a1: approve by me\n")
			}
		})
	}
}

func TestChatAsksForEachApproval(t *testing.T) {
	b := setup(t)
	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		for _, a := range []string{"a1", "a2"} {
			rt.Emit(id, agent.Event{Type: agent.EventApprovalRequested, Approval: &agent.Approval{ApprovalID: a, TurnID: id, ToolName: "send_mail"}})
		}
		rt.Emit(id, gatewaytest.Status(agent.StatusWaiting))
	}
	var got []string
	b.rt.Decided = func(id agent.TurnID, d agent.Decision) error {
		got = append(got, d.ApprovalID+" "+string(d.Decision))
		switch len(got) {
		case 1:
			return agent.Errorf(agent.CodeConflict, "", "approval a1 is decided already") // somebody else has decided
		default:
			b.rt.Say(id, "done")
			return nil
		}
	}
	require.Equal(t, 0, b.run(strings.NewReader("a\nr\n"), "chat", "x"))
	require.Equal(t, []string{"a1 approve", "a2 reject"}, got)
}

func TestInterruptCancelsThenLeaves(t *testing.T) {
	b := setup(t)
	b.rt.Script = func(rt *gatewaytest.Runtime, id agent.TurnID, _ agent.TurnRequest) {
		rt.Emit(id, gatewaytest.Token("thinking"))
		b.interrupts <- os.Interrupt
	}
	b.rt.Cancelled = func(id agent.TurnID, _ agent.CancelRequest) error {
		b.rt.Finish(id, agent.TurnCancelled, "thinking")
		return nil
	}
	require.Equal(t, exitCancelled, b.run(noInput(), "chat", "x"))
	require.Contains(t, b.screen.String(), "cancelling turn turn-1")

	b.rt.Cancelled = func(agent.TurnID, agent.CancelRequest) error { // does not stop the turn
		b.interrupts <- os.Interrupt
		return nil
	}
	require.Equal(t, exitInterrupted, b.run(noInput(), "chat", "x"))
}

func TestInterruptAtThePrompt(t *testing.T) {
	b := setup(t)
	in, typing := io.Pipe()
	defer typing.Close()
	b.interrupts <- os.Interrupt
	require.Equal(t, 0, b.run(in, "chat"), "Ctrl-C ends a chat without a turn")
}

func TestInterruptStopsTailing(t *testing.T) {
	b := setup(t)
	b.rt.Cancelled = func(agent.TurnID, agent.CancelRequest) error { t.Error("tail cancelled the turn"); return nil }
	require.Equal(t, 0, b.run(noInput(), "start", "x"))
	done := make(chan int, 1)
	go func() { done <- b.run(noInput(), "tail", "turn-1") }()
	require.Eventually(t, func() bool { return b.rt.Followers() == 1 }, 5*time.Second, time.Millisecond)
	b.interrupts <- os.Interrupt
	require.Equal(t, exitInterrupted, <-done)
}

func TestStartTailResults(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "start", "--idempotency-key", "k", "-s", "s1", "hello"))
	require.Equal(t, "turn     turn-1\nsession  s1\n", b.screen.out())
	b.show(0, "start", "--idempotency-key", "k", "hello", "-o", "json")
	require.JSONEq(t, `{"turn_id":"turn-1","session_id":"s1","stream_id":"turn-1"}`, b.screen.out())

	b.rt.Say("turn-1", "one two")
	b.show(0, "tail", "turn-1")
	require.Equal(t, "one two\n", b.screen.out())
	b.show(0, "tail", "turn-1", "--after", "2", "-o", "json")
	require.Equal(t, 2, strings.Count(b.screen.out(), "\n"), "one event per line")
	require.Equal(t, 0, b.run(noInput(), "tail", "turn-1", "--after", "4"), "no more events")
	b.show(0, "results", "get", "artifact://result-of-turn-1", "-o", "raw")
	require.JSONEq(t, `{"output":"one two"}`, b.screen.out())

	require.Equal(t, 0, b.run(noInput(), "start", "again"))
	b.rt.Finish("turn-2", agent.TurnFailed, "")
	require.Equal(t, exitFailed, b.run(noInput(), "tail", "turn-2"))
	require.Contains(t, b.screen.String(), "turn failed: model_error: the provider said no")
	require.Equal(t, exitFailed, b.run(noInput(), "tail", "turn-2", "--after", "1"))
}

func TestCancelAndDecide(t *testing.T) {
	b := setup(t)
	var cancelled agent.CancelRequest
	var decided agent.Decision
	b.rt.Cancelled = func(_ agent.TurnID, c agent.CancelRequest) error { cancelled = c; return nil }
	b.rt.Decided = func(_ agent.TurnID, d agent.Decision) error { decided = d; return nil }
	require.Equal(t, 0, b.run(noInput(), "start", "x"))
	require.Equal(t, 0, b.run(noInput(), "cancel", "turn-1", "--reason", "enough", "--by", "me"))
	require.Equal(t, agent.CancelRequest{Reason: "enough", By: "me"}, cancelled)
	require.Equal(t, 0, b.run(noInput(), "decide", "turn-1", "a1", "edit", "--args", `{"k":1}`, "--by", "me", "--remember"))
	require.Equal(t, agent.Decision{
		ApprovalID: "a1", Decision: agent.DecisionEdit, Args: json.RawMessage(`{"k":1}`), Remember: true, By: "me",
	}, decided)
	require.Equal(t, exitUsage, b.run(noInput(), "decide", "turn-1", "a1", "maybe"))
	require.Equal(t, exitUsage, b.run(noInput(), "decide", "turn-1", "a1", "edit", "--args", "{"))
}

func TestVersion(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput(), "version"))
	require.Equal(t, "starter v1.2.3 (commit abc, go1)\n", b.screen.out())
	b.show(0, "version", "-o", "json")
	require.JSONEq(t, `{"program":"starter","version":"v1.2.3","commit":"abc","go":"go1"}`, b.screen.out())
}

func TestHelp(t *testing.T) {
	b := setup(t)
	require.Equal(t, 0, b.run(noInput()))
	require.Equal(t, 0, b.run(noInput(), "help", "chat"))
	require.Equal(t, 0, b.run(noInput(), "help", "catalog"))
	require.Equal(t, 0, b.run(noInput(), "catalog", "diff", "--help"))
	for _, command := range []string{
		"keys create", "schedules create", "links create", "message", "audit", "usage", "approvals list", "approvals decide", "sessions delete", "knowledge", "knowledge add", "doctor", "results get", "results export", "jobs push", "jobs wait",
	} {
		require.Equal(t, 0, b.run(noInput(), append(strings.Fields(command), "--help")...))
	}
	golden(t, "help", strings.ReplaceAll(b.screen.String(), b.server, defaultServer))
}

func TestExitCodes(t *testing.T) {
	b := setup(t)
	b.rt.Script = says("ok")
	b.rt.Refuse = func(e agent.Envelope) error {
		switch e.Request.Message {
		case "bug":
			return errors.New("secret")
		case "away":
			return agent.Errorf(agent.CodeUnavailable, "", "storage is away")
		case "agent":
			return &agent.Error{Code: agent.CodeNotFound, Field: "agent", Err: errors.New(`no agent "nobody"`)}
		}
		return nil
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	cases := map[string]struct {
		args string
		want int
		text string
	}{
		"completed":          {"chat hello", exitCompleted, "ok"},
		"unknown command":    {"chta", exitUsage, `unknown command "chta"`},
		"unknown flag":       {"chat --nope x", exitUsage, "--nope"},
		"missing argument":   {"start", exitUsage, "requires at least 1 arg"},
		"too many arguments": {"tail a b", exitUsage, "accepts 1 arg"},
		"bad output":         {"agents --output xml", exitUsage, "text or json"},
		"bad turn":           {"cancel a/b", exitUsage, "no turn id"},
		"bad offset":         {"tail t --after -1", exitUsage, "--after"},
		"bad server":         {"agents --server localhost", exitUsage, "http://host:port"},
		"refused":            {"start agent", exitUsage, `agent: no agent "nobody"`},
		"bad session":        {"chat --session a/b x", exitUsage, "session_id"},
		"unknown turn":       {"tail unknown", exitUsage, "no turn"},
		"unknown result":     {"results get unknown", exitUsage, "no result"},
		"internal error":     {"chat bug", exitFailed, "internal error"},
		"not available":      {"chat away", exitUnreachable, "storage is away"},
		"unreachable":        {"chat --server http://" + l.Addr().String() + " x", exitUnreachable, "TURNSTONE_SERVER"},
		"unreachable tail":   {"tail --server http://" + l.Addr().String() + " x", exitUnreachable, "cannot reach the server"},
	}
	for name, c := range cases {
		require.Contains(t, b.show(c.want, strings.Fields(c.args)...), c.text, name)
		require.NotContains(t, b.screen.String(), "secret", name)
	}
}
